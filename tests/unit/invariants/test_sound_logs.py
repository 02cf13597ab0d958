"""Logs in which nothing is wrong, though much happens: every checker must say that its invariant holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, placement, submitted, transition
from tests.harness.scenarios.log_builder import LogBuilder, checkpoint

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.parameters import PoolParameters, PreemptionLimits
from steepest.invariants import AnnouncedParameters, Audit, Status, all_with


def a_move() -> LogBuilder:
    """A job runs, is moved, and finishes; another one stays."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").running("b", "n1")
    return story.moved("a", "n1", "n2").exited("a", "n2", 2).exited("b", "n1")


def a_move_of_a_job_that_saves_when_stopped() -> LogBuilder:
    """It has proven that it can save, and loses the steps since its last save."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1", mode=None)
    story.add(
        c.CheckpointModeDeclared(job="a", incarnation=1, node="n1", mode=CheckpointMode.ON_STOP),
        c.CheckpointVerified(job="a", incarnation=1, node="n1", checkpoint=checkpoint(50)),
    )
    story.move_planned("move", "a", "n1", "n2").stopped("move", "a", "n1", step=107, saved=100)
    story.started("move", "a", "n2", 2, restore=checkpoint(100)).verified("move", "a", "n2", 2)
    return story.finished("move", "a", "n2", steps_lost=7)


def a_move_that_goes_back() -> LogBuilder:
    """The start at the target fails for good, so the job goes on where it was, as a third incarnation."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1")
    story.move_planned("move", "a", "n1", "n2").saved("move", "a", "n1").stopped("move", "a", "n1")
    story.begun("move", c.Step.START, "a", 2, "n2").failed("move", c.Step.START, "a")
    story.begun("move", c.Step.START, "a", 2, "n2").failed("move", c.Step.START, "a")
    story.started("move", "a", "n1", 3, restore=checkpoint(100)).verified("move", "a", "n1", 3)
    return story.add(c.MigrationFailed(plan="move", job="a", code="refused", message="no", node="n1"))


def a_move_whose_process_dies_at_the_target() -> LogBuilder:
    """The step that waits for it says that it ended; the fact comes later, and the job goes back meanwhile."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1")
    story.move_planned("move", "a", "n1", "n2").saved("move", "a", "n1").stopped("move", "a", "n1")
    story.started("move", "a", "n2", 2, restore=checkpoint(100))
    story.begun("move", c.Step.VERIFY, "a", 2, "n2").failed("move", c.Step.VERIFY, "a", "ended")
    story.started("move", "a", "n1", 3, restore=checkpoint(100))
    story.add(c.ReplicaStopped(job="a", incarnation=2, node="n2", exit_status=1))
    story.verified("move", "a", "n1", 3)
    return story.add(c.MigrationFailed(plan="move", job="a", code="ended", message="no", node="n1"))


def a_node_that_is_gone() -> LogBuilder:
    """A job goes on elsewhere; one that was about to be moved too; one that was moved goes on at its target."""
    story = LogBuilder().opened(n1=2000, n2=2000).running("a", "n1").running("b", "n1").running("d", "n1")
    story.move_planned("move-b", "b", "n1", "n2").saved("move-b", "b", "n1")
    story.move_planned("move-d", "d", "n1", "n2").saved("move-d", "d", "n1").stopped("move-d", "d", "n1")
    story.add(c.NodeLost(node="n1", silent_ms=15_000), c.NodeGone(node="n1"))
    for job in ("a", "b"):
        story.add(c.RetryPlanned(job=job, incarnation=1, charged=False, not_before_ms=0, reason="its node is gone"))
        story.placement_planned(f"again-{job}", job, "n2", 1).started(f"again-{job}", job, "n2", 2)
    story.started("move-d", "d", "n2", 2, restore=checkpoint(100)).verified("move-d", "d", "n2", 2)
    return story.finished("move-d", "d", "n2")


def a_node_that_is_gone_before_the_way_back_to_it_begins() -> LogBuilder:
    """The job cannot go on at its target, which refuses it, ends it or is gone first: it has nowhere to go."""
    story = LogBuilder().opened(n1=2000, n2=2000, n3=2000)
    for job in ("a", "b", "c"):
        story.running(job, "n1").move_planned(f"move-{job}", job, "n1", "n3" if job == "c" else "n2")
        story.saved(f"move-{job}", job, "n1").stopped(f"move-{job}", job, "n1")
    for _ in range(2):
        story.begun("move-a", c.Step.START, "a", 2, "n2").failed("move-a", c.Step.START, "a")
    story.started("move-b", "b", "n2", 2, restore=checkpoint(100))
    story.begun("move-b", c.Step.VERIFY, "b", 2, "n2").failed("move-b", c.Step.VERIFY, "b", "ended")
    for node in ("n3", "n1"):
        story.add(c.NodeLost(node=node, silent_ms=15_000), c.NodeGone(node=node))
    for job, incarnation in (("a", 2), ("b", 2), ("c", 1)):
        story.add(
            c.RetryPlanned(job=job, incarnation=incarnation, charged=False, not_before_ms=0, reason="its node is gone")
        )
        story.placement_planned(f"again-{job}", job, "n2", incarnation)
        story.started(f"again-{job}", job, "n2", incarnation + 1)
    return story


def a_migrator_that_is_overtaken() -> LogBuilder:
    """Another migrator takes a step over; the first one's outcome and conclusion come late and count no more."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1")
    story.move_planned("move", "a", "n1", "n2").saved("move", "a", "n1")
    story.begun("move", c.Step.STOP, "a", 1, "n1").stopped("move", "a", "n1")
    story.started("move", "a", "n2", 2, restore=checkpoint(100))
    late = c.JobStopped(plan="move", attempt=2, job="a", incarnation=1, exit_status=85, step=100)
    twice = c.StepBegun(plan="move", step=c.Step.START, attempt=5, job="a", incarnation=2, node="n2")
    story.add(late, twice).verified("move", "a", "n2", 2).finished("move", "a", "n2")
    return story.add(
        c.MigrationFinished(plan="move", job="a", target="n2", steps_lost=0, took_ms=77, paused_ms=7),
        c.StepBegun(plan="move", step=c.Step.STOP, attempt=6, job="a", incarnation=1, node="n1"),
    )


def a_step_taken_over_after_a_cancel() -> LogBuilder:
    """A cancel ends a plan after the step that is under way, which another migrator may take over meanwhile."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").move_planned("move", "a", "n1", "n2")
    story.begun("move", c.Step.CHECKPOINT, "a", 1, "n1").add(c.JobCancelRequested(job="a", request="cancel"))
    story.saved("move", "a", "n1").add(c.PlanAbandoned(plan="move", job="a", code="given-up"))
    return story.stopped("cancel", "a", "n1").add(c.JobEnded(job="a", outcome=c.Outcome.CANCELLED))


def a_start_begun_again_after_a_cancel() -> LogBuilder:
    """It is unknown whether a START took effect when a cancel comes: it is begun again, and then the process is stopped."""
    story = LogBuilder().opened(n1=1000).submitted("a").placement_planned("place", "a", "n1")
    story.begun("place", c.Step.START, "a", 1, "n1")
    story.add(
        c.StepFailed(
            plan="place", step=c.Step.START, attempt=1, job="a", code="timeout", definite=False, message="no answer"
        ),
        c.JobCancelRequested(job="a", request="cancel"),
    )
    story.started("place", "a", "n1", 1)
    return story.stopped("cancel", "a", "n1").add(c.JobEnded(job="a", outcome=c.Outcome.CANCELLED))


def facts_in_their_own_time() -> LogBuilder:
    """The news that a process has stopped comes before the migrator's, or when its successor moves already."""
    story = LogBuilder().opened(n1=1000, n2=1000).add(c.JobCancelRequested(job="a", request="too early"))
    story.running("a", "n1").move_planned("one", "a", "n1", "n2").saved("one", "a", "n1")
    story.begun("one", c.Step.STOP, "a", 1, "n1")
    story.add(c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=85, step=100))
    story.add(c.JobStopped(plan="one", attempt=2, job="a", incarnation=1, exit_status=85, step=100))
    story.started("one", "a", "n2", 2, checkpoint(100)).verified("one", "a", "n2", 2).finished("one", "a", "n2")
    story.move_planned("two", "a", "n2", "n1", 2).saved("two", "a", "n2", incarnation=2)
    story.add(c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=85, step=100))
    story.stopped("two", "a", "n2", incarnation=2).started("two", "a", "n1", 3, checkpoint(100))
    return story.verified("two", "a", "n1", 3).finished("two", "a", "n1")


def void_plans_that_rest() -> LogBuilder:
    """Plans come too late, for a full node or for a job that is on its way: they stay in the log, and nothing begins."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").running("b", "n2", 800)
    story.move_planned("full", "a", "n1", "n2").move_planned("old", "a", "n1", "n2", 0)
    story.move_planned("nowhere", "a", "n1", "n3").add(c.NodeJoined(node="n3", capacity=Resources(cpu_m=1000)))
    story.move_planned("move", "a", "n1", "n3").move_planned("second", "a", "n1", "n3")
    story.saved("move", "a", "n1").stopped("move", "a", "n1").started("move", "a", "n3", 2, checkpoint(100))
    return story.verified("move", "a", "n3", 2).finished("move", "a", "n3")


def a_cancel_that_comes_between() -> LogBuilder:
    """A job is cancelled while its move begins: the move is given up, and a STOP of its own ends the job."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1")
    story.move_planned("move", "a", "n1", "n2").saved("move", "a", "n1")
    story.add(
        c.JobChangeRequested(job="a", request="more", priority=7), c.JobCancelRequested(job="a", request="cancel")
    )
    too_late = c.StepBegun(plan="move", step=c.Step.STOP, attempt=2, job="a", incarnation=1, node="n1")
    story.add(too_late, c.PlanAbandoned(plan="move", job="a", code="given-up"))
    story.stopped("cancel-15", "a", "n1")
    return story.add(c.JobEnded(job="a", outcome=c.Outcome.CANCELLED, exit_status=85))


def a_retry_after_a_crash() -> LogBuilder:
    """A process dies while its move is planned; the plan is given up, and the job starts again on its own."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").move_planned("move", "a", "n1", "n2")
    story.saved("move", "a", "n1").exited("a", "n1", status=1)
    story.add(c.PlanAbandoned(plan="move", job="a", code="given-up"))
    story.add(c.RetryPlanned(job="a", incarnation=1, charged=True, not_before_ms=0, reason="it exited with status 1"))
    story.placement_planned("again", "a", "n2", 1).started("again", "a", "n2", 2, restore=checkpoint(100))
    story.add(c.ReplicaStarted(job="a", incarnation=1, node="n1"))  # a late fact of the incarnation that died
    return story.exited("a", "n2", 2)


def a_start_tried_again() -> LogBuilder:
    """It is unknown whether the first attempt took effect, so the same incarnation is started on the same node again."""
    story = LogBuilder().opened(n1=1000).submitted("a").placement_planned("place", "a", "n1")
    story.begun("place", c.Step.START, "a", 1, "n1").failed("place", c.Step.START, "a", "uncertain", definite=False)
    return story.started("place", "a", "n1")


def a_rejection_and_a_name_used_twice() -> LogBuilder:
    """A second job of a name is rejected beside the first; one that fits nowhere is rejected after it was admitted."""
    story = LogBuilder().opened(n1=1000).running("a", "n1")
    story.add(c.JobSubmitted(job="a", request="other", spec=c.JobSpec(command=("train",))))
    story.add(c.JobRejected(job="a", request="other", reason="there is one"))
    story.submitted("b", 5000).add(c.JobRejected(job="b", request="request-b", reason="too large"))
    return story.exited("a", "n1").running("a", "n1")


def a_node_that_shrinks_and_one_that_is_lost() -> LogBuilder:
    """A plan made before its node shrinks, or is lost and returns, is no breach."""
    story = LogBuilder().opened(n1=1000, n2=1000).submitted("a", 900).placement_planned("place", "a", "n1")
    story.add(c.NodeJoined(node="n1", capacity=Resources(cpu_m=100))).started("place", "a", "n1")
    story.add(c.NodeLost(node="n2", silent_ms=20_000), c.NodeUsage(node="n2", used=Resources()))
    return story.moved("a", "n1", "n2")


def decisions_delivered_again() -> LogBuilder:
    """A decider that was restarted writes what it wrote before, with the same ids: it counts once."""
    story = a_move()
    again = [received for received in story.records if received.headers]
    for received in again:
        story.add(received.event, headers=received.headers)
    return story


def limits_set_refused_and_overtaken() -> LogBuilder:
    """Two jobs are limited; an engine says yes, does not know, says no; a job moves while its limit is under way."""
    new, completing = c.GrowthList.NEW, c.GrowthList.COMPLETING
    story = LogBuilder().opened(n1=1000, n2=1000).add(c.PoolConfigured()).running("a", "n1").running("b", "n1")
    seen = (c.GrowthSeen("a", new, 0.5), c.GrowthSeen("b", completing, 0.1))
    because = c.LimitsBecause(rule="Algorithm 1", jobs=seen, total=0.6)
    wanted = (c.JobLimit("a", 1, new, 833), c.JobLimit("b", 1, completing, 333))
    story.add(c.LimitsPlanned(plan="limits", node="n1", limits=wanted, because=because))
    story.add(c.LimitsApplied(plan="limits", node="n1", job="a", incarnation=1, cpu_m=833))
    for definite in (False, True):
        story.add(
            c.LimitsRefused(plan="limits", node="n1", job="b", incarnation=1, code="x", definite=definite, message="no")
        )
    story.moved("a", "n1", "n2")
    late = c.LimitsApplied(plan="limits", node="n1", job="b", incarnation=1, cpu_m=333)
    return story.add(c.NodeJoined(node="n1", capacity=Resources(cpu_m=100)), late)


def gangs_that_are_suspended_scaled_and_moved() -> LogBuilder:
    """A gang makes room for an urgent job and resumes; it is scaled, cannot be moved, and loses its chief."""
    pool = FoldedPool(n1=400, n2=400)
    roles = (c.Role(name="worker", replicas=2, min=1, max=4, requests=Resources(cpu_m=200)),)
    limits = PreemptionLimits(min_run_ms=0)
    pool.feed(c.PoolConfigured(parameters=PoolParameters(preemption=limits)))
    pool.feed(submitted("gang", roles=roles), placement("gang", "n1", "n2"))
    pool.carry_out("gang")
    pool.feed(*(c.ReplicaStarted(job="gang", replica=at, incarnation=1, node=f"n{at + 1}") for at in (0, 1)))
    pool.feed(
        submitted("urgent", 400, priority=100),
        transition("gang", c.Transition.SUSPEND, ("n1", "n2"), room_for="urgent"),
        placement("urgent", "n1", after=("suspend-gang-1",)),
    )
    for job in ("gang", "urgent"):
        pool.carry_out(job)
    pool.tick()
    pool.feed(placement("gang", "n2", incarnation=1, sizes=(1,)))
    pool.carry_out("gang")
    pool.end("urgent")
    pool.feed(transition("gang", c.Transition.SCALE, ("n2",), "n2", "n1", "n1", incarnation=2, sizes=(3,)))
    pool.carry_out("gang")
    pool.feed(transition("gang", c.Transition.MOVE, ("n2", "n1", "n1"), "n1", "n2", "n2", incarnation=3, sizes=(3,)))
    pool.fail("gang")
    pool.fail("gang")
    pool.carry_out("gang")
    pool.feed(pool.stopped("gang", 1, replica=0))
    pool.carry_out("gang")
    pool.feed(c.JobEnded(job="gang", outcome=c.Outcome.FAILED, exit_status=1))
    return _story_of(pool)


def a_gang_that_is_moved_after_its_first_replica_has_finished() -> LogBuilder:
    """Its STOP begins where its first replica was, though nothing is left there to be stopped."""
    pool = FoldedPool(n1=400, n2=400)
    roles = (c.Role(name="worker", replicas=2, min=1, requests=Resources(cpu_m=200)),)
    pool.feed(c.PoolConfigured())
    pool.feed(submitted("gang", roles=roles), placement("gang", "n1", "n2"))
    pool.carry_out("gang")
    pool.feed(*(c.ReplicaStarted(job="gang", replica=at, incarnation=1, node=f"n{at + 1}") for at in (0, 1)))
    pool.feed(pool.stopped("gang", replica=0))
    pool.feed(transition("gang", c.Transition.MOVE, ("n2",), "n1", sizes=(1,)))
    pool.carry_out("gang")
    return _story_of(pool)


def _story_of(pool: FoldedPool) -> LogBuilder:
    story = LogBuilder()
    for received in pool.log:
        story.add(received.event, headers={})
    return story


def surplus_workers_that_leave() -> LogBuilder:
    """Two of four asynchronous workers leave, a third one crashes; the gang grows again by a restart, and finishes."""
    pool = FoldedPool(n1=400, n2=400)
    roles = (
        c.Role(name="ps", requests=Resources(cpu_m=100)),
        c.Role(name="worker", replicas=4, min=1, max=4, may_leave=True, requests=Resources(cpu_m=100)),
    )
    pool.feed(submitted("a", roles=roles, success=c.SuccessRule.CHIEF), placement("a", "n1", "n1", "n1", "n2", "n2"))
    pool.carry_out("a")
    nodes = pool.job("a").nodes
    pool.feed(*(c.ReplicaStarted(job="a", replica=at, incarnation=1, node=node) for at, node in enumerate(nodes)))
    pool.feed(transition("a", c.Transition.SHED, nodes, *nodes[:3], sizes=(1, 2), leaving=(3, 4)))
    pool.feed(submitted("b", 400), placement("b", "n2", after=("shed-a-1",)))
    for job in ("a", "b"):
        pool.carry_out(job)
    for _ in range(400):
        pool.tick()
    pool.feed(pool.stopped("a", 1, replica=2))
    pool.end("b")
    pool.feed(transition("a", c.Transition.SCALE, ("n1", "n1"), "n1", "n1", "n2", "n2", "n2"))
    pool.carry_out("a")
    pool.feed(pool.stopped("a", 0, replica=0))
    pool.carry_out("a")
    pool.feed(c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=0))
    story = LogBuilder()
    for received in pool.log:
        story.add(received.event, headers={})
    return story


SOUND: tuple[Callable[[], LogBuilder], ...] = (
    a_move,
    surplus_workers_that_leave,
    a_move_of_a_job_that_saves_when_stopped,
    a_move_that_goes_back,
    a_move_whose_process_dies_at_the_target,
    a_node_that_is_gone,
    a_node_that_is_gone_before_the_way_back_to_it_begins,
    a_migrator_that_is_overtaken,
    a_step_taken_over_after_a_cancel,
    a_start_begun_again_after_a_cancel,
    facts_in_their_own_time,
    void_plans_that_rest,
    a_cancel_that_comes_between,
    a_retry_after_a_crash,
    a_start_tried_again,
    a_rejection_and_a_name_used_twice,
    a_node_that_shrinks_and_one_that_is_lost,
    decisions_delivered_again,
    limits_set_refused_and_overtaken,
    gangs_that_are_suspended_scaled_and_moved,
    a_gang_that_is_moved_after_its_first_replica_has_finished,
)


@pytest.mark.parametrize("make", SOUND, ids=lambda make: make.__name__)
def test_every_invariant_holds_of_a_sound_log_and_of_each_of_its_beginnings(make: Callable[[], LogBuilder]) -> None:
    """Every prefix of a sound log is sound: no checker needs to know the future."""
    audit = Audit(all_with(AnnouncedParameters()))
    for received in make().records:
        audit.feed(received)
        assert [verdict for verdict in audit.verdicts() if verdict.status is not Status.HOLDS] == [], received.event


def test_the_sound_logs_hold_events_of_every_plan() -> None:
    """The logs must hold every event that the checkers examine."""
    found = {type(received.event) for make in SOUND for received in make().records}
    unchecked = {
        c.GrowthMeasured,
        c.CategoryChanged,
        c.ReallocationRequested,
        c.StayDecided,
        c.GoalReached,
        c.FindingOpened,
        c.FindingEnded,
        c.TargetNotified,
        c.ReactionPlanned,
        c.EpochMeasured,
        c.RunTimePredicted,
        c.OverheadPredicted,
        c.OverheadMeasured,
        c.PromiseRevised,
        c.NodeDrainRequested,
        c.RungReached,
        c.TrialJudged,
    }
    assert found | unchecked == set(c.ClusterEvent.__args__)
