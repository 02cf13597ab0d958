"""Gangs in a view: they are placed whole, scaled, moved and suspended, and what a replica's end means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import FoldedPool, cancelled, joined, placement, submitted, transition
from tests.harness.view_promises import check_view

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.parameters import PoolParameters, PreemptionLimits
from steepest.view.cluster_view import ClusterView
from steepest.view.plans import Doom
from steepest.view.state import Job, Phase, PlanKind, PlanStatus
from steepest.view.validity import NoRoom, Void

SUSPEND, SCALE, MOVE = c.Transition.SUSPEND, c.Transition.SCALE, c.Transition.MOVE


def role(replicas: int, cpu_m: int = 100, **more: Any) -> c.Role:
    """Workers."""
    return c.Role(name="worker", replicas=replicas, requests=Resources(cpu_m=cpu_m), **more)


class GangPool(FoldedPool):
    """A pool that is held to its promises after every record."""

    def take_in(self, received: Any) -> bool:
        """Fold, check, and check that a snapshot is the whole of it."""
        accepted = super().take_in(received)
        check_view(self.view)
        copy = ClusterView.restore(self.view.snapshot())
        assert copy.waiting.keys() == self.view.waiting.keys()
        return accepted

    def gang(self, job: str, *nodes: str, roles: tuple[c.Role, ...] = (), **spec: Any) -> Job:
        """Submit a gang, place and start it."""
        roles = roles or (role(len(nodes)),)
        self.feed(submitted(job, roles=roles, **spec), placement(job, *nodes))
        return self.carry_out(job)


def configured(pool: FoldedPool, **limits: int) -> None:
    """Put limits of preemption in force."""
    pool.fold(c.PoolConfigured(parameters=PoolParameters(preemption=PreemptionLimits(**limits))))


def test_a_gang_is_placed_whole() -> None:
    """All replicas start in one step, and a node holds the sum of what its replicas ask for."""
    pool = GangPool(w1=1_000, w2=1_000)

    job = pool.gang("a", "w1", "w1", "w2", roles=(role(1, 600), c.Role(name="ps", replicas=2, requests=Resources(300))))

    assert [(one.node, one.role, one.alive) for one in job.replicas] == [
        ("w1", 0, True),
        ("w1", 1, True),
        ("w2", 1, True),
    ]
    assert pool.allocated() == {"w1": 900, "w2": 300}
    assert pool.counts() == {"w1": [2, 0, 0], "w2": [1, 0, 0]}
    assert (job.incarnation, job.alive, job.plan, job.running_sizes) == (1, True, None, (1, 2))


@pytest.mark.parametrize(
    ("roles", "nodes", "sizes", "code"),
    [
        ((role(2, 600),), ("w1", "w1"), (), NoRoom.TOO_LITTLE_FREE),
        ((role(2),), ("w1",), (), Void.OTHER_REPLICAS),
        ((role(2),), ("w1",), (1,), Void.OTHER_SIZES),
        ((role(2, min=1),), ("w1",), (1, 1), Void.OTHER_SIZES),
        ((role(4, min=2, sizes=(2, 4)),), ("w1", "w1", "w2"), (3,), Void.OTHER_SIZES),
        ((role(2),), ("w1", "w9"), (), NoRoom.UNKNOWN_NODE),
    ],
)
def test_a_placement_that_does_not_suit_the_gang_is_void(
    roles: tuple[c.Role, ...], nodes: tuple[str, ...], sizes: tuple[int, ...], code: str
) -> None:
    """Twice 600m do not fit 1000m, and each role has a number of replicas that it allows."""
    pool = GangPool(w1=1_000, w2=1_000)

    pool.feed(submitted("a", roles=roles), placement("a", *nodes, sizes=sizes))

    assert pool.view.refused == code
    assert pool.allocated() == {}


def test_a_failed_start_burns_the_incarnation() -> None:
    """The next try has the next number, and the room stays reserved meanwhile."""
    pool = GangPool(w1=1_000)
    pool.feed(submitted("a", roles=(role(2),)), placement("a", "w1", "w1"))

    pool.fail("a")
    begun = pool.begin("a")

    assert (begun.incarnation, begun.nodes) == (2, ("w1", "w1"))
    assert pool.allocated() == {"w1": 200}


def test_an_unclear_start_is_begun_again_as_the_same_incarnation() -> None:
    """Some replica of it may run."""
    pool = GangPool(w1=1_000)
    pool.feed(submitted("a", roles=(role(2),)), placement("a", "w1", "w1"))

    pool.fail("a", definite=False)

    assert pool.begin("a").incarnation == 1


def test_a_suspended_gang_waits_at_its_own_rank_and_resumes() -> None:
    """It holds nothing while it is suspended, keeps its checkpoint, and stands in the queue where it always stood."""
    pool = GangPool(w1=1_000, w2=1_000)
    configured(pool, min_run_ms=0)
    job = pool.gang("a", "w1", "w2")
    pool.feed(submitted("b"))

    pool.fold(transition("a", SUSPEND, job.nodes, room_for="b"))
    pool.carry_out("a")

    assert (job.phase, job.alive, job.nodes, job.suspensions) == (Phase.SUSPENDED, False, (), 1)
    assert job.checkpoint is not None
    assert pool.allocated() == {}
    assert [one.name for one in pool.view.jobs.queue] == ["a", "b"]

    pool.fold(placement("a", "w2", "w2", incarnation=1))
    pool.carry_out("a")

    assert (job.phase, job.incarnation, job.resumptions, job.nodes) == (Phase.RUNNING, 2, 1, ("w2", "w2"))


def test_a_job_of_one_replica_is_suspended_too() -> None:
    """By the same plan."""
    pool = GangPool(w1=1_000)
    configured(pool, min_run_ms=0)
    job = pool.run("a", "w1")

    pool.fold(transition("a", SUSPEND, ["w1"]))
    pool.carry_out("a")

    assert (job.phase, pool.allocated()) == (Phase.SUSPENDED, {})


def test_a_suspension_that_fails_before_its_stop_leaves_the_job_running() -> None:
    """It runs on where it is."""
    pool = GangPool(w1=1_000, w2=1_000)
    configured(pool, min_run_ms=0)
    job = pool.gang("a", "w1", "w2")
    pool.fold(transition("a", SUSPEND, job.nodes))

    pool.fail("a")
    pool.fail("a")
    event = pool.act("a")

    assert isinstance(event, c.TransitionFailed)
    assert event.nodes == ("w1", "w2")
    assert (job.phase, job.alive, job.plan, job.suspensions) == (Phase.RUNNING, True, None, 0)
    assert pool.allocated() == {"w1": 100, "w2": 100}


def test_a_job_that_finishes_while_it_is_suspended_has_finished() -> None:
    """There is nothing left to resume."""
    pool = GangPool(w1=1_000)
    configured(pool, min_run_ms=0)
    job = pool.run("a", "w1")
    pool.fold(transition("a", SUSPEND, ["w1"]))
    pool.carry_out("a", before=c.Step.STOP)
    begun = pool.begin("a")
    pool.fold(c.JobStopped(plan=begun.plan, attempt=begun.attempt, job="a", incarnation=1, exit_status=0))

    assert isinstance(pool.act("a"), c.PlanAbandoned)
    assert (job.phase, job.exit_status) == (Phase.STOPPED, 0)


@pytest.mark.parametrize(
    ("limits", "room_for", "code"),
    [
        ({"min_run_ms": 10_000}, None, Void.TOO_SOON),
        ({"min_run_ms": 0, "max_suspensions": 0}, None, Void.TOO_OFTEN),
        ({"min_run_ms": 0}, "nobody", Void.ROOM_FOR_NONE),
    ],
)
def test_what_protects_a_job_from_suspensions(limits: dict[str, int], room_for: str | None, code: str) -> None:
    """Rules of the view, whichever policy plans."""
    pool = GangPool(w1=1_000)
    configured(pool, **limits)
    pool.run("a", "w1")

    pool.fold(transition("a", SUSPEND, ["w1"], room_for=room_for))

    assert pool.view.refused == code


def test_no_job_is_suspended_twice_for_one_that_is_less_urgent() -> None:
    """Once may be a policy's view of who must run; twice is ping-pong."""
    pool = GangPool(w1=1_000)
    configured(pool, min_run_ms=0)
    pool.run("a", "w1", priority=10)
    pool.fold(submitted("b"))
    pool.fold(transition("a", SUSPEND, ["w1"], room_for="b"))
    pool.carry_out("a")
    pool.fold(placement("a", "w1", incarnation=1))
    pool.carry_out("a")

    pool.fold(transition("a", SUSPEND, ["w1"], incarnation=2, room_for="b"))

    assert pool.view.refused == Void.PING_PONG


def test_a_gang_is_scaled_within_its_own_room() -> None:
    """Its old places count for the new ones, because it is stopped whole in between."""
    pool = GangPool(w1=400)
    job = pool.gang("a", "w1", "w1", roles=(role(2, min=1, max=4),))

    pool.fold(transition("a", SCALE, job.nodes, *["w1"] * 4, sizes=(4,)))
    assert pool.allocated() == {"w1": 400}
    pool.carry_out("a")

    assert (job.running_sizes, job.incarnation, job.scalings) == ((4,), 2, 1)
    pool.fold(transition("a", SCALE, job.nodes, "w1", sizes=(1,), incarnation=2))
    assert pool.allocated() == {"w1": 400}
    pool.carry_out("a")
    assert pool.allocated() == {"w1": 100}


def test_a_move_that_fails_starts_the_whole_gang_where_it_was() -> None:
    """With its old sizes."""
    pool = GangPool(w1=1_000, w2=1_000)
    job = pool.gang("a", "w1", "w1", roles=(role(2, min=1, max=4),))
    pool.fold(transition("a", SCALE, job.nodes, "w2", "w2", "w2", sizes=(3,)))
    pool.carry_out("a", before=c.Step.START)

    pool.fail("a", "no-such-program")
    pool.carry_out("a")

    assert (job.nodes, job.running_sizes, job.incarnation, job.scalings) == (("w1", "w1"), (2,), 3, 0)
    assert pool.allocated() == {"w1": 200}


# --- ends of replicas -------------------------------------------------------------------------------------------------


def test_an_elastic_gang_goes_on_without_a_worker() -> None:
    """The dead replica's place is free at the same record."""
    pool = GangPool(w1=1_000, w2=1_000)
    job = pool.gang("a", "w1", "w2", "w2", roles=(role(3, min=2),))

    pool.fold(pool.stopped("a", 1, replica=2))

    assert (job.phase, job.alive, job.plan, job.running_sizes) == (Phase.RUNNING, True, None, (2,))
    assert pool.allocated() == {"w1": 100, "w2": 100}


@pytest.mark.parametrize("dead", [0, 1], ids=["its chief", "a worker below the minimum"])
def test_a_gang_that_cannot_go_on_is_cleared(dead: int) -> None:
    """The rest is stopped, and the placer decides by the exit status of the replica that died."""
    pool = GangPool(w1=1_000, w2=1_000)
    job = pool.gang("a", "w1", "w2")

    pool.fold(pool.stopped("a", 1, replica=dead, reason="out of memory"))
    assert pool.plan_of("a").kind is PlanKind.CLEAR
    pool.carry_out("a")

    assert (job.phase, job.exit_status) == (Phase.STOPPED, 1)
    assert "out of memory" in job.stop_reason
    assert pool.allocated() == {}


def test_the_end_of_the_chief_may_be_the_end_of_the_job() -> None:
    """The others are stopped, and the job has finished."""
    pool = GangPool(w1=1_000, w2=1_000)
    job = pool.gang("a", "w1", "w2", success=c.SuccessRule.CHIEF)

    pool.fold(pool.stopped("a", 0, replica=0))
    pool.carry_out("a")

    assert (job.phase, job.exit_status) == (Phase.STOPPED, 0)


def test_a_gang_has_finished_when_all_have() -> None:
    """A replica that has finished gives back its place; the job ends with the last."""
    pool = GangPool(w1=1_000, w2=1_000)
    job = pool.gang("a", "w1", "w2")

    pool.fold(pool.stopped("a", 0, replica=0))
    assert (job.phase, pool.allocated()) == (Phase.RUNNING, {"w2": 100})
    pool.fold(pool.stopped("a", 0, replica=1))

    assert (job.phase, job.exit_status, pool.allocated()) == (Phase.STOPPED, 0, {})


def test_a_replica_that_ends_during_the_start_counts_once_the_gang_is_placed() -> None:
    """Its end may be reported first."""
    pool = GangPool(w1=1_000, w2=1_000)
    pool.feed(submitted("a", roles=(role(2),)), placement("a", "w1", "w2"))
    begun = pool.begin("a")
    assert pool.fold(c.ReplicaStopped(job="a", replica=1, incarnation=1, node="w2", exit_status=1))
    pool.fold(
        c.JobPlaced(plan=begun.plan, attempt=1, job="a", incarnation=1, node="w1", nodes=("w1", "w2"), sizes=(2,))
    )

    assert pool.plan_of("a").kind is PlanKind.CLEAR
    assert pool.allocated() == {"w1": 100}


def test_a_cancelled_gang_is_stopped_whole() -> None:
    """As a job of one replica is."""
    pool = GangPool(w1=1_000, w2=1_000)
    job = pool.gang("a", "w1", "w2")

    pool.fold(cancelled("a"))
    pool.carry_out("a")

    assert (job.phase, pool.allocated()) == (Phase.STOPPED, {})


def test_a_report_of_a_replica_from_another_node_does_not_count() -> None:
    """Nor does one of a replica that the gang does not have."""
    pool = GangPool(w1=1_000, w2=1_000)
    job = pool.gang("a", "w1", "w2")

    assert not pool.fold(c.ReplicaStopped(job="a", replica=1, incarnation=1, node="w1", exit_status=1))
    assert not pool.fold(c.ReplicaStopped(job="a", replica=7, incarnation=1, node="w1", exit_status=1))
    assert all(one.alive for one in job.replicas)


def test_the_chief_saves_unless_only_another_can() -> None:
    """Then the checkpoint is asked of that one."""
    pool = GangPool(w1=1_000, w2=1_000)
    job = pool.gang("a", "w1", "w2", mode=None)
    pool.fold(c.CheckpointModeDeclared(job="a", incarnation=1, mode=CheckpointMode.NONE, node="w1"))
    assert job.mode is CheckpointMode.NONE

    pool.fold(c.CheckpointModeDeclared(job="a", incarnation=1, mode=CheckpointMode.ON_REQUEST, node="w2", replica=1))

    assert (job.saver, job.mode) == (1, CheckpointMode.ON_REQUEST)


# --- promised room ----------------------------------------------------------------------------------------------------


def waiting_for_room() -> GangPool:
    """A gang, ``b``, waits for the room that the suspension of ``a`` will leave."""
    pool = GangPool(w1=1_000, w2=1_000)
    configured(pool, min_run_ms=0)
    a = pool.gang("a", "w1", "w2", roles=(role(2, 800),))
    pool.feed(
        submitted("b", roles=(role(2, 700),)),
        transition("a", SUSPEND, a.nodes, room_for="b"),
        placement("b", "w1", "w2", after=("suspend-a-1",)),
    )
    return pool


def test_a_plan_that_waits_is_not_due_until_room_is_made() -> None:
    """Its room is promised to it immediately, beside what is free."""
    pool = waiting_for_room()

    assert pool.plan_of("b").waits == ("suspend-a-1",)
    assert pool.next_action("b") is None
    assert pool.allocated() == {"w1": 800, "w2": 800}
    pool.carry_out("a")
    assert [plan.job for plan in pool.view.newly_due] == ["b"]
    assert pool.allocated() == {"w1": 700, "w2": 700}
    pool.carry_out("b")

    assert pool.job("b").alive


def test_promised_room_is_promised_once() -> None:
    """What is left over of it is free for others, once it is there."""
    pool = waiting_for_room()
    pool.fold(submitted("c", roles=(role(2, 300),)))

    pool.fold(placement("c", "w1", "w2", plan="p1", after=("suspend-a-1",)))
    assert pool.view.plan("p1").status is PlanStatus.IN_FLIGHT  # type: ignore[union-attr]
    pool.fold(submitted("d", roles=(role(2, 100),)))
    pool.fold(placement("d", "w1", "w2", plan="p2", after=("suspend-a-1",)))
    assert pool.view.refused == NoRoom.TOO_LITTLE_FREE
    pool.carry_out("a")

    assert pool.allocated() == {"w1": 1_000, "w2": 1_000}


def test_a_plan_whose_room_does_not_come_is_abandoned_and_its_job_waits_again() -> None:
    """Nothing of it began."""
    pool = waiting_for_room()
    pool.fail("a")
    pool.fail("a")
    pool.carry_out("a")

    assert pool.plan_of("b").doomed == Doom.NO_ROOM_MADE.about(plan="suspend-a-1")
    event = pool.act("b")

    assert isinstance(event, c.PlanAbandoned)
    assert pool.job("b").phase is Phase.WAITING
    assert pool.allocated() == {"w1": 800, "w2": 800}


def test_room_that_comes_by_another_way_is_room() -> None:
    """The job that was to be suspended ends by itself."""
    pool = waiting_for_room()
    pool.feed(pool.stopped("a", 0, replica=0), pool.stopped("a", 0, replica=1))
    pool.carry_out("a")

    assert pool.job("a").phase is Phase.STOPPED
    pool.carry_out("b")
    assert pool.job("b").alive


def test_a_plan_after_a_void_one_is_void() -> None:
    """Its room would never come."""
    pool = GangPool(w1=1_000)
    pool.feed(submitted("b"), placement("b", "w1", after=("nothing",)))

    assert pool.view.refused == Void.NO_ROOM_COMING


# --- nodes that are gone ----------------------------------------------------------------------------------------------


def lose(pool: GangPool, node: str) -> None:
    """An operator says that a lost node never returns."""
    pool.feed(c.NodeLost(node=node, silent_ms=15_000), c.NodeGone(node=node))


def test_a_gang_that_loses_a_node_is_cleared_and_starts_again() -> None:
    """What ran elsewhere is stopped."""
    pool = GangPool(w1=1_000, w2=1_000)
    job = pool.gang("a", "w1", "w2")

    lose(pool, "w2")
    assert pool.plan_of("a").kind is PlanKind.CLEAR
    pool.carry_out("a")

    assert (job.phase, job.exit_status, pool.allocated()) == (Phase.STOPPED, None, {})
    assert "w2" in job.stop_reason


def test_an_elastic_gang_goes_on_without_a_node() -> None:
    """With the replicas that are left."""
    pool = GangPool(w1=1_000, w2=1_000)
    job = pool.gang("a", "w1", "w2", roles=(role(2, min=1),))

    lose(pool, "w2")

    assert (job.alive, job.plan, job.running_on, pool.allocated()) == (True, None, ("w1",), {"w1": 100})


def test_a_gang_holds_what_may_still_run_until_its_stop_is_done() -> None:
    """Also where its move has lost its targets and a source, and goes nowhere any more."""
    pool = GangPool(w1=1_000, w2=1_000, w3=1_000)
    configured(pool, min_run_ms=0)
    job = pool.gang("a", "w1", "w2")
    pool.fold(transition("a", MOVE, job.nodes, "w2", "w3"))
    pool.carry_out("a", before=c.Step.STOP)
    pool.begin("a")
    lose(pool, "w3")
    lose(pool, "w2")
    assert pool.allocated() == {"w1": 100}
    pool.fail("a", "unknown-node", begun=pool.begin("a"))
    pool.carry_out("a")

    assert (job.phase, pool.allocated()) == (Phase.STOPPED, {})


@pytest.mark.parametrize("gone", ["w1", "w2", "w3"])
@pytest.mark.parametrize("before", [c.Step.CHECKPOINT, c.Step.STOP, c.Step.START, c.Step.VERIFY])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("kind", [SUSPEND, MOVE])
def test_a_plan_whose_node_is_gone_comes_to_an_end(
    gone: str, before: c.Step, *, begun: bool, kind: c.Transition
) -> None:
    """At any step, and nothing is held of a job that does not run."""
    pool = GangPool(w1=1_000, w2=1_000, w3=1_000)
    configured(pool, min_run_ms=0)
    job = pool.gang("a", "w1", "w2")
    pool.fold(transition("a", kind, job.nodes, *(("w2", "w3") if kind is MOVE else ())))
    pool.carry_out("a", before=before)
    if begun and job.plan and pool.plan_of("a").step is not None:
        pool.begin("a")
        lose(pool, gone)
        plan = pool.view.plan_of(job)
        if plan is not None and plan.begun:
            pool.fail("a", "unknown-node", begun=pool.begin("a"))
    else:
        lose(pool, gone)
    pool.carry_out("a")

    assert job.plan is None
    assert job.phase in {Phase.RUNNING, Phase.STOPPED, Phase.SUSPENDED}
    assert job.alive == (job.phase is Phase.RUNNING)
    if job.alive:
        assert all(replica.alive for replica in job.replicas)
    else:
        assert pool.allocated() == {}


@pytest.mark.parametrize(
    ("victim", "next_"),
    [(Resources(100, gpu_m=250), Resources(100, gpus=1)), (Resources(100, gpus=1), Resources(100, gpu_m=700))],
)
def test_a_share_of_a_gpu_makes_room_for_a_whole_one_and_the_other_way_round(
    victim: Resources, next_: Resources
) -> None:
    """What the one leaves is promised to the other, which holds all of it once the first has left."""
    pool = GangPool()
    pool.feed(joined("w1", gpus=1), submitted("a", requests=victim), placement("a", "w1"))
    pool.carry_out("a")
    pool.tick(60_000)
    suspends = transition("a", c.Transition.SUSPEND, ["w1"], room_for="b")
    pool.feed(submitted("b", requests=next_), suspends)
    assert pool.feed(placement("b", "w1", after=(suspends.plan,))) == [True]
    assert min(pool.node("w1").allocated.gpus, pool.node("w1").allocated.gpu_m) >= 0
    pool.carry_out("a")
    held = pool.node("w1").allocated
    assert (held.gpus, held.gpu_m) == (next_.gpus, next_.gpu_m)
    pool.carry_out("b")
    assert pool.job("b").phase is Phase.RUNNING


GPUS = st.builds(Resources, gpus=st.integers(0, 4), gpu_m=st.integers(0, 4_000))


@given(GPUS, GPUS)
def test_shares_and_whole_gpus_are_one_amount(one: Resources, other: Resources) -> None:
    """Of differences, and of the smaller and larger of two; none of a difference above 0 is below 0."""
    assert (one - other).all_gpus_m == one.all_gpus_m - other.all_gpus_m
    assert one.smaller(other).all_gpus_m == min(one.all_gpus_m, other.all_gpus_m)
    assert one.larger(other).all_gpus_m == max(one.all_gpus_m, other.all_gpus_m)
    left = one - one.smaller(other)
    assert min(left.gpus, left.gpu_m) >= 0
