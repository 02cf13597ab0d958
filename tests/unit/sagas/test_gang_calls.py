"""The calls of a gang's steps, answered by hand: a gang is whole or not at all, and each step has one outcome."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, checkpoint, placement, submitted, transition

from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaStatus, Stopped
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import MoveLimits
from steepest.sagas.calls import GatherCall, StartCall, StopCall
from steepest.sagas.step_calls import step_calls
from steepest.sagas.step_task import StepTask, step_task

ROLES = (
    c.Role(name="chief", requests=Resources(cpu_m=200)),
    c.Role(name="worker", replicas=2, requests=Resources(cpu_m=100)),
)
REFUSED = RefusedError("no", code="node-lost")
UNKNOWN = RefusedError("never started here", code="unknown-incarnation")
UNCERTAIN = UncertainError("perhaps", code="timeout")
STOPPED = Stopped(exit_status=85, step=120, checkpoint=checkpoint(120))


def task(step: c.Step, *, first_start: bool = False) -> StepTask:
    """A step of a plan for a gang of three."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.feed(submitted("a", roles=ROLES), placement("a", "w1", "w1", "w2"))
    begun = pool.begin("a")
    made = c.StepBegun(
        plan=begun.plan, step=step, attempt=1, job="a", incarnation=1, node="w1", nodes=("w1", "w1", "w2")
    )
    return step_task(made, pool.job("a"), pool.plan_of("a"), MoveLimits(), first_start=first_start)


def shedding() -> StepTask:
    """The STOP of the last worker, which leaves while the others train on."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    roles = (ROLES[0], c.Role(name="worker", replicas=2, min=1, may_leave=True, requests=Resources(cpu_m=100)))
    pool.feed(submitted("a", roles=roles, success=c.SuccessRule.CHIEF), placement("a", "w1", "w1", "w2"))
    pool.carry_out("a")
    pool.fold(transition("a", c.Transition.SHED, ("w1", "w1", "w2"), "w1", "w1", sizes=(1, 1), leaving=(2,)))
    begun = pool.begin("a")
    return step_task(begun, pool.job("a"), pool.plan_of("a"), MoveLimits())


def played(task: StepTask, *answers: Any) -> tuple[list[Any], Any]:
    """The calls, each answered in its turn, and the event at their end."""
    calls = step_calls(task)
    made, call = [], next(calls)
    try:
        for answer in answers:
            made.append(call)
            call = calls.throw(answer) if isinstance(answer, ClusterError) else calls.send(answer)
    except StopIteration as end:
        return made, end.value
    raise AssertionError(f"{call} is not answered")


def status(index: int, phase: ReplicaPhase, incarnation: int = 1) -> ReplicaStatus:
    """What a cluster knows of a replica."""
    node = ("w1", "w1", "w2")[index]
    return ReplicaStatus(replica=ReplicaId("a", index), incarnation=incarnation, node=node, phase=phase)


def test_all_replicas_start_side_by_side_and_know_their_places() -> None:
    """Each with its role's requests."""
    (gathered,), event = played(task(c.Step.START), (None, None, None))

    assert isinstance(gathered, GatherCall)
    starts = [call for call in gathered.calls if isinstance(call, StartCall)]
    assert [(call.node, call.spec.requests.cpu_m) for call in starts] == [("w1", 200), ("w1", 100), ("w2", 100)]
    places = [call.spec.gang for call in starts]
    assert [(at.role, at.role_index, at.rank, at.world_size) for at in places if at] == [
        ("chief", 0, 0, 3),
        ("worker", 0, 1, 3),
        ("worker", 1, 2, 3),
    ]
    assert isinstance(event, c.JobPlaced)
    assert (event.nodes, event.sizes) == (("w1", "w1", "w2"), (1, 2))


@pytest.mark.parametrize(
    ("ends", "definite"),
    [((STOPPED, STOPPED, UNKNOWN), True), ((STOPPED, UNCERTAIN, UNKNOWN), False)],
    ids=["all stopped", "one may run"],
)
def test_a_start_that_one_replica_refuses_stops_the_others(ends: tuple[Any, ...], definite: bool) -> None:  # noqa: FBT001
    """It failed for sure only where none runs."""
    made, event = played(task(c.Step.START), (None, None, REFUSED), ends)

    assert all(isinstance(call, StopCall) and call.grace_s == 0 for call in made[1].calls)
    assert isinstance(event, c.StepFailed)
    assert (event.definite, event.code) == (definite, "node-lost")
    assert [(one.replica, one.code) for one in event.replicas] == [(0, ""), (1, ""), (2, "node-lost")]


@pytest.mark.parametrize("is_image", [True, False])
def test_a_gang_starts_from_what_its_volume_holds(*, is_image: bool) -> None:
    """All replicas from the same checkpoint; for an image, which the log does not know of, no node was chosen."""
    newest = msgspec.structs.replace(checkpoint(150), is_image=is_image)
    known = tuple(
        msgspec.structs.replace(status(index, ReplicaPhase.GONE, incarnation=0), checkpoint=newest)
        for index in range(3)
    )
    (_, gathered), event = played(task(c.Step.START, first_start=True), known, (None, None, None))

    restored = None if is_image else newest
    assert [call.restore for call in gathered.calls if isinstance(call, StartCall)] == [restored] * 3
    assert event.restore == restored


def test_a_gang_that_was_started_and_forgotten_is_not_started_again() -> None:
    """The log has lost what it knew of a replica."""
    known = (None, status(1, ReplicaPhase.EXITED), None)

    _, event = played(task(c.Step.START, first_start=True), known)

    assert (event.code, event.definite) == ("stale-incarnation", True)


def test_a_gang_of_which_a_replica_cannot_be_looked_up_gets_another_number() -> None:
    """Nothing was started. Under its number again nothing would be looked up, as it would not be the first START."""
    made, event = played(task(c.Step.START, first_start=True), (None, UNCERTAIN, None))

    assert len(made) == 1
    assert (event.code, event.definite) == (UNCERTAIN.code, True)


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        ((STOPPED, STOPPED, STOPPED), c.JobStopped),
        ((STOPPED, STOPPED, UNKNOWN), c.JobStopped),
        ((REFUSED, REFUSED, REFUSED), True),
        ((STOPPED, REFUSED, STOPPED), False),
        ((STOPPED, UNCERTAIN, STOPPED), False),
    ],
)
def test_a_stop_that_has_ended_one_replica_is_never_given_up(ends: tuple[Any, ...], outcome: Any) -> None:
    """A failure of it is definite only where all of them run on."""
    _, event = played(task(c.Step.STOP), ends)

    if outcome is c.JobStopped:
        assert isinstance(event, c.JobStopped)
        assert (event.step, event.checkpoint) == (120, checkpoint(120))
        assert len(event.replicas) == 3
    else:
        assert event.definite is outcome


def test_a_chief_that_ends_before_its_first_step_takes_the_others_with_it() -> None:
    """Nothing of that incarnation runs once the step has failed."""
    _, event = played(task(c.Step.VERIFY), RefusedError("it ended", code="ended"), (STOPPED, STOPPED, STOPPED))

    assert (event.code, event.definite) == ("ended", True)


@pytest.mark.parametrize(
    ("step", "found", "outcome"),
    [
        (c.Step.START, [ReplicaPhase.RUNNING] * 3, c.JobPlaced),
        (c.Step.START, [ReplicaPhase.RUNNING, ReplicaPhase.STARTING, ReplicaPhase.RUNNING], False),
        (c.Step.START, [None] * 3, True),
        (c.Step.STOP, [ReplicaPhase.EXITED, ReplicaPhase.GONE, None], c.JobStopped),
        (c.Step.STOP, [ReplicaPhase.EXITED, ReplicaPhase.RUNNING, None], False),
        (c.Step.VERIFY, [ReplicaPhase.RUNNING] * 3, False),
    ],
)
def test_what_is_looked_up_after_a_timeout(step: c.Step, found: list[ReplicaPhase | None], outcome: Any) -> None:
    """Whole, not at all, or unclear."""
    known = tuple(None if phase is None else status(at, phase) for at, phase in enumerate(found))

    _, event = played(task(step), UNCERTAIN, known)

    if isinstance(outcome, type):
        assert isinstance(event, outcome)
    else:
        assert isinstance(event, c.StepFailed)
        assert event.definite is outcome


@pytest.mark.parametrize("end", [STOPPED, UNKNOWN], ids=["it saved and left", "it was never started"])
def test_only_those_that_leave_are_stopped(end: Any) -> None:
    """The outcome names them alone."""
    (gathered,), event = played(shedding(), (end,))

    assert [(call.replica.index, type(call)) for call in gathered.calls] == [(2, StopCall)]
    assert isinstance(event, c.SurplusStopped)
    assert [one.replica for one in event.replicas] == [2]


@pytest.mark.parametrize(("end", "definite"), [(REFUSED, True), (UNCERTAIN, False)])
def test_a_replica_that_is_not_proven_to_have_left_has_not(end: Any, definite: bool) -> None:  # noqa: FBT001
    """The step has failed, for sure or perhaps."""
    _, event = played(shedding(), (end,))

    assert isinstance(event, c.StepFailed)
    assert event.definite is definite


def test_what_became_of_those_that_leave_is_looked_up() -> None:
    """After a call that was not answered."""
    _, event = played(shedding(), UNCERTAIN, (status(2, ReplicaPhase.EXITED),))

    assert isinstance(event, c.SurplusStopped)
