"""Unsound logs about plans: one anomaly each, which its checker must find and point at."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from tests.harness.scenarios.log_builder import LogBuilder, checkpoint
from tests.harness.scenarios.verdicts import broken, holds
from tests.property.node_terms import LABELS, RULES, TAINTS

from steepest.events import cluster as c
from steepest.events.common import (
    CheckpointMode,
    LabelOperator,
    LabelRequirement,
    NodeRule,
    Resources,
    Taint,
    Toleration,
    TolerationOperator,
)
from steepest.events.parameters import PoolParameters
from steepest.events.received import LOGIC
from steepest.invariants.allowed_nodes import AllowedNodes
from steepest.invariants.checkers.incarnations_rise import Incarnations
from steepest.invariants.checkers.plan_once import PlanOnce
from steepest.invariants.checkers.reserved_first import ReservedFirst
from steepest.invariants.checkers.valid_plans import ValidPlans
from steepest.view.places.node_rules import is_allowed
from steepest.view.state import Node


def two_nodes() -> LogBuilder:
    """Job a runs on n1, and n2 is free."""
    return LogBuilder().opened(n1=1000, n2=1000).running("a", "n1")


# --- plan-once ------------------------------------------------------------------------------------------------------


def test_a_move_cannot_finish_and_fail() -> None:
    """The two conclusions cannot both be so."""
    story = two_nodes().moved("a", "n1", "n2")
    story.add(c.MigrationFailed(plan="move", job="a", code="refused", message="no", node="n1"))
    evidence, message = broken(PlanOnce, story)
    assert evidence == (story.end - 2, story.end - 1)
    assert "finished on n2" in message
    assert "failed (refused)" in message


def test_failures_of_a_move_may_differ_by_the_end_of_its_job() -> None:
    """One migrator has read that the job ended where it went back to, and the other has not; its reason is the same."""

    def failed(node: str | None, code: str = "node-lost") -> c.MigrationFailed:
        return c.MigrationFailed(plan="move", job="a", code=code, message="n2 is lost", node=node)

    def story(*conclusions: c.MigrationFailed) -> LogBuilder:
        return two_nodes().move_planned("move", "a", "n1", "n2").saved("move", "a", "n1").add(*conclusions)

    holds(PlanOnce, story(failed("n1"), failed(None)))
    assert "n2" in broken(PlanOnce, story(failed("n1"), failed("n2")))[1]
    assert "refused" in broken(PlanOnce, story(failed("n1"), failed("n1", code="refused")))[1]


def test_a_plan_that_is_over_is_not_acted_on() -> None:
    """The beginning no longer counts, and yet a migrator acted and reports it."""
    story = two_nodes().moved("a", "n1", "n2").stopped("move", "a", "n2", incarnation=2)
    assert broken(PlanOnce, story)[0][-1] == story.end - 1


def test_a_step_that_is_done_is_not_done_again() -> None:
    """A second start of the same incarnation, after it was placed."""
    story = two_nodes().move_planned("move", "a", "n1", "n2").saved("move", "a", "n1").stopped("move", "a", "n1")
    story.started("move", "a", "n2", 2, checkpoint(100)).started("move", "a", "n2", 2, checkpoint(100))
    assert broken(PlanOnce, story)[0][-1] == story.end - 2


def test_an_outcome_needs_a_beginning() -> None:
    """No migrator may act before it reads the beginning back; an outcome without one shows that a migrator did."""
    story = two_nodes().add(c.JobStopped(plan="ghost", attempt=1, job="a", incarnation=1))
    assert broken(PlanOnce, story) == (
        (story.end - 1,),
        "JobStopped has attempt 1 of plan ghost, which never counted",
    )


def test_a_cancel_that_came_first_wins() -> None:
    """The beginning stands after the cancel and does not count; acting on it all the same is a breach."""
    story = two_nodes().move_planned("move", "a", "n1", "n2").saved("move", "a", "n1")
    story.add(c.JobCancelRequested(job="a", request="cancel")).stopped("move", "a", "n1")
    assert broken(PlanOnce, story)[0][-1] == story.end - 1


def test_a_job_that_ended_by_itself_is_not_stopped_for_a_move() -> None:
    """Its plan is doomed from there; a beginning after it does not count."""
    story = two_nodes().move_planned("move", "a", "n1", "n2").saved("move", "a", "n1").exited("a", "n1", status=1)
    story.stopped("move", "a", "n1")
    assert broken(PlanOnce, story)[0][-1] == story.end - 1


def test_attempts_are_numbered_without_gaps() -> None:
    """A beginning that leaves a number out does not count, so no migrator may act on it."""
    story = two_nodes().move_planned("move", "a", "n1", "n2")
    story.add(c.StepBegun(plan="move", step=c.Step.CHECKPOINT, attempt=2, job="a", incarnation=1, node="n1"))
    story.add(c.CheckpointSaved(plan="move", attempt=2, job="a", incarnation=1, checkpoint=checkpoint(100)))
    assert broken(PlanOnce, story)[0][-1] == story.end - 1


def test_nothing_of_a_move_begins_where_the_node_is_gone() -> None:
    """A beginning of its verification that comes late does not count, so the way back has the next number."""
    story = two_nodes().move_planned("move", "a", "n1", "n2").saved("move", "a", "n1").stopped("move", "a", "n1")
    story.started("move", "a", "n2", 2).add(c.NodeLost(node="n2", silent_ms=15_000), c.NodeGone(node="n2"))
    verify = c.StepBegun(plan="move", step=c.Step.VERIFY, attempt=4, job="a", incarnation=2, node="n2")
    back = c.StepBegun(plan="move", step=c.Step.START, attempt=4, job="a", incarnation=3, node="n1")
    placed = c.JobPlaced(plan="move", attempt=4, job="a", incarnation=3, node="n1", restore=checkpoint(100))

    runs = c.ReplicaStarted(job="a", incarnation=3, node="n1")

    holds(Incarnations, story.add(verify, back, placed, runs))


@pytest.mark.parametrize("by_the_node", [True, False])
def test_a_job_that_finished_while_it_was_stopped_is_not_started_again(*, by_the_node: bool) -> None:
    """It exited with status 0 instead of saving: the plan fails, whether the node or the migrator reports it first."""
    story = two_nodes().move_planned("move", "a", "n1", "n2").saved("move", "a", "n1")
    story.begun("move", c.Step.STOP, "a", 1, "n1")
    if by_the_node:
        story.add(c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=0))
    status = 85 if by_the_node else 0
    story.add(c.JobStopped(plan="move", attempt=2, job="a", incarnation=1, exit_status=status))
    assert broken(PlanOnce, story.started("move", "a", "n2", 2))[0][-1] == story.end - 2


def test_a_plan_is_made_once() -> None:
    """Two decisions must not share a name."""
    story = two_nodes().move_planned("move", "a", "n1", "n2").move_planned("move", "a", "n1", "n2")
    assert broken(PlanOnce, story) == ((story.end - 2, story.end - 1), "plan move is made twice")


def test_a_plan_that_another_logic_makes_again_is_none() -> None:
    """To it, the record that caused both has other numbers; views know the name, and do not look at the second one."""
    story = two_nodes().move_planned("move", "a", "n1", "n2").move_planned("move", "a", "n1", "n2")
    story.records[-2:] = [
        msgspec.structs.replace(one, headers={LOGIC: logic})
        for one, logic in zip(story.records[-2:], ("3", "4"), strict=True)
    ]

    holds(PlanOnce, story)


def test_a_move_has_finished_once_its_job_trains() -> None:
    """Not before the target has reported a step."""
    story = two_nodes().move_planned("move", "a", "n1", "n2").saved("move", "a", "n1").stopped("move", "a", "n1")
    story.started("move", "a", "n2", 2, checkpoint(100)).finished("move", "a", "n2")
    assert "its verify is not done" in broken(PlanOnce, story)[1]


@pytest.mark.parametrize("goes_back", [True, False])
def test_a_move_that_its_target_refuses_goes_back(*, goes_back: bool) -> None:
    """It has failed once its job was to be started where it was, not before."""
    story = two_nodes().move_planned("move", "a", "n1", "n2").saved("move", "a", "n1").stopped("move", "a", "n1")
    for _ in range(2):
        story.begun("move", c.Step.START, "a", 2, "n2").failed("move", c.Step.START, "a")
    if goes_back:
        story.started("move", "a", "n1", 2, checkpoint(100))
    story.add(c.MigrationFailed(plan="move", job="a", code="refused", message="no", node="n1" if goes_back else None))
    if goes_back:
        holds(PlanOnce, story)
    else:
        assert "not started again where it was" in broken(PlanOnce, story)[1]


@pytest.mark.parametrize("definite", [True, False])
def test_no_plan_is_given_up_before_its_start_was_looked_up(*, definite: bool) -> None:
    """What may run there would run beside the next incarnation."""
    story = LogBuilder().opened(n1=1000).submitted("a").placement_planned("place", "a", "n1")
    story.begun("place", c.Step.START, "a", 1, "n1").failed("place", c.Step.START, "a", definite=definite)
    story.add(c.PlanAbandoned(plan="place", job="a", code="refused", message="no"))
    if definite:
        holds(PlanOnce, story)
    else:
        assert "whether its start took effect is not known" in broken(PlanOnce, story)[1]


# --- valid-plans ----------------------------------------------------------------------------------------------------


def test_only_a_node_that_was_lost_can_be_gone() -> None:
    """Of another one the declaration counts for nothing, as after a power loss that took the end of its reports."""
    gone, lost = c.NodeGone(node="n2"), c.NodeLost(node="n2", silent_ms=15_000)

    holds(ValidPlans, two_nodes().add(gone).moved("a", "n1", "n2"))
    assert "there is no node n2" in broken(ValidPlans, two_nodes().add(lost, gone).moved("a", "n1", "n2"))[1]


@pytest.mark.parametrize(
    ("incarnation", "target", "why"),
    [
        (2, "n2", "names incarnation 2, but the job's is 1"),
        (0, "n2", "names incarnation 0, but the job's is 1"),
        (1, "n9", "no node n9"),
        (1, "n1", "already on n1"),
    ],
)
def test_nothing_begins_of_a_void_move(incarnation: int, target: str, why: str) -> None:
    """The move names another incarnation than the current one, or a target that is none."""
    story = two_nodes().move_planned("move", "a", "n1", target, incarnation)
    story.begun("move", c.Step.CHECKPOINT, "a", incarnation, "n1")
    evidence, message = broken(ValidPlans, story)
    assert evidence == (story.end - 2, story.end - 1)
    assert why in message


def test_nothing_begins_of_a_move_to_a_full_node() -> None:
    """Where the plan stands n2 has 200m free, and the job asks for 500m."""
    story = two_nodes().running("b", "n2", 800).move_planned("move", "a", "n1", "n2").saved("move", "a", "n1")
    assert "node n2 is full" in broken(ValidPlans, story)[1]


def test_nothing_begins_of_a_move_to_a_lost_node() -> None:
    """It was lost where the plan stands; that it comes back later does not make the plan valid."""
    story = two_nodes().add(c.NodeLost(node="n2", silent_ms=20_000)).move_planned("move", "a", "n1", "n2")
    story.add(c.NodeUsage(node="n2", used=Resources())).saved("move", "a", "n1")
    assert "node n2 is lost" in broken(ValidPlans, story)[1]


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        (None, "cannot be checkpointed"),
        (CheckpointMode.NONE, "cannot be checkpointed"),
        (CheckpointMode.ON_STOP, "has never proven"),
    ],
)
def test_nothing_begins_of_a_move_without_a_checkpoint(mode: CheckpointMode | None, why: str) -> None:
    """A job that cannot save, or never showed that it can, is not moved."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1", mode=mode).move_planned("move", "a", "n1", "n2")
    story.begun("move", c.Step.STOP, "a", 1, "n1")
    assert why in broken(ValidPlans, story)[1]


def test_nothing_begins_of_a_move_of_a_job_that_never_ran() -> None:
    """There is nothing to move."""
    story = LogBuilder().opened(n1=1000, n2=1000).submitted("a").move_planned("move", "a", "n1", "n2", 0)
    assert "never ran" in broken(ValidPlans, story.begun("move", c.Step.STOP, "a", 0, "n1"))[1]


def test_nothing_begins_of_a_placement_of_an_unknown_job_or_node() -> None:
    """The job was never submitted; the node never joined."""
    ghost = LogBuilder().opened(n1=1000).placement_planned("place", "ghost", "n1")
    assert "never submitted" in broken(ValidPlans, ghost.begun("place", c.Step.START, "ghost", 1, "n1"))[1]
    nowhere = LogBuilder().opened(n1=1000).running("a", "n9")
    assert "no node n9" in broken(ValidPlans, nowhere)[1]


def test_of_two_plans_in_flight_one_begins() -> None:
    """The second is void while the first is in flight, whichever begins first."""
    for first, second in (("one", "two"), ("two", "one")):
        story = two_nodes().move_planned("one", "a", "n1", "n2").move_planned("two", "a", "n1", "n2")
        story.begun(first, c.Step.CHECKPOINT, "a", 1, "n1").begun(second, c.Step.CHECKPOINT, "a", 1, "n1")
        evidence, message = broken(ValidPlans, story)
        assert evidence == (story.end - 4, story.end - 3, story.end - 1)
        assert "in flight" in message


def test_a_step_that_was_given_up_is_not_begun_again() -> None:
    """A migrator takes it over before it has read that; the plan ends all the same, and another one may begin."""
    story = LogBuilder().opened(n1=1000, n2=1000).submitted("a").placement_planned("first", "a", "n1")
    for _ in range(PoolParameters().limits.tries):
        story.begun("first", c.Step.START, "a", 1, "n1").failed("first", c.Step.START, "a")
    story.begun("first", c.Step.START, "a", 1, "n1")
    story.add(
        c.PlanAbandoned(plan="first", job="a", code="refused", message="no"),
        c.RetryPlanned(job="a", incarnation=1, charged=False, not_before_ms=0, reason="no"),
    )
    holds(ValidPlans, story.placement_planned("second", "a", "n2", 1).started("second", "a", "n2", 2))


def test_a_plan_that_was_made_during_another_one_stays_void_afterwards() -> None:
    """That the first is over when the second begins does not make the second valid."""
    story = two_nodes().move_planned("one", "a", "n1", "n2").saved("one", "a", "n1")
    story.move_planned("two", "a", "n1", "n2").add(c.PlanAbandoned(plan="one", job="a", code="given-up"))
    assert "in flight" in broken(ValidPlans, story.saved("two", "a", "n1"))[1]


def test_a_cancel_may_begin_behind_the_end_that_it_asked_for() -> None:
    """Its node was declared gone while the beginning was on its way to the log."""
    gone = (c.NodeLost(node="n1", silent_ms=15_000), c.NodeGone(node="n1"))
    story = two_nodes().add(c.JobCancelRequested(job="a", request="cancel"), *gone)
    story.add(c.JobEnded(job="a", outcome=c.Outcome.CANCELLED, reason="cancelled"))

    holds(ValidPlans, story.begun("cancel-9", c.Step.STOP, "a", 1, "n1"))


def test_a_stop_whose_effect_is_unclear_goes_on_however_often_its_job_is_reported_as_stopped() -> None:
    """A log-collector that starts again says once more how each process ended; none has ended by itself."""
    ended = c.ReplicaStopped(job="a", replica=0, incarnation=1, node="n1", exit_status=85)
    story = two_nodes().move_planned("move", "a", "n1", "n2").saved("move", "a", "n1")
    story.begun("move", c.Step.STOP, "a", 1, "n1").add(ended).failed("move", c.Step.STOP, "a", definite=False)

    holds(PlanOnce, story.add(ended).stopped("move", "a", "n1"))


def test_a_step_of_no_plan_is_a_breach_unless_it_is_a_cancel() -> None:
    """Only the STOP of a job whose cancel was asked for needs no planning event."""
    asked = two_nodes().add(c.JobCancelRequested(job="a", request="cancel"))
    assert "is not in the log" in broken(ValidPlans, two_nodes().stopped("ghost", "a", "n1"))[1]
    assert "is not in the log" in broken(ValidPlans, asked.begun("ghost", c.Step.START, "a", 2, "n2"))[1]


GPU = Taint(key="gpu", effect="NoSchedule")
IN_ZONE_A = NodeRule(
    requires=(LabelRequirement(key="zone", operator=LabelOperator.IN, values=("a",)),),
    tolerates=(Toleration(key="gpu", operator=TolerationOperator.EXISTS),),
)


def gang_of_two(rule: NodeRule | None, *nodes: str) -> LogBuilder:
    """A gang begins to start on these nodes; the first one is tainted and in zone a, and the second one neither."""
    spec = c.JobSpec(command=("train",), replicas=2, requests=Resources(cpu_m=100), node_rule=rule)
    story = LogBuilder().opened().add(c.PoolConfigured())
    story.add(
        c.NodeJoined(node="n1", capacity=Resources(cpu_m=1_000), labels={"zone": "a"}, taints=(GPU,)),
        c.NodeJoined(node="n2", capacity=Resources(cpu_m=1_000), labels={"zone": "b"}),
        c.JobSubmitted(job="g", request="g", spec=spec),
        c.PlacementPlanned(plan="place", job="g", incarnation=0, nodes=nodes, because=c.Because(rule="a test says so")),
    )
    begun = c.StepBegun(plan="place", step=c.Step.START, attempt=1, job="g", incarnation=1, node=nodes[0], nodes=nodes)
    return story.add(begun)


@pytest.mark.parametrize(
    ("rule", "nodes", "refused"),
    [
        (None, ("n2", "n2"), None),
        (None, ("n2", "n1"), "n1"),
        (IN_ZONE_A, ("n1", "n1"), None),
        (IN_ZONE_A, ("n1", "n2"), "n2"),
    ],
)
def test_no_replica_of_a_gang_starts_where_the_gang_may_not_run(
    rule: NodeRule | None, nodes: tuple[str, ...], refused: str | None
) -> None:
    """One node that its rule excludes makes the plan void."""
    story = gang_of_two(rule, *nodes)
    if refused is None:
        holds(ValidPlans, story)
    else:
        assert f"the job may not run on node {refused}" in broken(ValidPlans, story)[1]


def test_replicas_may_stay_where_their_gang_may_run_no_longer() -> None:
    """Its label is gone since: what is there stays, and what comes to another node must be allowed there."""
    story = gang_of_two(IN_ZONE_A, "n1", "n1")
    story.add(
        c.JobPlaced(plan="place", attempt=1, job="g", incarnation=1, node="n1", nodes=("n1", "n1")),
        c.CheckpointModeDeclared(job="g", incarnation=1, mode=CheckpointMode.ON_REQUEST, node="n1"),
        c.NodeJoined(node="n1", capacity=Resources(cpu_m=1_000), labels={}),
    )

    def moved(*nodes: str) -> LogBuilder:
        plan = c.TransitionPlanned(
            plan=f"move-{'-'.join(nodes)}",
            job="g",
            incarnation=1,
            kind=c.Transition.MOVE,
            sources=("n1", "n1"),
            nodes=nodes,
            because=c.Because(rule="a test says so"),
        )
        begun = c.StepBegun(
            plan=plan.plan, step=c.Step.CHECKPOINT, attempt=1, job="g", incarnation=1, node="n1", nodes=("n1", "n1")
        )
        return story.add(plan, begun)

    assert "the job may not run on node n2" in broken(ValidPlans, moved("n1", "n2"))[1]


@given(RULES, LABELS, TAINTS)
def test_the_checker_and_the_view_read_rules_alike(
    rule: NodeRule | None, labels: dict[str, str] | None, taints: tuple[Taint, ...]
) -> None:
    """Each has its own reading of Kubernetes' rules."""
    allowed = AllowedNodes()
    spec = c.JobSpec(command=("train",), replicas=2, node_rule=rule)
    plan = c.PlacementPlanned(
        plan="p", job="g", incarnation=0, nodes=("w1", "w1"), because=c.Because(rule="a test says so")
    )
    for event in (
        c.PoolConfigured(),
        c.NodeJoined(node="w1", capacity=Resources(1), labels=labels, taints=taints),
        c.JobSubmitted(job="g", request="g", spec=spec),
    ):
        allowed.feed(event)

    node = Node(name="w1", capacity=Resources(1), labels=labels, taints=taints)
    assert (allowed.refused(plan) is None) is is_allowed(rule, node)


# --- reserved-first -------------------------------------------------------------------------------------------------


def test_a_job_that_saves_on_request_is_not_stopped_before_it_has_saved() -> None:
    """Steps would be lost."""
    story = two_nodes().move_planned("move", "a", "n1", "n2").stopped("move", "a", "n1")
    assert broken(ReservedFirst, story) == ((story.end - 3, story.end - 2), "plan move stops job a: it has not saved")


def test_a_save_of_an_attempt_that_was_overtaken_is_none() -> None:
    """The checkpoint may be of a hold that is over."""
    story = two_nodes().move_planned("move", "a", "n1", "n2")
    story.begun("move", c.Step.CHECKPOINT, "a", 1, "n1").begun("move", c.Step.CHECKPOINT, "a", 1, "n1")
    story.add(c.CheckpointSaved(plan="move", attempt=1, job="a", incarnation=1, checkpoint=checkpoint(100)))
    assert "has not saved" in broken(ReservedFirst, story.stopped("move", "a", "n1"))[1]


def test_a_save_for_another_plan_is_none() -> None:
    """The process trained on since."""
    story = two_nodes().move_planned("one", "a", "n1", "n2").saved("one", "a", "n1")
    story.add(c.PlanAbandoned(plan="one", job="a", code="given-up")).move_planned("two", "a", "n1", "n2")
    assert "has not saved" in broken(ReservedFirst, story.stopped("two", "a", "n1"))[1]


def test_nothing_is_stopped_for_a_target_without_room() -> None:
    """The job would have nowhere to go."""
    story = two_nodes().running("b", "n2", 800).move_planned("move", "a", "n1", "n2").saved("move", "a", "n1")
    assert "no room" in broken(ReservedFirst, story.stopped("move", "a", "n1"))[1]


def test_nothing_is_stopped_for_a_target_that_another_move_has_reserved() -> None:
    """Two moves into one hole: the second one's job must not be stopped."""
    story = two_nodes().running("b", "n1").add(c.NodeJoined(node="n3", capacity=Resources(cpu_m=600)))
    story.move_planned("one", "a", "n1", "n3").move_planned("two", "b", "n1", "n3")
    story.saved("one", "a", "n1").saved("two", "b", "n1").stopped("two", "b", "n1")
    assert "no room" in broken(ReservedFirst, story)[1]


def test_a_job_is_stopped_where_it_is() -> None:
    """A stop on another node than the plan's source acts on something that the plan did not prove."""
    story = two_nodes().move_planned("move", "a", "n1", "n2").saved("move", "a", "n1").stopped("move", "a", "n2")
    assert "not on n1" in broken(ReservedFirst, story)[1]


def test_a_job_that_never_proved_that_it_can_save_is_not_stopped_to_save() -> None:
    """Its steps since the last start would be at stake."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1", mode=CheckpointMode.ON_STOP)
    story.move_planned("move", "a", "n1", "n2").stopped("move", "a", "n1", saved=None)
    assert "never proven" in broken(ReservedFirst, story)[1]
