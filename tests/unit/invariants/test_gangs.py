"""Unsound logs about gangs and suspensions: one anomaly each, which its checker must find."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.scenarios.log_builder import BECAUSE, LogBuilder, checkpoint
from tests.harness.scenarios.verdicts import broken, holds

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.parameters import PoolParameters, PreemptionLimits
from steepest.invariants import Checker
from steepest.invariants.checkers.capacity import Capacity
from steepest.invariants.checkers.gang_whole import GangWhole
from steepest.invariants.checkers.incarnations_rise import Incarnations
from steepest.invariants.checkers.plan_once import PlanOnce
from steepest.invariants.checkers.preemption import (
    MinRunTime,
    MostSuspensions,
    NoPingPong,
    PromisedRoom,
    SuspendedResume,
)
from steepest.invariants.checkers.reserved_first import ReservedFirst
from steepest.invariants.checkers.step_rules import Steps
from steepest.invariants.checkers.valid_plans import ValidPlans


def gang(job: str, *nodes: str, cpu_m: int = 100, priority: int = 0) -> tuple[c.ClusterEvent, ...]:
    """A gang is submitted, placed and started."""
    roles = (c.Role(name="worker", replicas=len(nodes), requests=Resources(cpu_m=cpu_m)),)
    spec = c.JobSpec(command=("x",), roles=roles, priority=priority, checkpoint_mode=CheckpointMode.ON_STOP)
    return (
        c.JobSubmitted(job=job, request=f"r-{job}", spec=spec),
        c.PlacementPlanned(plan=f"place-{job}", job=job, incarnation=0, nodes=nodes, because=BECAUSE),
        *start(f"place-{job}", job, *nodes),
        *(c.ReplicaStarted(job=job, replica=at, incarnation=1, node=node) for at, node in enumerate(nodes)),
    )


def start(plan: str, job: str, *nodes: str, incarnation: int = 1, saved: int = 0) -> tuple[c.ClusterEvent, ...]:
    """A plan starts it."""
    begun = c.StepBegun(
        plan=plan, step=c.Step.START, attempt=1, job=job, incarnation=incarnation, node=nodes[0], nodes=nodes
    )
    placed = c.JobPlaced(
        plan=plan,
        attempt=1,
        job=job,
        incarnation=incarnation,
        node=nodes[0],
        nodes=nodes,
        restore=checkpoint(saved) if saved else None,
    )
    return begun, placed


def move(*nodes: str, to: tuple[str, ...]) -> c.TransitionPlanned:
    """A plan to move gang a as a whole."""
    return c.TransitionPlanned(
        plan="move-a",
        job="a",
        incarnation=1,
        kind=c.Transition.MOVE,
        sources=nodes,
        nodes=to,
        sizes=(len(to),),
        because=BECAUSE,
    )


def suspension(job: str, *nodes: str, incarnation: int = 1, room_for: str | None = None) -> tuple[c.ClusterEvent, ...]:
    """It is suspended at step 100."""
    plan = f"suspend-{job}-{incarnation}"
    return (
        c.TransitionPlanned(
            plan=plan,
            job=job,
            incarnation=incarnation,
            kind=c.Transition.SUSPEND,
            sources=nodes,
            room_for=room_for,
            because=BECAUSE,
        ),
        c.StepBegun(
            plan=plan, step=c.Step.STOP, attempt=1, job=job, incarnation=incarnation, node=nodes[0], nodes=nodes
        ),
        c.JobStopped(plan=plan, attempt=1, job=job, incarnation=incarnation, step=100, checkpoint=checkpoint(100)),
        c.JobSuspended(plan=plan, job=job, step=100),
    )


def resumption(job: str, *nodes: str, incarnation: int = 1, saved: int = 100) -> tuple[c.ClusterEvent, ...]:
    """It is placed again."""
    plan = f"place-{job}-{incarnation}"
    planned = c.PlacementPlanned(plan=plan, job=job, incarnation=incarnation, nodes=nodes, because=BECAUSE)
    return planned, *start(plan, job, *nodes, incarnation=incarnation + 1, saved=saved)


def log(*events: c.ClusterEvent, **limits: int) -> LogBuilder:
    """A log of a pool with two nodes of 1000m, in which these limits of preemption are in force."""
    parameters = PoolParameters(preemption=PreemptionLimits(**{"min_run_ms": 0, **limits}))
    story = LogBuilder().opened(n1=1000, n2=1000)
    return story.add(c.PoolConfigured(parameters=parameters), *events, headers={})


def test_twice_600m_do_not_fit_1000m() -> None:
    """A node holds what each replica on it asks for."""
    assert "1200m" in broken(Capacity, log(*gang("a", "n1", "n1", cpu_m=600)))[1]
    holds(Capacity, log(*gang("a", "n1", "n2", cpu_m=600)))


def test_a_target_that_was_gone_is_not_held_by_a_step_that_is_taken_over() -> None:
    """The plan is given up once that step is over: what joins under the node's name is free for others."""
    moves = move("n1", "n1", to=("n2", "n2"))
    begun, again = (
        c.StepBegun(
            plan="move-a",
            step=c.Step.CHECKPOINT,
            attempt=attempt,
            job="a",
            incarnation=1,
            node="n1",
            nodes=("n1", "n1"),
        )
        for attempt in (1, 2)
    )
    story = (*gang("a", "n1", "n1", cpu_m=400), moves, begun)
    joined = c.NodeJoined(node="n2", capacity=Resources(cpu_m=1000))
    gone = (c.NodeLost(node="n2", silent_ms=15_000), c.NodeGone(node="n2"), joined)

    assert "1600m" in broken(Capacity, log(*story, again, *gang("b", "n2", "n2", cpu_m=400)))[1]
    holds(Capacity, log(*story, *gone, again, *gang("b", "n2", "n2", cpu_m=400)))


def test_nothing_of_a_gang_starts_where_a_node_was_gone_before() -> None:
    """A start that begins after the node was declared gone does not count, so the next plan gives the same number."""
    moves = move("n1", "n1", to=("n2", "n3"))
    stops, starts = (
        c.StepBegun(plan="move-a", step=step, attempt=at, job="a", incarnation=at, node=nodes[0], nodes=nodes)
        for at, (step, nodes) in enumerate([(c.Step.STOP, moves.sources), (c.Step.START, moves.nodes)], start=1)
    )
    stopped = c.JobStopped(plan="move-a", attempt=1, job="a", incarnation=1, step=100, checkpoint=checkpoint(100))
    gone = (c.NodeLost(node="n3", silent_ms=15_000), c.NodeGone(node="n3"))
    abandoned = c.PlanAbandoned(plan="move-a", job="a", code="given-up", message="node n3 is gone for good")
    again = (abandoned, *resumption("a", "n1", "n1"))

    holds(Incarnations, log(*gang("a", "n1", "n1"), moves, stops, stopped, *gone, starts, *again))
    assert (
        "2 after 2"
        in broken(Incarnations, log(*gang("a", "n1", "n1"), moves, stops, stopped, starts, *gone, *again))[1]
    )


def test_no_gang_goes_back_to_where_a_node_was_gone_before() -> None:
    """Its START was given up at its targets; the way back that begins after a source was declared gone does not count."""
    moves = move("n1", "n2", to=("n3", "n3"))
    stops, starts, again, back = (
        c.StepBegun(plan="move-a", step=step, attempt=at, job="a", incarnation=at, node=nodes[0], nodes=nodes)
        for at, (step, nodes) in enumerate(
            [(c.Step.STOP, moves.sources), *[(c.Step.START, moves.nodes)] * 2, (c.Step.START, moves.sources)], start=1
        )
    )
    stopped = c.JobStopped(plan="move-a", attempt=1, job="a", incarnation=1, step=100, checkpoint=checkpoint(100))
    first, second = (
        c.StepFailed(plan="move-a", step=c.Step.START, attempt=at, job="a", code="node-lost", message="", definite=True)
        for at in (2, 3)
    )
    gone = (c.NodeLost(node="n2", silent_ms=15_000), c.NodeGone(node="n2"))
    abandoned = c.PlanAbandoned(plan="move-a", job="a", code="given-up", message="node n2 is gone for good")
    story = (*gang("a", "n1", "n2"), moves, stops, stopped, starts, first, again, second)
    resumed = (abandoned, *resumption("a", "n1", "n1", incarnation=3))

    holds(Incarnations, log(*story, *gone, back, *resumed))
    assert "4 after 4" in broken(Incarnations, log(*story, back, *gone, *resumed))[1]


def test_a_gang_whose_nodes_are_gone_is_not_cleared() -> None:
    """A beginning that comes late does not count: the gang is placed again while no other plan is in flight."""
    clears = c.StepBegun(
        plan="clear-a", step=c.Step.STOP, attempt=1, job="a", incarnation=1, node="n1", nodes=("n1", "n1")
    )
    gone = (c.NodeLost(node="n1", silent_ms=15_000), c.NodeGone(node="n1"))
    again = resumption("a", "n2", "n2")

    holds(ValidPlans, log(*gang("a", "n1", "n1"), *gone, clears, *again))
    assert "in flight" in broken(ValidPlans, log(*gang("a", "n1", "n1"), clears, *again))[1]


def test_no_gang_is_stopped_for_a_target_that_was_gone_before() -> None:
    """A STOP that begins after the node was declared gone does not count, and the plan is given up."""
    stops = c.StepBegun(
        plan="move-a", step=c.Step.STOP, attempt=1, job="a", incarnation=1, node="n1", nodes=("n1", "n1")
    )
    gone = (c.NodeLost(node="n2", silent_ms=15_000), c.NodeGone(node="n2"))
    abandoned = c.PlanAbandoned(plan="move-a", job="a", code="given-up", message="node n2 is gone for good")
    story = (*gang("a", "n1", "n1"), move("n1", "n1", to=("n1", "n2")))

    holds(ReservedFirst, log(*story, *gone, stops, abandoned))
    assert "no room" in broken(ReservedFirst, log(*story[:-1], *gone, *story[-1:], stops))[1]


def test_no_job_is_stopped_for_a_target_that_was_gone_before() -> None:
    """Nor is one of a single replica: its move is given up."""
    moves = c.MigrationPlanned(
        plan="move-a", job="a", incarnation=1, source="n1", target="n2", kind=c.MoveKind.REALLOCATION, because=BECAUSE
    )
    saves, stops = (
        c.StepBegun(plan="move-a", step=step, attempt=attempt, job="a", incarnation=1, node="n1")
        for attempt, step in enumerate((c.Step.CHECKPOINT, c.Step.STOP), start=1)
    )
    saved = c.CheckpointSaved(plan="move-a", attempt=1, job="a", incarnation=1, checkpoint=checkpoint(100))
    gone = (c.NodeLost(node="n2", silent_ms=15_000), c.NodeGone(node="n2"))
    abandoned = c.PlanAbandoned(plan="move-a", job="a", code="given-up", message="node n2 is gone for good")
    story = (*gang("a", "n1"), moves, saves, saved)

    holds(ReservedFirst, log(*story, *gone, stops, abandoned))
    assert "no room" in broken(ReservedFirst, log(*story[:-3], *gone, *story[-3:], stops))[1]


def test_a_stop_goes_on_without_a_target_that_was_gone_during_it() -> None:
    """It may have stopped a part of the gang, which goes back to where it was."""
    first, again = (
        c.StepBegun(plan="move-a", step=c.Step.STOP, attempt=at, job="a", incarnation=1, node="n1", nodes=("n1", "n1"))
        for at in (1, 2)
    )
    refused = c.StepFailed(
        plan="move-a", step=c.Step.STOP, attempt=1, job="a", code="refused", message="", definite=True
    )
    gone = (c.NodeLost(node="n2", silent_ms=15_000), c.NodeGone(node="n2"))
    proven = c.CheckpointVerified(job="a", incarnation=1, node="n1", replica=0, checkpoint=checkpoint(100))
    story = (*gang("a", "n1", "n1"), proven, move("n1", "n1", to=("n1", "n2")), first)

    holds(ReservedFirst, log(*story, *gone, refused, again))
    holds(ReservedFirst, log(*story, refused, *gone, again))  # it was given up, so the second one does not count


def test_a_move_of_a_gang_whose_nodes_are_all_gone_holds_no_target() -> None:
    """Nothing is left that could move, before the gang is placed again; where one node is left, something may be."""
    gone = (c.NodeLost(node="n1", silent_ms=15_000), c.NodeGone(node="n1"))
    joined = c.NodeJoined(node="n3", capacity=Resources(cpu_m=1000))
    other = gang("b", "n2", "n2", cpu_m=400)
    for nodes in (("n1", "n1"), ("n1", "n3")):
        begun = c.StepBegun(
            plan="move-a", step=c.Step.CHECKPOINT, attempt=1, job="a", incarnation=1, node="n1", nodes=nodes
        )
        story = (joined, *gang("a", *nodes, cpu_m=400), move(*nodes, to=("n2", "n2")), begun)
        assert "1600m" in broken(Capacity, log(*story, *other))[1]
        if nodes == ("n1", "n1"):
            holds(Capacity, log(*story, *gone, *other))
        else:
            assert "1600m" in broken(Capacity, log(*story, *gone, *other))[1]


def test_a_plan_of_a_gang_that_ended_with_a_node_holds_no_target() -> None:
    """One of its processes had left in its STOP; that the job waits again says that the plan is over."""
    begun = c.StepBegun(
        plan="move-a", step=c.Step.STOP, attempt=1, job="a", incarnation=1, node="n1", nodes=("n1", "n3")
    )
    left = c.ReplicaStopped(job="a", replica=0, incarnation=1, node="n1", exit_status=85)
    again = c.RetryPlanned(job="a", incarnation=1, charged=False, not_before_ms=100, reason="its node is gone")
    gone = (c.NodeLost(node="n3", silent_ms=15_000), c.NodeGone(node="n3"))
    joined = c.NodeJoined(node="n3", capacity=Resources(cpu_m=1000))
    story = (joined, *gang("a", "n1", "n3", cpu_m=400), move("n1", "n3", to=("n2", "n2")), begun, left)
    other = gang("b", "n2", "n2", cpu_m=400)

    assert "1600m" in broken(Capacity, log(*story, again, *other))[1]
    assert "1600m" in broken(Capacity, log(*story, *gone, *other))[1]
    holds(Capacity, log(*story, *gone, again, *other))


def test_a_start_of_a_gang_that_failed_is_not_repeated_under_its_number() -> None:
    """Some of its replicas may have run: what a migrator that has not read of the failure begins again does not count."""
    first, repeated, again = (
        c.StepBegun(
            plan="place-a", step=c.Step.START, attempt=at, job="a", incarnation=number, node="n1", nodes=("n1", "n1")
        )
        for at, number in ((1, 1), (2, 1), (2, 2))
    )
    failed = c.StepFailed(
        plan="place-a", step=c.Step.START, attempt=1, job="a", code="node-lost", definite=True, message="n1 is lost"
    )
    steps = Steps()
    story = log(*gang("a", "n1", "n1")[:2], first, failed, repeated, again).records
    counted = [record.event for record in story if steps.feed(record) and isinstance(record.event, c.StepBegun)]

    assert counted == [first, again]


def test_conclusions_of_two_migrators_may_differ_by_replicas_that_have_ended() -> None:
    """Each names where the gang runs when it is written; neither another place nor another reason."""
    begun = c.StepBegun(
        plan="move-a", step=c.Step.CHECKPOINT, attempt=1, job="a", incarnation=1, node="n1", nodes=("n1", "n1")
    )

    def failed(*nodes: str, code: str = "node-lost") -> c.TransitionFailed:
        return c.TransitionFailed(plan="move-a", job="a", code=code, message="n2 is lost", nodes=nodes)

    story = (*gang("a", "n1", "n1"), move("n1", "n1", to=("n2", "n2")), begun)

    holds(PlanOnce, log(*story, failed("n1"), failed("n1", "n1")))
    assert "n2" in broken(PlanOnce, log(*story, failed("n1"), failed("n2")))[1]
    assert "refused" in broken(PlanOnce, log(*story, failed("n1"), failed("n1", code="refused")))[1]


def test_a_gang_that_goes_back_holds_none_of_its_targets() -> None:
    """One of them was gone during its STOP: what it had on the others is free, and stays so when the STOP is begun again."""
    begun, again = (
        c.StepBegun(
            plan="move-a", step=c.Step.STOP, attempt=attempt, job="a", incarnation=1, node="n1", nodes=("n1", "n1")
        )
        for attempt in (1, 2)
    )
    gone = (c.NodeLost(node="n3", silent_ms=15_000), c.NodeGone(node="n3"))
    joined = c.NodeJoined(node="n3", capacity=Resources(cpu_m=1000))
    saved = c.CheckpointVerified(job="a", incarnation=1, checkpoint=checkpoint(50), node="n1")
    planned = (joined, *gang("a", "n1", "n1", cpu_m=400), saved, move("n1", "n1", to=("n2", "n3")))
    other = gang("b", "n2", "n2", cpu_m=400)

    assert "1200m" in broken(Capacity, log(*planned, begun, *other))[1]
    holds(Capacity, log(*planned, begun, *gone, *other, again))
    holds(ValidPlans, log(*planned, begun, *gone, *other, again))


def test_a_suspension_that_begins_behind_the_end_of_its_node_is_over_with_the_gang() -> None:
    """The gang waits again, is placed, and is suspended there: the first suspension is no longer in flight."""
    gone = (c.NodeLost(node="n1", silent_ms=15_000), c.NodeGone(node="n1"))
    again = c.RetryPlanned(job="a", incarnation=1, charged=False, not_before_ms=100, reason="its node is gone")
    planned, begun, *_ = suspension("a", "n1", "n1")
    saved = c.CheckpointVerified(job="a", incarnation=1, checkpoint=checkpoint(50), node="n1")
    story = (*gang("a", "n1", "n1"), saved, planned)
    placed = resumption("a", "n2", "n2")

    holds(ValidPlans, log(*story, *gone, begun, again, *placed))
    assert "was in flight" in broken(ValidPlans, log(*story, begun, again, *placed))[1]


def test_a_gang_of_which_a_part_runs_on_is_not_whole() -> None:
    """A worker crashed, and the rest ran on for ten minutes."""
    crashed = c.ReplicaStopped(job="a", replica=1, incarnation=1, node="n2", exit_status=1)
    ticks = [c.Tick(counted_ms=60_000 * minute) for minute in range(1, 11)]

    assert "a part of job a" in broken(GangWhole, log(*gang("a", "n1", "n2"), crashed, *ticks))[1]
    holds(GangWhole, log(*gang("a", "n1", "n2"), crashed, *ticks[:3]))
    holds(GangWhole, log(*gang("a", "n1", "n2"), *ticks))


def test_a_job_that_was_suspended_resumes_where_it_was() -> None:
    """No step is done twice without being counted."""
    story = (*gang("a", "n1"), *suspension("a", "n1"))

    assert holds(SuspendedResume, log(*story)) == "resumed: 0, suspended: 1 (a)"
    assert holds(SuspendedResume, log(*story, *resumption("a", "n2"))) == "resumed: 1, suspended: 0"
    assert "resumes from 50" in broken(SuspendedResume, log(*story, *resumption("a", "n2", saved=50)))[1]


def test_a_job_that_is_suspended_does_not_run() -> None:
    """Nothing may start it but a plan."""
    started = c.ReplicaStarted(job="a", incarnation=2, node="n2")

    assert "is suspended" in broken(SuspendedResume, log(*gang("a", "n1"), *suspension("a", "n1"), started))[1]


def test_a_start_of_a_suspended_job_that_was_taken_back_may_be_reported_late() -> None:
    """One replica of the gang had started when the other one's node was lost; its node says so after the plan is over."""
    planned, begun, _ = resumption("a", "n1", "n2")
    plan, code, message = "place-a-1", "node-lost", "n2 is lost"
    lost = c.StepFailed(plan=plan, step=c.Step.START, attempt=1, job="a", code=code, definite=True, message=message)
    abandoned = c.PlanAbandoned(plan=plan, job="a", code=code, message=message)
    story = (*gang("a", "n1", "n2"), *suspension("a", "n1", "n2"), planned, begun, lost, abandoned)
    late, never = (c.ReplicaStarted(job="a", incarnation=incarnation, node="n1") for incarnation in (2, 3))

    holds(SuspendedResume, log(*story, late))
    assert "is suspended" in broken(SuspendedResume, log(*story, never))[1]


@pytest.mark.parametrize(
    ("checker", "limits"), [(MinRunTime, {"min_run_ms": 1_000}), (MostSuspensions, {"max_suspensions": 0})]
)
def test_limits_of_preemption(checker: type[Checker], limits: dict[str, int]) -> None:
    """A suspension that they forbid must not begin."""
    story = (*gang("a", "n1"), *suspension("a", "n1"))

    assert "suspends job a" in broken(checker, log(*story, **limits))[1]
    holds(checker, log(*story))
    by_its_user = c.JobChangeRequested(job="a", request="suspend", held=True)
    holds(checker, log(*gang("a", "n1"), by_its_user, *suspension("a", "n1"), **limits))
    released = msgspec.structs.replace(by_its_user, held=False)
    assert broken(checker, log(*gang("a", "n1"), by_its_user, released, *suspension("a", "n1"), **limits))


def test_ping_pong() -> None:
    """Twice for the same job that is less urgent."""
    story = (
        *gang("a", "n1", priority=10),
        c.JobSubmitted(job="b", request="r-b", spec=c.JobSpec(command=("x",))),
        *suspension("a", "n1", room_for="b"),
        *resumption("a", "n1"),
    )

    holds(NoPingPong, log(*story))
    again = suspension("a", "n1", incarnation=2, room_for="b")
    assert "less urgent" in broken(NoPingPong, log(*story, *again))[1]


def test_a_plan_that_does_not_wait_for_its_room() -> None:
    """It begins before the plan that makes room is over."""
    planned, begun, *rest = suspension("a", "n1", room_for="b")
    spec = c.JobSpec(command=("x",))
    waits = c.PlacementPlanned(
        plan="place-b", job="b", incarnation=0, nodes=("n1",), after=("suspend-a-1",), because=BECAUSE
    )
    story = (*gang("a", "n1"), c.JobSubmitted(job="b", request="r-b", spec=spec), planned, waits, begun)

    assert "before plan suspend-a-1 is over" in broken(PromisedRoom, log(*story, *start("place-b", "b", "n1")))[1]
    assert holds(PromisedRoom, log(*story, *rest, *start("place-b", "b", "n1"))) == "plans that waited for room: 1"
