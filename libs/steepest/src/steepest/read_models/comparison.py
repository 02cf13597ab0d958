"""Two runs of the same jobs side by side: when each job was complete, and how fast the sum of the losses fell.

It owns what is compared. Pure: a function of the two timelines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from steepest.read_models.run_timeline import RunTimeline, TimelineJob

POINTS = 120
"""Points of a summed curve."""


class ComparedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job in both runs. Times are milliseconds from its submission to its end; None: it is not over, or not there."""

    job: str
    first_ms: int | None = None
    second_ms: int | None = None


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run.

    Attributes:
        ended: Jobs that are over.
        mean_ms: Their mean completion time; None without any.
        makespan_ms: From the first record to the last end; None while a job goes on.
        summed_loss: Times from the first record in milliseconds, and the sum over all jobs of the newest mean loss as a
            share of the job's first one. A job counts as 1 before it reports, so that runs are comparable.
    """

    pool: str
    title: str
    jobs: int
    ended: int
    moves: int
    mean_ms: float | None
    makespan_ms: int | None
    summed_loss: Sequence[tuple[int, float]]


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs, and their jobs."""

    first: ComparedRun
    second: ComparedRun
    jobs: Sequence[ComparedJob]


def compared(first: tuple[str, str, RunTimeline], second: tuple[str, str, RunTimeline]) -> RunComparison:
    """Compare two runs; each is its pool, a title and its timeline."""
    a, b = first[2].jobs, second[2].jobs
    names = dict.fromkeys([*a, *b])
    return RunComparison(
        first=_run(*first),
        second=_run(*second),
        jobs=[
            ComparedJob(job=name, first_ms=_completion(a.get(name)), second_ms=_completion(b.get(name)))
            for name in names
        ],
    )


def _completion(job: TimelineJob | None) -> int | None:
    return None if job is None else job.completion_ms


def _run(pool: str, title: str, timeline: RunTimeline) -> ComparedRun:
    times = [at for job in timeline.jobs.values() if (at := job.completion_ms) is not None]
    ends = [job.ended_ms for job in timeline.jobs.values() if job.ended_ms is not None]
    all_over = bool(ends) and len(ends) == len(timeline.jobs)
    return ComparedRun(
        pool=pool,
        title=title,
        jobs=len(timeline.jobs),
        ended=len(ends),
        moves=sum(job.moves for job in timeline.view.jobs),
        mean_ms=sum(times) / len(times) if times else None,
        makespan_ms=max(ends) - timeline.began_ms if all_over else None,
        summed_loss=summed_loss(timeline),
    )


def summed_loss(timeline: RunTimeline) -> list[tuple[int, float]]:
    """See :class:`ComparedRun`."""
    if not timeline.jobs or timeline.now_ms <= timeline.began_ms:
        return []
    step = (timeline.now_ms - timeline.began_ms) / POINTS
    times = [timeline.began_ms + round(step * number) for number in range(POINTS + 1)]
    return [(at - timeline.began_ms, sum(_share(job, at) for job in timeline.jobs.values())) for at in times]


def _share(job: TimelineJob, at_ms: int) -> float:
    place = bisect_right(job.measured_ms, at_ms)
    if place == 0 or not job.means[0]:
        return 1.0
    return job.means[place - 1] / job.means[0]
