"""The runs, waits and moves of a pool, as its log tells them, and what a page is answered of them."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import (
    category,
    grown,
    joined,
    migration,
    placement,
    submitted,
    transition,
    used,
)
from tests.harness.scenarios.pool_with_history import PoolWithHistory, runs_of

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.registry import FLAGS, READS
from steepest.read_models import pool_history
from steepest.read_models.pool_history import STEPS_KEPT, MarkKind, RunEnd, StepCourse


def test_a_move_is_two_runs_and_a_link() -> None:
    """The first run ends as moved, the second begins where the link ends, and the job still runs."""
    pool = PoolWithHistory(n1=1_000, n2=1_000)
    pool.later(1)
    pool.run("a", "n1")
    pool.later(5)
    pool.fold(migration("a", "n1", "n2"))
    pool.carry_out("a")
    pool.later(2)
    found = pool.timeline()

    assert runs_of(found) == [("a", "n1", 1_000, 6_000, RunEnd.MOVED), ("a", "n2", 6_000, None, RunEnd.OPEN)]
    assert found.moves == [(0, 0, 1, 6_000, 6_000)]
    assert (found.now, found.unit_ms, found.more_runs) == (8_000, 1, 0)


def test_a_suspension_ends_a_run_and_begins_a_wait_that_says_for_whom() -> None:
    """It is over once the job has a place again."""
    pool = PoolWithHistory(n1=1_000)
    pool.run("a", "n1", cpu_m=1_000)
    pool.fold(submitted("urgent", 1_000, priority=1))
    pool.tick(3_600_000)
    now_ms = pool.now_ms - pool.history.began_ms
    pool.fold(transition("a", c.Transition.SUSPEND, ("n1",), room_for="urgent"))
    pool.carry_out("a")
    suspended = pool.timeline(begin_ms=pool.now_ms - 1_000)
    pool.later(3)
    pool.fold(placement("a", "n1", incarnation=1))
    pool.carry_out("a")
    found = pool.timeline(begin_ms=pool.now_ms - 4_000)

    assert runs_of(suspended) == [("a", "n1", 0, now_ms, RunEnd.SUSPENDED)]
    waits = suspended.waits
    (mine,) = [place for place, job in enumerate(waits.job) if waits.suspended[place]]
    assert (suspended.jobs[waits.job[mine]].job, waits.t0[mine], waits.t1[mine]) == ("a", now_ms, None)
    assert suspended.reasons[waits.why[mine]] == "made room for urgent"
    assert [found.waits.t1[place] for place in range(len(found.waits.job)) if found.waits.suspended[place]] == [
        now_ms + 3_000
    ]
    assert runs_of(found)[1] == ("a", "n1", now_ms + 3_000, None, RunEnd.OPEN)
    assert found.moves == []


@pytest.mark.parametrize(
    ("outcome", "end", "mark"),
    [
        (c.Outcome.FINISHED, RunEnd.FINISHED, MarkKind.FINISHED),
        (c.Outcome.FAILED, RunEnd.FAILED, MarkKind.FAILED),
        (c.Outcome.CANCELLED, RunEnd.CANCELLED, None),
    ],
)
def test_an_end_is_told_of_the_run_and_marked(outcome: c.Outcome, end: RunEnd, mark: MarkKind | None) -> None:
    """The process ends before the job does: the run ends with it, and how is known afterwards, and only from then on."""
    pool = PoolWithHistory(n1=1_000)
    pool.run("a", "n1")
    pool.later(4)
    pool.fold(pool.stopped("a"))
    between = len(pool.log)
    pool.fold(c.JobEnded(job="a", outcome=outcome))
    found = pool.timeline()

    assert runs_of(found) == [("a", "n1", 0, 4_000, end)]
    assert runs_of(pool.timeline(at=between)) == [("a", "n1", 0, 4_000, RunEnd.STOPPED)]
    assert found.marks == ([] if mark is None else [(4_000, mark, 0, 0)])
    assert found.jobs[0].phase == outcome


def test_the_runs_of_a_lost_node_end_and_go_on_when_it_returns() -> None:
    """Nobody knows what runs there meanwhile, so nothing is drawn."""
    pool = PoolWithHistory(n1=1_000)
    pool.run("a", "n1")
    pool.later(9)
    pool.fold(c.NodeLost(node="n1", silent_ms=9_000))
    lost = pool.timeline()
    pool.later(1)
    pool.fold(joined("n1"))

    assert runs_of(lost) == [("a", "n1", 0, 9_000, RunEnd.LOST)]
    assert lost.marks == [(9_000, MarkKind.NODE_LOST, -1, 0)]
    assert lost.nodes[0].gone
    running = [node for name, node, *_, end in runs_of(pool.timeline()) if (name, end) == ("a", RunEnd.OPEN)]
    assert running == list(pool.job("a").running_on)


def test_a_job_that_was_never_placed_waits_with_the_reason_of_the_queue() -> None:
    """The same words as in the queue, as long as it waits."""
    pool = PoolWithHistory(n1=100)
    pool.feed(submitted("big", 4_000), c.JobAdmitted(job="big", request="request-big"))
    found = pool.timeline()

    assert (found.waits.t1, found.waits.suspended) == ([None], [False])
    assert found.reasons == [found.jobs[0].why] != [""]
    assert runs_of(found) == []


def test_shares_and_categories_are_steps() -> None:
    """What is reserved until use is measured; changes below 40 thousandths are none; a number above all is all."""
    pool = PoolWithHistory(n1=1_000)
    pool.run("a", "n1", cpu_m=250)
    for used_m in (260, 600, 90_000):
        pool.later(2)
        pool.fold(used("n1", min(used_m, 1_000), a=used_m))
    pool.feed(grown("a"), category("a", c.Category.CONVERGED))
    found = pool.timeline()

    assert found.runs.share == [[0, 250, 4_000, 600, 6_000, 1_000]]
    assert found.runs.category == [[0, 0, 6_000, 3]]


def test_an_answer_about_the_past_is_what_was_answered_then() -> None:
    """At every position of the log, except for what a run's later steps were thinned by."""
    pool = PoolWithHistory(n1=1_000, n2=1_000)
    told = {}

    def keep() -> None:
        pool.later(1)
        told[len(pool.log)] = msgspec.json.encode(pool.timeline()), pool.now_ms

    pool.run("a", "n1")
    keep()
    pool.run("b", "n2", c.Category.WATCHED)
    keep()
    pool.fold(migration("a", "n1", "n2"))
    pool.carry_out("a")
    keep()
    pool.end("b", 1, c.Outcome.FAILED)
    keep()
    clock = ("now", "until")
    for offset, (before, now_ms) in told.items():
        pool.fold(c.Tick(counted_ms=pool.view.counted_ms + 1), at_ms=now_ms)
        again, then = (msgspec.json.decode(one) for one in (msgspec.json.encode(pool.timeline(at=offset)), before))
        assert [again[key] for key in again if key not in clock] == [then[key] for key in then if key not in clock]


def test_a_window_holds_what_touches_it_in_its_own_unit() -> None:
    """Runs before and after it are left out; what goes on through it is there; times are counted in half pixels."""
    pool = PoolWithHistory(n1=1_000)
    for number in range(10):
        pool.run(f"j{number}", "n1")
        pool.later(100)
        pool.end(f"j{number}")
    begin_ms = pool.history.began_ms
    found = pool.timeline(begin_ms=begin_ms + 250_000, end_ms=begin_ms + 450_000, width=1_000)

    assert [name for name, *_ in runs_of(found)] == ["j2", "j3", "j4"]
    assert (found.unit_ms, found.start, found.until, found.now) == (100, 2_500, 4_500, 10_000)
    assert pool.timeline().start == 0


def test_a_finding_is_marked_where_its_job_runs() -> None:
    """A job that waits has no place for one."""
    pool = PoolWithHistory(n1=1_000)
    pool.feed(c.PoolConfigured(reads=READS, flags=tuple(FLAGS)), submitted("b"))
    pool.run("a", "n1")
    pool.later(3)
    kind = next(iter(c.FindingKind))
    findings = [
        c.FindingOpened(job=job, incarnation=pool.job(job).incarnation, kind=kind, why="it hangs") for job in ("a", "b")
    ]
    told = pool.feed(*findings)
    found = pool.timeline()

    places = {job.job: place for place, job in enumerate(found.jobs)}
    marks = [(3_000, MarkKind.FINDING, places["a"], 0), (3_000, MarkKind.FINDING, places["b"], -1)]
    assert found.marks == [mark for mark, counts in zip(marks, told, strict=True) if counts] != []


def test_memory_is_bounded_and_what_goes_on_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of runs that are over the newest are kept; a job that has run since the beginning is still there."""
    monkeypatch.setattr(pool_history, "KEPT", 5)
    monkeypatch.setattr("steepest.gateway.pool.timeline.KEPT", 5)
    pool = PoolWithHistory(n1=1_000)
    pool.run("old", "n1")
    for number in range(20):
        pool.run(f"j{number}", "n1")
        pool.later(1)
        pool.end(f"j{number}")
    found = pool.timeline(begin_ms=0)

    assert [name for name, *_ in runs_of(found)] == ["old", "j16", "j17", "j18", "j19"]
    assert found.more_runs == 1
    assert sum(1 for _ in pool.history.runs()) == 6
    assert sum(1 for _ in pool.history.waits()) <= 5


def test_a_course_is_bounded_and_ends_with_the_newest_value() -> None:
    """However often a number changes, a bounded number of steps is kept, and none is too old or too new."""
    course = StepCourse()
    for at_ms in range(10_000):
        course.add(at_ms, at_ms % 997)
        found = course.within(0, at_ms, 0)
        assert len(found) <= STEPS_KEPT + 1
        assert found[-1] == (at_ms, at_ms % 997)
    assert course.within(0, 10_000, 5_000)[-1][1] == 9_999 % 997


def test_a_clock_behind_the_log_shows_all_of_the_log() -> None:
    """The gateway may run on another machine than the writers."""
    pool = PoolWithHistory(n1=1_000)
    pool.run("a", "n1")
    pool.now_ms -= 5_000
    found = pool.timeline()

    assert (found.now, runs_of(found)) == (0, [("a", "n1", 0, None, RunEnd.OPEN)])


def test_a_view_that_others_have_folded_begins_with_what_runs() -> None:
    """A gateway that goes on from a snapshot knows no earlier time, but who runs."""
    pool = PoolWithHistory(n1=1_000)
    pool.run("a", "n1")
    pool.history = pool_history.PoolHistory()
    pool.later(3)
    pool.tick()

    assert runs_of(pool.timeline()) == [("a", "n1", 0, None, RunEnd.OPEN)]


def test_a_run_says_how_many_of_the_nodes_gpus_it_holds() -> None:
    """Of a node without any, none."""
    pool = PoolWithHistory(n1=1_000)
    pool.fold(joined("g", gpus=4))
    for job, node, requests in (("a", "g", Resources(cpu_m=100, gpus=1)), ("b", "n1", Resources(cpu_m=100))):
        pool.fold(submitted(job, requests=requests))
        pool.fold(placement(job, node))
        pool.carry_out(job)
    found = pool.timeline()

    assert [node.gpus for node in found.nodes] == [0, 4]
    assert found.runs.gpus == [250, 0]
    assert found.runs.gpu_ids == [(), ()]

    pool.fold(c.ReplicaStarted(job="a", incarnation=1, node="g", gpus=(3,)))
    assert pool.timeline().runs.gpu_ids == [(3,), ()]
    failed = (c.FailedGpu(1, "Xid 79"),)
    pool.fold(c.NodeJoined(node="g", capacity=Resources(cpu_m=1_000, gpus=3), failed_gpus=failed))
    assert [node.gpus for node in pool.timeline().nodes] == [0, 4]  # lanes keep their places
    pool.tick()
    pool.fold(c.ReplicaStopped(job="a", incarnation=1, node="g", exit_status=0))
    assert pool.timeline().runs.gpu_ids == [(3,), ()]
