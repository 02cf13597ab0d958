"""Computes CPU limits from growth efficiencies (FlowCon thesis, Algorithm 1, lines 18–27): shares of a node, millicores.

Interpretation. The thesis prints one formula for two lists; the authors' code has: a new job gets min(G/ΣG, 1), a completing
one max(G/ΣG, 1/(β·n)), a watched one keeps its limit, with β = 1 + 1/n computed in each run. If all jobs are
completing, none is limited. If ΣG = 0, nothing changes. The lists are those before the run's transitions. Three rules
are our own:

* No limit is below the floor 1/(β·n) of a completing job, not even that of a new one, nor below 1 % of a core. The authors
  round limits down to whole cores and use ``--cpus 0`` below one, which Docker treats as no limit.
* A newborn, which was not measured yet, keeps its limit, which is none. The authors compute 0 for it, with the same effect.
* In ΣG a newborn counts as α, the least efficiency of a job that learns. If it counted as 0, the completing jobs would share
  the whole node in proportion to their small efficiencies, and it would get less than an equal share: the thesis's third job
  (§6.1) ends a third sooner only if both others are at the floor from its start on.
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest.events.cluster import GrowthList

LEAST_M = 10
"""No limit is below 1 % of a core."""

FREE = 1.0
"""The share that means no limit."""


def beta(count: int) -> float:
    """β of a node with ``count`` jobs."""
    return 1 + 1 / count


def floor(count: int) -> float:
    """The smallest share of a limit on a node with ``count`` jobs: 1/(β·n) = 1/(n+1)."""
    return 1 / (count + 1)


def shares(jobs: Sequence[tuple[GrowthList, float | None]], alpha: float) -> list[float | None]:
    """The share of the node that each job is limited to; None: its limit does not change.

    Args:
        jobs: For every job on the node, its list and its efficiency G; None: not known yet.
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
    """ΣG over the known efficiencies, and α for each newborn."""
    return sum(alpha if _is_newborn(*job) else job[1] or 0.0 for job in jobs)


def _is_newborn(growth_list: GrowthList, efficiency: float | None) -> bool:
    """Whether a job was not measured yet and is not known to be completing."""
    return efficiency is None and growth_list is not GrowthList.COMPLETING


def _share(growth_list: GrowthList, efficiency: float | None, total: float, least: float) -> float | None:
    if growth_list is GrowthList.WATCHED or (growth_list is GrowthList.NEW and efficiency is None):
        return None
    return min(max((efficiency or 0.0) / total, least), FREE)


def millicores(share: float, capacity_m: int, granularity_m: int) -> int | None:
    """Convert a share to a CPU limit on a node of this capacity; None: no limit.

    It is rounded down to the granularity, so that a share below 1 always stays a limit; a limit that would be rounded
    to 0 is not rounded, and one below ``LEAST_M`` is raised to it.
    """
    if share >= FREE:
        return None
    exact_m = min(int(round(share * capacity_m, 6)), capacity_m - 1)
    limit_m = max(exact_m // granularity_m * granularity_m or exact_m, LEAST_M)
    return limit_m if limit_m < capacity_m else None
