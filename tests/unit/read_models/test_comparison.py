"""Two runs side by side: each job's completion, and how fast the sum of the losses fell."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, submitted

from steepest.events import cluster as c
from steepest.read_models.comparison import POINTS, compared, summed_loss
from steepest.read_models.run_timeline import RunTimeline


class Run(FoldedPool):
    """A pool with a history."""

    def __init__(self) -> None:
        self.timeline = RunTimeline()
        super().__init__(w1=1_000)

    def take_in(self, received: Any) -> bool:
        """Fold a record."""
        accepted = super().take_in(received)
        self.timeline.fold(received)
        return accepted

    def mean(self, job: str, interval: int, mean: float) -> None:
        """A mean of an interval."""
        measured = c.GrowthMeasured(
            job=job,
            interval=interval,
            total=2 * mean,
            count=2,
            largest=mean,
            first_ms=self.now_ms,
            last_ms=self.now_ms,
            growth=0.1,
            category=c.Category.PROGRESSING,
        )
        self.fold(measured)


def run(job_s: int) -> Run:
    """A job that halves its loss and takes so many seconds."""
    pool = Run()
    pool.run("a", "w1")
    pool.mean("a", 1, 4.0)
    pool.tick(1_000 * job_s // 2)
    pool.mean("a", 2, 2.0)
    pool.tick(1_000 * job_s // 2)
    pool.end("a")
    return pool


def test_completion_times_are_from_submission_to_end() -> None:
    """Of each job in both runs; one that a run lacks, or that goes on, has none, and leaves the makespan open."""
    first, second = run(10), run(20)
    second.fold(submitted("b"))
    found = compared(("one", "first", first.timeline), ("two", "second", second.timeline))

    assert [(job.job, job.first_ms, job.second_ms) for job in found.jobs] == [("a", 10_000, 20_000), ("b", None, None)]
    assert (found.first.mean_ms, found.first.makespan_ms) == (10_000, 10_000)
    assert (found.second.jobs, found.second.ended, found.second.makespan_ms) == (2, 1, None)


def test_the_sum_of_losses_starts_at_one_for_each_job() -> None:
    """A job counts as 1 until it reports, and then as the share of its first mean that is left."""
    curve = summed_loss(run(10).timeline)

    assert len(curve) == POINTS + 1
    assert curve[0] == (0, 1.0)
    assert curve[-1][1] == pytest.approx(0.5)
    assert [share for _, share in curve] == sorted((share for _, share in curve), reverse=True)


def test_an_empty_run_has_no_curve() -> None:
    """Nothing to sum, and no mean of nothing."""
    found = compared(("one", "", RunTimeline()), ("two", "", RunTimeline()))

    assert (found.jobs, found.first.summed_loss, found.first.mean_ms) == ([], [], None)
