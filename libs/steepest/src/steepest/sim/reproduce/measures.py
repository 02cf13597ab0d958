"""What is read off a pair of runs: the same jobs by default, and under a policy.

Completion times are in seconds from submission, changes in per cent of the default run's figure: −10 is a tenth less.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec

from steepest.sim.reproduce.verdict import Unit
from steepest.sim.result import SimulationResult

AS_FAST_PERCENT = 1.0
"""A job that takes at most so much longer is as fast as by default: two runs of one job differ by that."""


class Pair(msgspec.Struct, frozen=True):
    """Completion times of the jobs in the order of their submission, and makespans, of both runs."""

    before: Sequence[float]
    after: Sequence[float]
    makespan_before: float
    makespan_after: float

    @property
    def changes(self) -> list[float]:
        """Of each job's completion time, in per cent."""
        return [change(before, after) for before, after in zip(self.before, self.after, strict=True)]


class Measure(msgspec.Struct, frozen=True):
    """A figure of a pair: its words, its unit, and how it is read."""

    title: str
    unit: Unit
    of: Callable[[Pair], float]


def pair_of(before: SimulationResult, after: SimulationResult) -> Pair:
    """Two runs of one workload, in which every job finished.

    Raises:
        ValueError: One did not.
    """
    return Pair(
        [job.jct_s for job in before.jobs],
        [job.jct_s for job in after.jobs],
        before.summary().makespan,
        after.summary().makespan,
    )


def change(before: float, after: float) -> float:
    """In per cent."""
    return 100 * (after / before - 1)


def _mean(values: Sequence[float]) -> float:
    """The mean; 0 of none, since where nobody loses, the losers lose nothing."""
    return statistics.fmean(values) if values else 0.0


def _nine_tenths(values: Sequence[float]) -> float:
    """The 45th of 50, and so on."""
    return sorted(values)[math.ceil(len(values) * 0.9) - 1]


def _early(values: Sequence[float]) -> float:
    return statistics.fmean(values[: len(values) // 2])


def _late(values: Sequence[float]) -> float:
    return statistics.fmean(values[len(values) // 2 :])


MEASURES: Mapping[str, Measure] = {
    "default-mean": Measure("mean completion, default", Unit.SECONDS, lambda p: _mean(p.before)),
    "mean": Measure("mean completion", Unit.SECONDS, lambda p: _mean(p.after)),
    "mean-change": Measure(
        "change of mean completion", Unit.PERCENT, lambda p: change(_mean(p.before), _mean(p.after))
    ),
    "default-makespan": Measure("makespan, default", Unit.SECONDS, lambda p: p.makespan_before),
    "makespan": Measure("makespan", Unit.SECONDS, lambda p: p.makespan_after),
    "makespan-change": Measure(
        "change of makespan", Unit.PERCENT, lambda p: change(p.makespan_before, p.makespan_after)
    ),
    "faster": Measure("jobs that are faster", Unit.JOBS, lambda p: float(sum(one < 0 for one in p.changes))),
    "not-slower": Measure(
        f"jobs that are faster, or as fast ({AS_FAST_PERCENT:g} %)",
        Unit.JOBS,
        lambda p: float(sum(one <= AS_FAST_PERCENT for one in p.changes)),
    ),
    "winners": Measure("mean change of those", Unit.PERCENT, lambda p: _mean([one for one in p.changes if one < 0])),
    "losers": Measure(
        "mean change of the others", Unit.PERCENT, lambda p: _mean([one for one in p.changes if one >= 0])
    ),
    "best": Measure("largest cut of a job", Unit.PERCENT, lambda p: min(p.changes)),
    "worst": Measure("largest rise of a job", Unit.PERCENT, lambda p: max(p.changes)),
    "default-median": Measure("median completion, default", Unit.SECONDS, lambda p: statistics.median(p.before)),
    "median": Measure("median completion", Unit.SECONDS, lambda p: statistics.median(p.after)),
    "default-p90": Measure("completion of the 45th of 50, default", Unit.SECONDS, lambda p: _nine_tenths(p.before)),
    "p90": Measure("completion of the 45th of 50", Unit.SECONDS, lambda p: _nine_tenths(p.after)),
    "default-early": Measure("mean of the first half, default", Unit.SECONDS, lambda p: _early(p.before)),
    "early": Measure("mean of the first half", Unit.SECONDS, lambda p: _early(p.after)),
    "default-late": Measure("mean of the second half, default", Unit.SECONDS, lambda p: _late(p.before)),
    "late": Measure("mean of the second half", Unit.SECONDS, lambda p: _late(p.after)),
    "default-last": Measure("completion of the last job, default", Unit.SECONDS, lambda p: p.before[-1]),
    "last": Measure("completion of the last job", Unit.SECONDS, lambda p: p.after[-1]),
    "last-change": Measure("change of the last job's completion", Unit.PERCENT, lambda p: p.changes[-1]),
}
"""By name."""
