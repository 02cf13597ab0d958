"""Figures of a pair of runs: the same jobs by default, and under a policy.

Completion times are in seconds from submission, changes in per cent of the default run's figure: −10 is a tenth less.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec

from steepest_lab.reproduce.verdict import Unit
from steepest_lab.sim.result import SimulationResult

AS_FAST_PERCENT = 1.0
"""A job is as fast as by default if its completion time changes by at most this: two runs of one job differ as much."""


class BeforeAfter(msgspec.Struct, frozen=True):
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
    of: Callable[[BeforeAfter], float]


def pair_of(before: SimulationResult, after: SimulationResult) -> BeforeAfter:
    """Two runs of one workload, in which every job finished.

    Raises:
        ValueError: One did not.
    """
    return BeforeAfter(
        [job.jct_s for job in before.jobs],
        [job.jct_s for job in after.jobs],
        before.summary().makespan,
        after.summary().makespan,
    )


def change(before: float, after: float) -> float:
    """In per cent."""
    return 100 * (after / before - 1)


def _mean(values: Sequence[float]) -> float:
    """The mean; 0 of none, where no job loses."""
    return statistics.fmean(values) if values else 0.0


def _nine_tenths(values: Sequence[float]) -> float:
    """The 45th of 50, and so on."""
    return sorted(values)[math.ceil(len(values) * 0.9) - 1]


def _early(values: Sequence[float]) -> float:
    return statistics.fmean(values[: len(values) // 2])


def _late(values: Sequence[float]) -> float:
    return statistics.fmean(values[len(values) // 2 :])


def _faster(pair: BeforeAfter) -> float:
    """Of a job that takes as long as by default, a half: in real runs chance makes it one or the other."""
    return sum(one < -AS_FAST_PERCENT for one in pair.changes) + sum(
        0.5 for one in pair.changes if abs(one) <= AS_FAST_PERCENT
    )


def _winners(pair: BeforeAfter) -> list[int]:
    return [number for number, one in enumerate(pair.changes) if one < -AS_FAST_PERCENT]


def _losers(pair: BeforeAfter) -> list[int]:
    return [number for number, one in enumerate(pair.changes) if one > AS_FAST_PERCENT]


def _percent(jobs: Callable[[BeforeAfter], list[int]]) -> Callable[[BeforeAfter], float]:
    return lambda pair: _mean([pair.changes[number] for number in jobs(pair)])


def _seconds(jobs: Callable[[BeforeAfter], list[int]]) -> Callable[[BeforeAfter], float]:
    return lambda pair: _mean([pair.after[number] - pair.before[number] for number in jobs(pair)])


Statistic = Callable[[Sequence[float]], float]

_STATISTICS: Mapping[str, tuple[str, Statistic]] = {
    "mean": ("mean completion", _mean),
    "median": ("median completion", statistics.median),
    "p90": ("completion of the 45th of 50", _nine_tenths),
    "early": ("mean of the first half", _early),
    "late": ("mean of the second half", _late),
    "last": ("completion of the last job", lambda values: values[-1]),
}
"""Of completion times in the order of submission, by name."""


def _default(of: Statistic) -> Callable[[BeforeAfter], float]:
    return lambda pair: of(pair.before)


def _change(of: Statistic) -> Callable[[BeforeAfter], float]:
    return lambda pair: change(of(pair.before), of(pair.after))


DEFAULTS: Mapping[str, Measure] = {
    **{name: Measure(title, Unit.SECONDS, _default(of)) for name, (title, of) in _STATISTICS.items()},
    "makespan": Measure("makespan", Unit.SECONDS, lambda pair: pair.makespan_before),
}
"""Figures of the default run, by name."""

MEASURES: Mapping[str, Measure] = {
    **{
        f"{name}-change": Measure(f"change of {title}", Unit.PERCENT, _change(of))
        for name, (title, of) in _STATISTICS.items()
    },
    "makespan-change": Measure(
        "change of makespan", Unit.PERCENT, lambda pair: change(pair.makespan_before, pair.makespan_after)
    ),
    "faster": Measure("jobs that are faster", Unit.JOBS, _faster),
    "winners": Measure("mean change of the faster jobs", Unit.PERCENT, _percent(_winners)),
    "losers": Measure("mean change of the slower jobs", Unit.PERCENT, _percent(_losers)),
    "winners-s": Measure("mean change of the faster jobs", Unit.SECONDS, _seconds(_winners)),
    "losers-s": Measure("mean change of the slower jobs", Unit.SECONDS, _seconds(_losers)),
    "best": Measure("largest cut of a job", Unit.PERCENT, lambda pair: min(pair.changes)),
    "worst": Measure("largest rise of a job", Unit.PERCENT, lambda pair: max(pair.changes)),
}
"""Effects of a policy, by name."""
