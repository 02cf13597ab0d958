"""What the virtual fair pool computes, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from steepest.events.common import Resources
from steepest.events.requests import Role
from steepest.policies.steepest.fair import fair_pool
from steepest.policies.steepest.fair.fair_pool import FairPool
from steepest.policies.steepest.fair.fair_sharing import FairRun, run_fairly

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
        pool.come(f"job-{number}", Resources(cpu_m=500), f"n{number:03}", 0.0)
        pool.start(f"job-{number}", 1.0, 0.0)
        pool.know(f"job-{number}", 100.0 if number == 0 else 1000.0, 1.0, 0.0)
    pool.come("first", Resources(cpu_m=500), None, 1.0)
    return pool


def test_a_new_job_runs_only_nodes_where_one_has_ended(runs: list[float]) -> None:
    """However many nodes there are; what has ended makes room all the same."""
    pool = busy_pool()
    runs.clear()
    pool.come("early", Resources(cpu_m=500), None, 50.0)
    assert runs == []

    pool.come("late", Resources(cpu_m=500), None, 150.0)

    assert len(runs) <= 2
    assert pool.planned["late"].node == "n000"
    assert pool.jobs["job-0"].end_s == pytest.approx(100.0)


def test_a_copy_that_ended_by_too_small_a_size_goes_on() -> None:
    """Two jobs share a core. One announces 10 core-seconds and turns out to need more: the other one's end moves.

    It has what it would have got since, had its copy not ended.
    """
    pool = FairPool()
    pool.join("n", Resources(cpu_m=1000), 0.0)
    for name, size in (("short", 10.0), ("long", 100.0)):
        pool.come(name, Resources(), None, 0.0)
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
    assert goes_on.used == pytest.approx(15.0)
    assert pool.rate("short") == pytest.approx(0.5)
    assert other.forecast_s == pytest.approx(30.0 + 2 * 80.0)


def pool_for_one() -> FairPool:
    """A node of one core with room for one job, which needs 100 core-seconds."""
    pool = FairPool()
    pool.join("n", Resources(cpu_m=1000, memory_mib=100), 0.0)
    come(pool, "first", 100.0, 60, 0.0)
    return pool


def come(pool: FairPool, name: str, size: float, memory_mib: int, now_s: float) -> None:
    """A job comes, and really trains."""
    pool.come(name, Resources(memory_mib=memory_mib), None, now_s)
    pool.place(name)
    pool.start(name, 1.0, now_s)
    pool.know(name, size, 1.0, now_s)


def test_a_copy_waits_until_there_is_room() -> None:
    """Its job runs already, because others ended sooner than under fair sharing: nothing is promised to it before."""
    pool = pool_for_one()
    come(pool, "second", 50.0, 60, 10.0)
    pool.admit(99.0)
    assert pool.look("second", 99.0) is None

    pool.admit(101.0)
    pool.know("second", 50.0, 1.0, 101.0)

    copy = pool.look("second", 101.0)
    assert copy is not None
    assert copy.began_s == pytest.approx(10.0)
    assert copy.forecast_s == pytest.approx(151.0)


def test_a_small_job_goes_before_one_that_has_no_room() -> None:
    """As the placer lets it."""
    pool = pool_for_one()
    pool.come("large", Resources(memory_mib=60), None, 1.0)
    pool.come("small", Resources(memory_mib=40), None, 2.0)
    assert list(pool.waiting) == ["large"]
    assert list(pool.planned) == ["small"]


def test_a_job_without_a_copy_holds_what_it_reserves_where_it_is() -> None:
    """Until it is gone; what it uses is no part of what the node gives to the others."""
    pool = pool_for_one()
    pool.come("second", Resources(memory_mib=60), None, 1.0)
    for held_mib in (20, 50):
        pool.hold("n", "gang", Resources(memory_mib=held_mib))
    pool.admit(101.0)
    assert list(pool.waiting) == ["second"]
    for _ in range(2):
        pool.hold("n", "gang", Resources())
    assert pool.nodes["n"].allocated == Resources()
    pool.admit(102.0)
    assert not pool.waiting


def pool_for_a_gang() -> FairPool:
    """Two nodes of one core with room for two replicas each; a job is on the first, and holds as much as one."""
    pool = FairPool()
    for name in ("n1", "n2"):
        pool.join(name, Resources(cpu_m=1000, memory_mib=100), 0.0)
    come(pool, "single", 100.0, 50, 0.0)
    return pool


def come_as_gang(pool: FairPool, name: str, replicas: int, memory_mib: int, now_s: float) -> None:
    """A gang comes, and waits until its real replicas train."""
    requests = Resources(memory_mib=memory_mib)
    pool.come(name, requests, None, now_s, (Role(name="worker", replicas=replicas, requests=requests),))


def test_a_gang_has_places_for_all_replicas_or_none() -> None:
    """On one node where there is one with room for all."""
    pool = pool_for_a_gang()
    come_as_gang(pool, "four", 4, 50, 1.0)
    come_as_gang(pool, "two", 2, 50, 1.0)
    assert list(pool.waiting) == ["four"]
    assert [pool.planned[name].node for name in pool.copies_of("two")] == ["n2", "n2"]

    pool.finish("two", 0.0, 2.0)
    pool.finish("single", 0.0, 2.0)
    pool.admit(3.0)
    assert [pool.planned[name].node for name in pool.copies_of("four")] == ["n1", "n1", "n2", "n2"]


def test_a_gang_ends_with_its_last_replica() -> None:
    """One replica shares its node with another job: the others wait for that one."""
    pool = pool_for_a_gang()
    come_as_gang(pool, "gang", 3, 50, 0.0)
    pool.start("gang", 1.0, 0.0)
    pool.know("gang", 90.0, 1.0, 0.0)

    copy = pool.look("gang", 0.0)
    assert copy is not None
    assert copy.ends_s == pytest.approx(60.0)
    assert pool.rate("gang") == pytest.approx(0.5)
    assert pool.size("gang") == pytest.approx(90.0)


def test_a_gang_that_has_really_ended_goes_on_until_its_copies_got_as_much() -> None:
    """The others share their nodes with it until then."""
    pool = pool_for_a_gang()
    come_as_gang(pool, "gang", 3, 50, 0.0)
    pool.start("gang", 1.0, 0.0)
    pool.know("gang", 90.0, 1.0, 0.0)
    pool.finish("gang", 60.0, 10.0)

    assert forecast(pool, "single", 10.0) == pytest.approx(120.0)
    pool.come("next", Resources(memory_mib=50), None, 41.0)
    assert list(pool.jobs) == ["single"]
    assert pool.planned["next"].node == "n2"
    assert not pool.gangs


def test_a_gang_that_has_really_ended_before_it_had_room_runs_when_it_has() -> None:
    """Each copy does an equal part of what it did."""
    pool = pool_for_a_gang()
    come_as_gang(pool, "gang", 4, 50, 0.0)
    pool.start("gang", 1.0, 1.0)
    pool.finish("gang", 80.0, 5.0)
    pool.look("single", 101.0)
    pool.admit(101.0)

    assert pool.size("gang") == pytest.approx(80.0)
    assert forecast(pool, "gang", 101.0) == pytest.approx(141.0)


def test_copies_of_a_gang_go_on_where_another_node_has_room() -> None:
    """Their node is gone."""
    pool = pool_for_a_gang()
    come_as_gang(pool, "gang", 3, 30, 0.0)
    assert {pool.planned[name].node for name in pool.copies_of("gang")} == {"n2"}
    pool.start("gang", 1.0, 0.0)
    pool.leave("n2", 1.0)
    assert {pool.jobs[name].node for name in pool.copies_of("gang")} == {"n1"}
    pool.leave("n1", 2.0)
    assert not pool.jobs
    pool.join("n3", Resources(cpu_m=9_000, memory_mib=200), 10.0)
    pool.admit(10.0)
    assert {pool.jobs[name].node for name in pool.copies_of("gang")} == {"n3"}
    pool.finish("gang", 0.0, 11.0)
    pool.look("single", 12.0)
    assert ([*pool.jobs], pool.waiting, pool.gangs) == (["single"], {}, {})


def test_what_is_promised_outlives_the_last_node() -> None:
    """A job that trains, one that starts and one whose copy has ended: all go on where another node joins."""
    pool = pool_for_one()
    come(pool, "ended", 0.5, 10, 0.0)
    pool.come("starts", Resources(memory_mib=10), None, 0.0)
    pool.place("starts")
    began, used = pool.jobs["first"].began_s, 39.5
    pool.look("ended", 10.0)
    pool.leave("n", 40.0)
    assert pool.look("first", 40.0) is None
    pool.join("other", Resources(cpu_m=1_000, memory_mib=100), 60.0)
    pool.admit(60.0)

    copy, ended = pool.look("first", 60.0), pool.look("ended", 60.0)
    assert copy is not None
    assert ended is not None
    assert (copy.node, ended.node, copy.began_s) == ("other", "other", began)
    assert copy.ends_s == pytest.approx(60.0 + 100.0 - used)
    assert ended.end_s == pytest.approx(1.0)
    assert pool.planned["starts"].node == "other"


@pytest.mark.parametrize("size", [0.5, 0.2, 30.0])
@pytest.mark.parametrize("others", [0, 1])
def test_a_copy_may_end_on_a_node_that_is_gone(size: float, others: int) -> None:
    """Its job is late, and runs elsewhere: it may turn out to need more or less, and it ends."""
    pool = pool_for_one()
    for number in range(others):
        pool.join(f"other-{number}", Resources(cpu_m=1_000, memory_mib=100), 0.0)
    come(pool, "late", 0.5, 10, 0.0)
    pool.look("late", 10.0)
    pool.leave(pool.jobs["late"].node, 40.0)
    pool.know("late", size, 1.0, 50.0)
    pool.rate("late")
    pool.finish("late", size, 60.0)
    pool.join("again", Resources(cpu_m=1_000, memory_mib=100), 70.0)
    pool.admit(200.0)
    pool.look("late", 200.0)

    assert "late" not in pool.jobs


def test_a_job_that_failed_uses_no_cpu_until_it_is_started_again() -> None:
    """The other job on its node has all of it, however long the first one waits; its place stays its own."""
    pool = FairPool()
    pool.join("n", Resources(cpu_m=1_000, memory_mib=100), 0.0)
    come(pool, "failed", 100.0, 40, 0.0)
    come(pool, "other", 500.0, 40, 0.0)
    pool.pause("failed", 60.0)
    assert pool.nodes["n"].capacity - pool.nodes["n"].allocated == Resources(cpu_m=1_000, memory_mib=20)
    pool.start("failed", 1.0, 260.0)
    pool.know("failed", 100.0, 1.0, 260.0)

    failed, other = pool.look("failed", 260.0), pool.look("other", 260.0)
    assert failed is not None
    assert other is not None
    assert [failed.used, other.used] == pytest.approx([30.0, 230.0])
    assert [failed.ends_s, other.ends_s] == pytest.approx([400.0, 600.0])


@pytest.mark.parametrize(("size", "others_end_s"), [(100.0, 600.0), (30.0, 530.0), (0.0, 530.0)])
def test_a_job_that_failed_for_good_still_gets_here_what_it_used(size: float, others_end_s: float) -> None:
    """It got more than its copy did, or as much."""
    pool = FairPool()
    pool.join("n", Resources(cpu_m=1_000, memory_mib=100), 0.0)
    come(pool, "failed", 900.0, 40, 0.0)
    come(pool, "other", 500.0, 40, 0.0)
    pool.pause("failed", 60.0)
    pool.finish("failed", size, 160.0)

    other = pool.look("other", 160.0)
    assert other is not None
    assert other.ends_s == pytest.approx(others_end_s)
    assert (pool.planned, pool.waiting) == ({}, {})


def test_all_copies_of_a_gang_go_on_when_it_is_started_again() -> None:
    """Two of three had ended when the gang failed; the last one shares its node with more jobs."""
    pool = pool_for_a_gang()
    pool.come("other", Resources(), "n1", 0.0)
    pool.start("other", 1.0, 0.0)
    come_as_gang(pool, "gang", 3, 50, 0.0)
    pool.start("gang", 1.0, 0.0)
    pool.know("gang", 30.0, 1.0, 0.0)
    pool.pause("gang", 25.0)
    assert [pool.planned[name].node for name in pool.copies_of("gang") if name not in pool.jobs] == ["n1"]
    assert not pool.runs("gang")


def test_a_job_ends_once() -> None:
    """What is decided about its end after that changes nothing: neither its copy's end nor others'."""
    pool = FairPool()
    pool.join("n", Resources(cpu_m=1_000, memory_mib=100), 0.0)
    come(pool, "ended", 30.0, 40, 0.0)
    come(pool, "other", 500.0, 40, 0.0)
    for at_s in (10.0, 20.0, 70.0):
        pool.finish("ended", 30.0 if at_s == 10.0 else 0.0, at_s)

    other = pool.look("other", 100.0)
    assert other is not None
    assert other.used == pytest.approx(70.0)


def test_a_job_that_failed_before_its_copy_had_room_waits_here_too() -> None:
    """Once there is room it has a place, and uses nothing."""
    pool = pool_for_one()
    come(pool, "second", 50.0, 60, 10.0)
    pool.pause("second", 20.0)
    pool.admit(101.0)

    assert list(pool.planned) == ["second"]


def forecast(pool: FairPool, job: str, now_s: float) -> float | None:
    """When a copy ends."""
    copy = pool.look(job, now_s)
    return None if copy is None else copy.forecast_s


def test_the_copy_of_a_job_without_a_place_runs() -> None:
    """As soon as it has room: the job falls behind it."""
    pool = FairPool()
    pool.join("n", Resources(cpu_m=1000, memory_mib=100), 0.0)
    pool.come("late", Resources(memory_mib=60), None, 0.0)
    assert list(pool.ahead()) == ["late"]
    pool.start("late", 1.0, 5.0)
    pool.start("late", 1.0, 30.0)
    pool.know("late", 100.0, 1.0, 30.0)
    copy = pool.look("late", 30.0)
    assert copy is not None
    assert copy.used == pytest.approx(25.0)
    assert copy.forecast_s == pytest.approx(105.0)


def test_a_job_that_has_ended_before_its_copy_had_room_still_runs_here() -> None:
    """What it uses here is not free for the others. One that never trained needs nothing."""
    pool = pool_for_one()
    come(pool, "second", 50.0, 60, 10.0)
    pool.come("never", Resources(memory_mib=60), None, 11.0)
    pool.finish("second", 50.0, 40.0)
    pool.finish("never", 0.0, 41.0)
    assert list(pool.waiting) == ["second"]

    come(pool, "third", 30.0, 40, 100.0)

    third = pool.look("third", 100.0)
    assert third is not None
    assert third.forecast_s == pytest.approx(100.0 + 2 * 30.0)
