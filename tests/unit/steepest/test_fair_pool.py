"""What the virtual fair pool computes, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from steepest.events.common import Resources
from steepest.policies.steepest import fair_pool
from steepest.policies.steepest.fair_pool import FairPool
from steepest.policies.steepest.fair_sharing import FairRun, run_fairly

NODES = 100


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The spans for which nodes are run."""
    spans: list[float] = []
    real = run_fairly

    def counted(*arguments: Any) -> FairRun:
        spans.append(0.0)
        return real(*arguments)

    monkeypatch.setattr(fair_pool, "run_fairly", counted)
    return spans


def busy_pool() -> FairPool:
    """Each node has a job of 1000 core-seconds on one core; the first node's has 100."""
    pool = FairPool()
    for number in range(NODES):
        pool.join(f"n{number:03}", Resources(cpu_m=1000), 0.0)
    for number in range(NODES):
        pool.plan(f"job-{number}", Resources(cpu_m=500), f"n{number:03}", 0.0)
        pool.start(f"job-{number}", 1.0, 0.0)
        pool.know(f"job-{number}", 100.0 if number == 0 else 1000.0, 1.0, 0.0)
    pool.plan("first", Resources(cpu_m=500), None, 1.0)
    return pool


def test_a_new_job_runs_only_nodes_where_one_has_ended(runs: list[float]) -> None:
    """However many nodes there are; what has ended makes room all the same."""
    pool = busy_pool()
    runs.clear()
    pool.plan("early", Resources(cpu_m=500), None, 50.0)
    assert runs == []

    pool.plan("late", Resources(cpu_m=1000), None, 150.0)

    assert len(runs) <= 2
    assert pool.planned["late"].node == "n000"
    assert pool.jobs["job-0"].end_s == pytest.approx(100.0)


def test_a_copy_that_ended_by_too_small_a_size_goes_on() -> None:
    """Two jobs share a core. One announces 10 core-seconds and turns out to need more: the other one's end moves."""
    pool = FairPool()
    pool.join("n", Resources(cpu_m=1000), 0.0)
    for name, size in (("short", 10.0), ("long", 100.0)):
        pool.plan(name, Resources(), None, 0.0)
        pool.start(name, 1.0, 0.0)
        pool.know(name, size, 1.0, 0.0)
    ended = pool.look("short", 30.0)
    assert ended is not None
    assert ended.end_s == pytest.approx(20.0)

    pool.know("short", None, 1.0, 30.0)

    goes_on, other = pool.look("short", 30.0), pool.look("long", 30.0)
    assert goes_on is not None
    assert other is not None
    assert goes_on.end_s is None
    assert pool.rate("short") == pytest.approx(0.5)
    assert other.forecast_s == pytest.approx(30.0 + 2 * 80.0)
    assert pool.course("short", [40.0, 50.0]) == pytest.approx([15.0, 20.0])
