"""What one policy changes against another, paired by seed: of each figure the mean change and its interval."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from steepest_lab.sim.estimate import half_width
from steepest_lab.sim.result import Summary


class MeanChange(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of a figure's changes, as shares of the figure before: -0.25 is a quarter less.

    Attributes:
        low: Lower end of its 95 % confidence interval; None where there is one pair only.
        high: Upper end.
    """

    mean: float
    low: float | None
    high: float | None

    @property
    def half(self) -> float | None:
        """Half the width of the interval."""
        return None if self.high is None else self.high - self.mean


class PairedChanges(msgspec.Struct, frozen=True, kw_only=True):
    """A policy compared with another one under the same seeds; None where a figure is unknown.

    Attributes:
        against: The other policy.
        seeds: How many.
        left_out: Jobs under all seeds that did not finish under both policies, and are no part of the figures.
        late_share: Mean share of the jobs that ended late, by :attr:`Summary.late_share`.
        late_worst: How much later the job ended that was delayed most under any seed, by :attr:`Summary.late_worst`.
    """

    policy: str
    against: str
    seeds: int
    left_out: int
    mean_jct: MeanChange | None
    median_jct: MeanChange | None
    makespan: MeanChange | None
    mean_t90: MeanChange | None
    late_share: float | None
    late_worst: float | None


def paired_changes(runs: Sequence[Summary], against: str) -> PairedChanges:
    """What a policy changes.

    Args:
        runs: Its runs, at least one, each summed up with the run of the other policy under the same seed.
        against: The other policy.
    """
    shares = [run.late_share for run in runs if run.late_share is not None]
    worst = [run.late_worst for run in runs if run.late_worst is not None]
    return PairedChanges(
        policy=runs[0].policy,
        against=against,
        seeds=len(runs),
        left_out=sum(run.left_out or 0 for run in runs),
        mean_jct=_mean_change([run.mean_jct_change for run in runs]),
        median_jct=_mean_change([run.median_jct_change for run in runs]),
        makespan=_mean_change([run.makespan_change for run in runs]),
        mean_t90=_mean_change([run.mean_t90_change for run in runs]),
        late_share=statistics.fmean(shares) if shares else None,
        late_worst=max(worst, default=None),
    )


def _mean_change(changes: Sequence[float | None]) -> MeanChange | None:
    known = [change for change in changes if change is not None]
    if len(known) < len(changes):
        return None
    mean, half = statistics.fmean(known), half_width(known)
    return MeanChange(mean=mean, low=None if half is None else mean - half, high=None if half is None else mean + half)
