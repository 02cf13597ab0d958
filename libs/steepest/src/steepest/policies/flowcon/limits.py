"""From growth efficiencies to CPU limits (FlowCon thesis, Algorithm 1, lines 18–27): shares of a node, and millicores.

The reading. The thesis prints one formula for two lists; the authors' code has: a new job gets min(G/ΣG, 1), a
completing one max(G/ΣG, 1/(β·n)), a watched one keeps what it has, with β = 1 + 1/n taken anew at each run. Where all
complete, all are free. Where ΣG = 0 nothing changes. Lists are those held before the run's transitions. Three things
are ours:

* No limit is below the floor 1/(β·n) of a completing job, also that of a new one, nor below 1 % of a core. The authors
  cut limits down to whole cores and give ``--cpus 0`` for what is below one, which Docker takes for no limit at all.
* A newborn, of which nothing was measured yet, keeps what it has: no limit. The authors compute 0 for it, with that
  effect.
* In ΣG a newborn counts with α, the least efficiency of a job that learns. Were it nothing, those that complete would
  divide the node between themselves by their own small efficiencies, and it would get less than an equal share: the
  thesis's third job (§6.1) ends a third sooner only where both others have the floor from its start on.
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest.events.cluster import GrowthList

LEAST_M = 10
"""No limit is below 1 % of a core."""

FREE = 1.0
"""The share that means no limit."""


def beta(count: int) -> float:
    """β of a node with so many jobs."""
    return 1 + 1 / count


def floor(count: int) -> float:
    """The least share that a limit leaves on a node with so many jobs: 1/(β·n) = 1/(n+1)."""
    return 1 / (count + 1)


def shares(jobs: Sequence[tuple[GrowthList, float | None]], alpha: float) -> list[float | None]:
    """The share of the node that each job is limited to; None where its limit stays what it is.

    Args:
        jobs: Of every job on the node the list that it is in and its efficiency G; None: not known yet.
        alpha: Threshold α, in the unit of G.
    """
    if all(growth_list is GrowthList.COMPLETING for growth_list, _ in jobs):
        return [FREE] * len(jobs)
    total = sum_of(jobs, alpha)
    if not total:
        return [None] * len(jobs)
    least = floor(len(jobs))
    return [_share(growth_list, efficiency, total, least) for growth_list, efficiency in jobs]


def sum_of(jobs: Sequence[tuple[GrowthList, float | None]], alpha: float) -> float:
    """ΣG over what is known, and over newborns."""
    return sum(alpha if _is_newborn(*job) else job[1] or 0.0 for job in jobs)


def _is_newborn(growth_list: GrowthList, efficiency: float | None) -> bool:
    """Whether nothing was measured of a job yet, which is not known to complete either."""
    return efficiency is None and growth_list is not GrowthList.COMPLETING


def _share(growth_list: GrowthList, efficiency: float | None, total: float, least: float) -> float | None:
    if growth_list is GrowthList.WATCHED or (growth_list is GrowthList.NEW and efficiency is None):
        return None
    return min(max((efficiency or 0.0) / total, least), FREE)


def millicores(share: float, capacity_m: int, granularity_m: int) -> int | None:
    """A share as a CPU limit of a node with this capacity; None: no limit.

    It is rounded down, so that no share below the whole becomes no limit; what rounding would make nothing of is left as
    it is, and what is below ``LEAST_M`` is that.
    """
    if share >= FREE:
        return None
    exact_m = min(int(round(share * capacity_m, 6)), capacity_m - 1)
    limit_m = max(exact_m // granularity_m * granularity_m or exact_m, LEAST_M)
    return limit_m if limit_m < capacity_m else None
