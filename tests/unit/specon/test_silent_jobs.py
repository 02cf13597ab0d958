"""Jobs whose end the categorizer never hears of: how long it watches them, and that nothing else ends a watch."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from steepest.events.loss import JobUnwatched, JobWatched, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import SEQUENCE, SOURCE, Received
from steepest.policies.specon import categorizer as module
from steepest.policies.specon.categorizer import Categorizer

DAY_MS = 86_400_000


class Partition:
    """A partition of ``loss`` in which jobs begin and end all the time."""

    def __init__(self) -> None:
        self.categorizer = Categorizer()
        self.now_ms = 0
        self._begun = 0

    def feed(self, event: JobWatched | LossReported | JobUnwatched, ahead_ms: int = 0) -> None:
        """A record, by a clock that may be ahead."""
        at_ms = self.now_ms + ahead_ms
        self.categorizer.step(Received(event=event, topic="loss", partition=0, offset=0, at_ms=at_ms))

    def begin(self, job: str, ahead_ms: int = 0) -> None:
        """A job is watched, and reports."""
        parameters = SpeConParameters()
        watched = JobWatched(job=job, pool="p", incarnation=1, metric="loss", parameters=parameters)
        self.feed(watched, ahead_ms)
        self.report(job, ahead_ms)

    def report(self, job: str, ahead_ms: int = 0) -> None:
        """A job reports."""
        self.feed(LossReported(job=job, incarnation=1, value=1.0), ahead_ms)

    def days(self, days: int, others: Iterable[str] = ()) -> None:
        """Days in each of which a hundred jobs run, and others report now and then."""
        for _ in range(days):
            begun = [f"job-{self._begun + number}" for number in range(100)]
            self._begun += 100
            for job in begun:
                self.begin(job)
            self.now_ms += DAY_MS
            for job in (*begun, *others):
                self.report(job)
            for job in begun:
                self.feed(JobUnwatched(job=job))

    @property
    def watched(self) -> set[str]:
        """The jobs that are watched."""
        return set(self.categorizer.state.jobs)


def test_a_job_of_which_nothing_is_heard_is_watched_for_a_week() -> None:
    """By the times of the others' records; one that reports now and then is watched for as long as it does."""
    partition = Partition()
    partition.begin("orphan")
    partition.begin("slow")
    partition.days(6, others=["slow"])
    assert partition.watched == {"orphan", "slow"}
    partition.days(4, others=["slow"])

    assert partition.watched == {"slow"}


def test_orphans_are_those_of_some_more_than_a_week_after_a_year_as_after_a_month() -> None:
    """One in twenty jobs is never said to have ended."""
    partition = Partition()
    counts = []
    for month in range(12):
        for day in range(30):
            for number in range(5):
                partition.begin(f"orphan-{month}-{day}-{number}")
            partition.days(1)
        counts.append(len(partition.watched))

    assert min(counts) >= 7 * 5
    assert max(counts) <= 9 * 5


@pytest.mark.parametrize("wrong_ms", [10 * 365 * DAY_MS, -10 * 365 * DAY_MS])
def test_a_clock_that_is_wrong_ends_no_watch(wrong_ms: int) -> None:
    """Neither that of its own job, which goes on reporting, nor any other's."""
    partition = Partition()
    partition.now_ms = 20 * 365 * DAY_MS
    partition.begin("wrong", wrong_ms)
    partition.begin("other")
    for _ in range(10):
        partition.days(1, others=["other"])
        partition.report("wrong", wrong_ms)

    assert partition.watched == {"wrong", "other"}


def test_more_jobs_than_are_kept_go_by_their_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those go of which nothing was heard for longest."""
    monkeypatch.setattr(module, "JOBS_KEPT", 50)
    partition = Partition()
    for number in range(100):
        partition.begin(f"orphan-{number:02}")
        partition.now_ms += 1

    assert len(partition.watched) <= 50 + module.LOOK_EVERY
    assert max(f"orphan-{number}" for number in range(50)) not in partition.watched
    assert "orphan-99" in partition.watched


def test_the_sources_of_a_job_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of them go; a job that names ever new ones fills no memory."""
    monkeypatch.setattr(module, "SOURCES_KEPT", 3)
    partition = Partition()
    partition.begin("a")
    for number in range(5):
        headers = {SOURCE: f"a.{number}", SEQUENCE: "1"}
        event = LossReported(job="a", incarnation=1, value=1.0)
        partition.categorizer.step(Received(event=event, topic="loss", partition=0, offset=0, at_ms=0, headers=headers))

    assert list(partition.categorizer.state.jobs["a"].sequences) == ["a.2", "a.3", "a.4"]
