"""Hours that jobs held without effect: each counted once, in its week, and no more than the job held."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import START_MS, FoldedPool

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.growth import FindingKind
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.read_models.held_hours import ALL, WITHOUT_EFFECT, HeldHours, HoldingRow

HOUR_MS, WEEK_MS = 3_600_000, 7 * 24 * 3_600_000


ACT = st.tuples(st.sampled_from(FindingKind), st.booleans(), st.integers(0, 400), st.integers(0, 9))
"""A kind, whether it opens, after how many hours, and since how many hours before."""


class ReportedPool(FoldedPool):
    """A pool with a job of two cores and two GPUs, whose hours are counted."""

    def __init__(self) -> None:
        self.hours = HeldHours()
        super().__init__()
        self.fold(c.NodeJoined(node="w1", capacity=Resources(cpu_m=8_000, gpus=4)))
        self.fold(c.PoolConfigured(parameters=PoolParameters(tick_ms=HOUR_MS)))
        self.run("a", "w1", requests=Resources(cpu_m=2_000, gpus=2))

    def take_in(self, received: Received[c.ClusterEvent]) -> bool:
        """Fold a record, and count."""
        accepted = super().take_in(received)
        job = self.view.jobs.get(getattr(received.event, "job", ""))
        if accepted and job is not None:
            self.hours.hear(self.view, job, received.at_ms)
        return accepted

    def opens(self, kind: FindingKind, since_ms: int | None = None) -> None:
        """Something is found."""
        self.fold(c.FindingOpened(job="a", incarnation=1, kind=kind, since_ms=since_ms, why="it is so"))

    def ends(self, kind: FindingKind) -> None:
        """It is over."""
        self.fold(c.FindingEnded(job="a", incarnation=1, kind=kind, why="it is not"))

    @property
    def rows(self) -> list[HoldingRow]:
        """The report."""
        return self.hours.rows(self.view, self.now_ms)


def told(rows: list[HoldingRow]) -> dict[str, tuple[float, float]]:
    """CPU and GPU hours by finding."""
    return {row.finding: (round(row.cpu_hours, 6), round(row.gpu_hours, 6)) for row in rows}


def test_a_hung_job_holds_its_place_in_vain_from_its_last_step_on() -> None:
    """Five hours, of which it hung for three when that was over; it was found after two."""
    pool = ReportedPool()
    pool.tick(2 * HOUR_MS)
    since_ms = pool.view.counted_ms
    pool.tick(2 * HOUR_MS)
    pool.opens(FindingKind.HUNG, since_ms)
    pool.tick(HOUR_MS)
    pool.ends(FindingKind.HUNG)
    pool.end("a")
    pool.tick(HOUR_MS)
    assert told(pool.rows) == {ALL: (10.0, 10.0), "hung": (6.0, 6.0)}


def test_several_findings_count_once() -> None:
    """For the surest of them; a spike holds nothing without effect."""
    pool = ReportedPool()
    pool.opens(FindingKind.SPIKE)
    pool.opens(FindingKind.PLATEAU)
    pool.tick(HOUR_MS)
    pool.opens(FindingKind.DIVERGED)
    pool.tick(HOUR_MS)
    pool.ends(FindingKind.DIVERGED)
    pool.tick(HOUR_MS)
    assert told(pool.rows) == {ALL: (6.0, 6.0), "plateau": (4.0, 4.0), "diverged": (2.0, 2.0)}


def test_each_user_has_rows_of_their_own() -> None:
    """Two users of a queue: what hangs is that of the one whose job it is."""
    pool = ReportedPool()
    for job, user in (("b", "bob"), ("c", "carol")):
        pool.run(job, "w1", cpu_m=1_000, user=user)
    pool.fold(c.FindingOpened(job="b", incarnation=1, kind=FindingKind.HUNG, why="it is so"))
    pool.tick(HOUR_MS)
    rows = [(row.user, row.finding, row.cpu_hours) for row in pool.rows]
    assert rows == [("", ALL, 2.0), ("bob", ALL, 1.0), ("bob", "hung", 1.0), ("carol", ALL, 1.0)]


def test_hours_are_those_of_their_weeks() -> None:
    """A job that runs over midnight of a Sunday counts in both weeks; each has the row of its job."""
    pool = ReportedPool()
    pool.opens(FindingKind.HUNG)
    for _ in range(10 * 24):
        pool.tick(HOUR_MS)
    rows = [row for row in pool.rows if row.finding == "hung"]
    assert [row.week for row in rows] == ["2023-11-13", "2023-11-20"]
    # The log begins on Tuesday, 14 November 2023, at 22:13:20 UTC.
    assert rows[0].cpu_hours == pytest.approx(2 * (6 * 24 - 22 - 800 / 3600), abs=0.01)
    assert sum(row.cpu_hours for row in rows) == pytest.approx(2 * 10 * 24)
    assert [row.jobs for row in rows] == [1, 1]
    assert START_MS == 1_700_000_000_000


@given(acts=st.lists(ACT, max_size=25))
def test_what_was_held_without_effect_is_no_more_than_what_was_held(
    acts: list[tuple[FindingKind, bool, int, int]],
) -> None:
    """Whatever is found when: the parts sum up to no more than the whole, which is the time that the job ran."""
    pool = ReportedPool()
    passed = 0
    for kind, opens, hours, ago in acts:
        pool.tick(hours * HOUR_MS)
        passed += hours
        if opens:
            pool.opens(kind, max(0, pool.view.counted_ms - ago * HOUR_MS))
        else:
            pool.ends(kind)
    rows = pool.rows
    whole = sum(row.cpu_hours for row in rows if row.finding == ALL)
    assert whole == pytest.approx(2 * passed)
    assert sum(row.cpu_hours for row in rows if row.finding != ALL) <= whole + 1e-6
    assert {row.finding for row in rows} <= {ALL, *map(str, WITHOUT_EFFECT)}
