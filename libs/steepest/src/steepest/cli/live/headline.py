"""Four figures of a run: mean and median completion, makespan, and the time until jobs have learned most. Pure.

T90 is the time from a job's submission until 90 % of its own loss reduction is done: of the difference between the means of
its first and its last interval. It is what a policy that schedules by growth improves first: a job that has learned and
still runs to its last step is late in completion time, and not in T90.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable

import msgspec

from steepest.describe import span
from steepest.events.cluster import Outcome
from steepest.read_models.run_timeline import RunTimeline, TimelineJob

REDUCTION = 0.9

FIGURES = {
    "completion_s": "mean completion time",
    "median_s": "median completion time",
    "makespan_s": "makespan",
    "t90_s": "mean time to 90 % of a job's own loss reduction (T90)",
}
"""The figures of :class:`Headline` in words."""


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """A run's figures, in seconds, over the jobs that finished; None where no job has the figure.

    Attributes:
        t90_s: Mean time to 90 % of a job's own loss reduction, with the resolution of an interval.
        completion_s: Mean time from submission to end.
        median_s: Median of these times.
        makespan_s: From the first submission to the last end.
    """

    t90_s: float | None
    completion_s: float | None
    median_s: float | None
    makespan_s: float | None


def headline_of(timeline: RunTimeline) -> Headline:
    """The figures of a run as far as it has come."""
    finished = [job for job in timeline.jobs.values() if job.outcome is Outcome.FINISHED]
    begun = min((job.submitted_ms for job in finished), default=0)
    ended = max((job.ended_ms or 0 for job in finished), default=0)
    return Headline(
        t90_s=_mean(t90_ms(job) for job in finished),
        completion_s=_mean(job.completion_ms for job in finished),
        median_s=statistics.median((job.completion_ms or 0) / 1000 for job in finished) if finished else None,
        makespan_s=(ended - begun) / 1000 if finished else None,
    )


def t90_ms(job: TimelineJob) -> int | None:
    """From a job's submission to the end of the interval in which 90 % of its loss reduction was done; None without any."""
    reduction = job.means[0] - job.means[-1] if job.means else 0.0
    if reduction <= 0:
        return None
    done = (at_ms for at_ms, mean in zip(job.measured_ms, job.means, strict=True) if _share(job, mean) >= REDUCTION)
    return next(done) - job.submitted_ms


def _share(job: TimelineJob, mean: float) -> float:
    """The share of a job's loss reduction that is done; exactly 1 at its last mean."""
    return 1.0 if mean == job.means[-1] else (job.means[0] - mean) / (job.means[0] - job.means[-1])


def in_words(figures: Headline) -> str:
    """``T90 21 s · completion 41 s``; empty before the first job has finished."""
    named = (("T90", figures.t90_s), ("completion", figures.completion_s))
    return " · ".join(f"{name} {span(round(1000 * value))}" for name, value in named if value is not None)


def _mean(values_ms: Iterable[int | None]) -> float | None:
    known = [value / 1000 for value in values_ms if value is not None]
    return statistics.fmean(known) if known else None
