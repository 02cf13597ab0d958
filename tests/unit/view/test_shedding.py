"""Surplus replicas leave a gang in a view: who may, what they hold meanwhile, and what may come between."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.scenarios.folded_pool import cancelled, placement, submitted, transition
from tests.unit.view.test_gangs import GangPool

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.view.plans import Doom
from steepest.view.state import Job, Phase, PlanKind, PlanStatus
from steepest.view.validity import Void

SHED, SCALE = c.Transition.SHED, c.Transition.SCALE
NODES = ("w1", "w1", "w1", "w2", "w2")


def roles(**more: Any) -> tuple[c.Role, ...]:
    """A server, and four workers that may leave."""
    requests = Resources(cpu_m=100)
    workers = {"replicas": 4, "min": 1, "max": 4, "may_leave": True, **more}
    return c.Role(name="ps", requests=requests), c.Role(name="worker", requests=requests, **workers)


def asynchronous(mode: CheckpointMode | None = CheckpointMode.ON_REQUEST, **more: Any) -> tuple[GangPool, Job]:
    """A gang on w1, with two of its workers on w2."""
    pool = GangPool(w1=1_000, w2=200, w3=1_000)
    return pool, pool.gang("a", *NODES, roles=roles(**more), success=c.SuccessRule.CHIEF, mode=mode)


def shed(pool: GangPool, job: Job, *leaving: int, **more: Any) -> bool:
    """Let these replicas leave."""
    staying = [index for index, one in enumerate(job.replicas) if one.alive and index not in leaving]
    plan = {
        "leaving": leaving,
        "sizes": (1, len(staying) - 1),
        "incarnation": job.incarnation,
        **more,
    }
    return pool.fold(transition("a", SHED, job.running_on, *(job.replicas[index].node for index in staying), **plan))


def test_surplus_replicas_leave_and_the_others_train_on() -> None:
    """Nothing is saved or started; the same incarnation goes on, and the room is free only once they are stopped."""
    pool, job = asynchronous()

    assert shed(pool, job, 3, 4)
    plan = pool.plan_of("a")
    assert (plan.kind, plan.steps) == (PlanKind.SHED, (c.Step.STOP,))
    assert pool.allocated() == {"w1": 300, "w2": 200}
    pool.begin("a")
    assert pool.allocated() == {"w1": 300, "w2": 200}
    assert pool.fold(c.SurplusStopped(plan=plan.id, attempt=1, job="a", incarnation=1))
    finished = pool.act("a")

    assert isinstance(finished, c.TransitionFinished)
    assert (finished.nodes, finished.sizes, finished.steps_lost, finished.paused_ms) == (NODES[:3], (1, 2), 0, 0)
    assert (job.phase, job.alive, job.incarnation, job.running_sizes, job.plan) == (
        Phase.RUNNING,
        True,
        1,
        (1, 2),
        None,
    )
    assert (job.scalings, pool.allocated()) == (1, {"w1": 300})


def test_who_waits_for_the_room_has_it_when_they_have_left() -> None:
    """It is promised to that job as any other room is."""
    pool, job = asynchronous()
    pool.fold(submitted("b", 200))
    shed(pool, job, 3, 4)
    assert pool.fold(placement("b", "w2", after=("shed-a-1",)))
    assert pool.next_action("b") is None

    pool.carry_out("a")
    pool.carry_out("b")

    assert pool.job("b").alive
    assert pool.allocated() == {"w1": 300, "w2": 200}


def test_a_gang_that_shed_replicas_grows_again_by_a_restart() -> None:
    """As any other gang does: the next incarnation has all of them."""
    pool, job = asynchronous()
    shed(pool, job, 3, 4)
    pool.carry_out("a")

    pool.fold(transition("a", SCALE, job.running_on, "w1", "w1", "w1", "w3", "w3"))
    pool.carry_out("a")

    assert (job.incarnation, job.running_sizes, job.scalings) == (2, (1, 4), 2)
    assert pool.allocated() == {"w1": 300, "w3": 200}


def test_what_leaves_need_not_be_checkpointed() -> None:
    """Those that stay restore nothing."""
    pool, job = asynchronous(mode=CheckpointMode.NONE)

    assert shed(pool, job, 4)


@pytest.mark.parametrize(
    ("leaving", "more", "code"),
    [
        ((), {}, Void.OTHER_LEAVING),
        ((0,), {"sizes": (1, 3)}, Void.OTHER_LEAVING),
        ((4, 3), {}, Void.OTHER_LEAVING),
        ((3, 3), {}, Void.OTHER_LEAVING),
        ((9,), {}, Void.OTHER_LEAVING),
        ((1, 2, 3, 4), {}, Void.OTHER_SIZES),
        ((3,), {"incarnation": 2}, Void.OTHER_INCARNATION),
    ],
    ids=[
        "none",
        "the chief",
        "out of order",
        "twice",
        "one that is not there",
        "below the fewest",
        "another incarnation",
    ],
)
def test_what_makes_such_a_plan_void(leaving: tuple[int, ...], more: dict[str, Any], code: str) -> None:
    """Only surplus replicas that run leave, and those stay which the plan names."""
    pool, job = asynchronous()

    assert not shed(pool, job, *leaving, **more)
    assert pool.view.refused == code
    assert pool.allocated() == {"w1": 300, "w2": 200}


def test_replicas_leave_only_where_their_role_says_so() -> None:
    """And a plan that starts the gang again lets none leave."""
    pool, job = asynchronous(may_leave=False)
    shed(pool, job, 4)
    assert pool.view.refused == Void.OTHER_LEAVING

    pool.fold(transition("a", SCALE, job.running_on, *NODES[:4], sizes=(1, 3), leaving=(4,)))
    assert pool.view.refused == Void.OTHER_LEAVING


def test_the_replica_that_saves_for_all_does_not_leave() -> None:
    """Without it nothing could be saved."""
    pool, job = asynchronous(mode=None)
    pool.fold(c.CheckpointModeDeclared(job="a", incarnation=1, mode=CheckpointMode.ON_REQUEST, node="w2", replica=4))

    shed(pool, job, 4)

    assert pool.view.refused == Void.OTHER_LEAVING


# --- what may come between ---------------------------------------------------------------------------------------------


def test_one_that_leaves_may_end_before_it_is_stopped() -> None:
    """Then only the other one is."""
    pool, job = asynchronous()
    shed(pool, job, 3, 4)

    pool.fold(pool.stopped("a", 1, replica=4))
    assert pool.plan_of("a").doomed == ""
    pool.carry_out("a")

    assert (job.running_sizes, job.phase, pool.allocated()) == ((1, 2), Phase.RUNNING, {"w1": 300})


def test_one_that_was_to_stay_ends_before_the_stop() -> None:
    """The plan is given up: it was made for another gang."""
    pool, job = asynchronous()
    shed(pool, job, 3, 4)

    pool.fold(pool.stopped("a", 1, replica=2))

    assert pool.plan_of("a").doomed == Doom.REPLICA_ENDED.about(replica=2)
    assert isinstance(pool.act("a"), c.PlanAbandoned)
    assert (job.running_sizes, job.plan) == ((1, 3), None)
    assert pool.allocated() == {"w1": 200, "w2": 200}


@pytest.mark.parametrize(("dead", "goes_on"), [(2, True), (0, False)], ids=["a worker", "the chief"])
def test_one_that_was_to_stay_ends_during_the_stop(dead: int, goes_on: bool) -> None:  # noqa: FBT001
    """The stop goes on; after it, the gang goes on with who is left, or is cleared where it cannot."""
    pool, job = asynchronous()
    shed(pool, job, 3, 4)
    plan = pool.plan_of("a")
    pool.begin("a")
    pool.fold(pool.stopped("a", 1, replica=dead))
    pool.fold(pool.stopped("a", 85, replica=4))
    pool.fold(c.SurplusStopped(plan=plan.id, attempt=1, job="a", incarnation=1))

    assert isinstance(pool.act("a"), c.TransitionFinished)

    if goes_on:
        assert (job.running_sizes, job.plan, pool.allocated()) == ((1, 1), None, {"w1": 200})
    else:
        assert pool.plan_of("a").kind is PlanKind.CLEAR
        pool.carry_out("a")
        assert (job.phase, job.exit_status, pool.allocated()) == (Phase.STOPPED, 1, {})


def test_the_ends_of_those_that_leave_do_not_break_a_gang_of_fixed_sizes() -> None:
    """Between four workers and two there are three for a moment, which the role does not allow."""
    pool, job = asynchronous(sizes=(2, 4))
    shed(pool, job, 3, 4)
    pool.begin("a")

    pool.fold(pool.stopped("a", 85, replica=4))
    pool.fold(c.SurplusStopped(plan="shed-a-1", attempt=1, job="a", incarnation=1))
    pool.act("a")

    assert (job.running_sizes, job.plan, job.exit_status, job.stop_reason) == ((1, 2), None, None, "")
    pool.fold(pool.stopped("a", 1, replica=2))
    assert pool.plan_of("a").kind is PlanKind.CLEAR


def test_a_cancel_before_the_stop_stops_all() -> None:
    """The plan is given up, and the cancel takes effect."""
    pool, job = asynchronous()
    shed(pool, job, 3, 4)
    pool.fold(cancelled("a"))

    assert isinstance(pool.act("a"), c.PlanAbandoned)
    assert pool.plan_of("a").kind is PlanKind.CANCEL
    pool.carry_out("a")

    assert (job.phase, pool.allocated()) == (Phase.STOPPED, {})


def test_a_cancel_during_the_stop_waits_for_it() -> None:
    """Then it stops those that stayed."""
    pool, job = asynchronous()
    shed(pool, job, 3, 4)
    pool.begin("a")
    pool.fold(cancelled("a"))
    pool.fold(c.SurplusStopped(plan="shed-a-1", attempt=1, job="a", incarnation=1))
    pool.act("a")

    assert pool.plan_of("a").kind is PlanKind.CANCEL
    pool.carry_out("a")
    assert (job.phase, pool.allocated()) == (Phase.STOPPED, {})


def test_a_stop_without_effect_leaves_the_gang_as_it_was() -> None:
    """It is tried twice, and given up; who was to leave is no surplus then, and its end counts again."""
    pool, job = asynchronous()
    shed(pool, job, 3, 4)
    pool.fail("a")
    pool.fail("a")

    assert isinstance(pool.act("a"), c.TransitionFailed)
    assert (job.running_sizes, job.plan, pool.allocated()) == ((1, 4), None, {"w1": 300, "w2": 200})
    assert not any(replica.left for replica in job.replicas)


def test_a_stop_that_may_have_had_an_effect_is_begun_again() -> None:
    """One has ended, and what became of the other, on a silent node, is not known: it holds its place until it is."""
    pool, job = asynchronous()
    shed(pool, job, 3, 4)
    pool.fail("a", "timeout", definite=False)
    pool.fold(pool.stopped("a", 85, replica=4))
    pool.fold(c.NodeLost(node="w2", silent_ms=20_000))

    assert pool.next_action("a") is None
    assert pool.allocated() == {"w1": 300, "w2": 100}
    pool.tick()
    pool.carry_out("a")
    assert (job.running_sizes, pool.allocated()) == ((1, 2), {"w1": 300})


def test_those_that_leave_are_gone_with_their_node() -> None:
    """The operator says so: there is nothing left to stop, and the gang goes on."""
    pool, job = asynchronous()
    shed(pool, job, 3, 4)
    pool.fold(c.NodeLost(node="w2", silent_ms=20_000))
    pool.fold(c.NodeGone(node="w2"))
    pool.carry_out("a")

    assert (job.phase, job.running_sizes, pool.allocated()) == (Phase.RUNNING, (1, 2), {"w1": 300})


def test_those_that_stay_are_gone_with_their_node() -> None:
    """During the stop, or before: in the end nothing of the gang runs or holds."""
    for begun in (False, True):
        pool, job = asynchronous()
        shed(pool, job, 3, 4)
        if begun:
            pool.begin("a")
        pool.fold(c.NodeLost(node="w1", silent_ms=20_000))
        pool.fold(c.NodeGone(node="w1"))
        if begun:
            pool.fold(c.SurplusStopped(plan="shed-a-1", attempt=1, job="a", incarnation=1))
        pool.carry_out("a")

        assert (job.phase, pool.allocated()) == (Phase.STOPPED, {})


def test_a_late_report_of_one_that_has_left_changes_nothing() -> None:
    """Neither its end nor its start."""
    pool, job = asynchronous()
    shed(pool, job, 3, 4)
    pool.carry_out("a")

    assert not pool.fold(pool.stopped("a", 85, replica=4))
    pool.fold(c.ReplicaStarted(job="a", replica=4, incarnation=1, node="w2"))
    assert (job.running_sizes, pool.allocated()) == ((1, 2), {"w1": 300})


def test_the_outcome_of_another_stop_does_not_count() -> None:
    """``JobStopped`` is of all replicas, ``SurplusStopped`` of those that leave."""
    pool, job = asynchronous()
    shed(pool, job, 3, 4)
    begun = pool.begin("a")

    assert not pool.fold(c.JobStopped(plan=begun.plan, attempt=1, job="a", incarnation=1))
    assert not pool.fold(c.SurplusStopped(plan=begun.plan, attempt=2, job="a", incarnation=1))
    assert job.running_sizes == (1, 4)
    assert pool.view.plan(begun.plan).status is PlanStatus.IN_FLIGHT  # type: ignore[union-attr]
