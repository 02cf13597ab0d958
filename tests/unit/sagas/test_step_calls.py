"""The calls of a step, answered by hand: which one follows from each answer, and the outcome that they end with."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.scenarios.folded_pool import checkpoint

from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaStatus, Stopped
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import MoveLimits
from steepest.sagas.calls import Calls
from steepest.sagas.step_calls import release_calls, step_calls
from steepest.sagas.step_task import StepTask, replica_spec
from steepest.view.state import PlanKind

JOB = ReplicaId("a")
REFUSED = RefusedError("no", code="refused")
UNCERTAIN = UncertainError("perhaps", code="timeout")


def task(step: c.Step, attempt: int = 1) -> StepTask:
    """The step of a plan for a job whose newest checkpoint is of step 100."""
    begun = c.StepBegun(plan="p", step=step, attempt=attempt, job="a", incarnation=2, node="w1")
    spec = c.JobSpec(command=("train",), requests=Resources(cpu_m=100))
    return StepTask(
        first_start=attempt == 1,
        begun=begun,
        kind=PlanKind.MIGRATE,
        spec=replica_spec(spec),
        restore=checkpoint(),
        limits=MoveLimits(),
        request="p.0.0",
    )


def status(phase: ReplicaPhase, incarnation: int = 2) -> ReplicaStatus:
    """What a cluster knows of the job."""
    return ReplicaStatus(
        replica=JOB,
        incarnation=incarnation,
        node="w1",
        phase=phase,
        exit_status=None if phase is ReplicaPhase.RUNNING else 0,
        step=120,
        restored_step=100,
        checkpoint=checkpoint(),
    )


def played(calls: Calls, *answers: Any) -> tuple[list[str], c.ClusterEvent]:
    """The names of the calls, each answered in its turn, and the event at their end."""
    made, call = [], next(calls)
    try:
        for answer in answers:
            made.append(type(call).__name__.removesuffix("Call").lower())
            call = calls.throw(answer) if isinstance(answer, ClusterError) else calls.send(answer)
    except StopIteration as end:
        return made, end.value
    raise AssertionError(f"{call} is not answered")


@pytest.mark.parametrize(
    ("step", "attempt", "answers", "calls", "outcome"),
    [
        (c.Step.CHECKPOINT, 1, [checkpoint()], "checkpoint", c.CheckpointSaved),
        (c.Step.STOP, 1, [Stopped(exit_status=0, step=9, checkpoint=None)], "stop", c.JobStopped),
        (c.Step.START, 1, [None, None], "lookup start", c.JobPlaced),
        (c.Step.START, 2, [None], "start", c.JobPlaced),
        (c.Step.VERIFY, 1, [101], "wait", c.JobResumed),
        (c.Step.CHECKPOINT, 1, [REFUSED], "checkpoint", "refused True"),
        (c.Step.VERIFY, 1, [REFUSED], "wait", "refused True"),
        (c.Step.START, 1, [status(ReplicaPhase.EXITED)], "lookup", "stale-incarnation True"),
        (c.Step.START, 1, [UNCERTAIN], "lookup", "step-timeout True"),
        (c.Step.START, 2, [REFUSED, status(ReplicaPhase.RUNNING)], "start lookup", c.JobPlaced),
        (c.Step.STOP, 1, [UNCERTAIN, status(ReplicaPhase.EXITED)], "stop lookup", c.JobStopped),
        (c.Step.STOP, 1, [UNCERTAIN, status(ReplicaPhase.RUNNING)], "stop lookup", "timeout True"),
        (c.Step.CHECKPOINT, 1, [UNCERTAIN, None], "checkpoint release", "timeout True"),
        (c.Step.VERIFY, 1, [UNCERTAIN, status(ReplicaPhase.RUNNING)], "wait lookup", c.JobResumed),
        (c.Step.STOP, 1, [UNCERTAIN, REFUSED], "stop lookup", "timeout False"),
    ],
)
def test_each_answer_leads_to_the_next_call_or_the_outcome(
    step: c.Step, attempt: int, answers: list[Any], calls: str, outcome: type[Any] | str
) -> None:
    """What is not known is looked up; what was refused for sure is not, unless an older attempt may have done it."""
    made, event = played(step_calls(task(step, attempt)), *answers)

    assert " ".join(made) == calls
    if isinstance(outcome, str):
        assert isinstance(event, c.StepFailed)
        assert f"{event.code} {event.definite}" == outcome
    else:
        assert isinstance(event, outcome)


@pytest.mark.parametrize(
    ("answers", "calls"),
    [([None], "lookup"), ([status(ReplicaPhase.RUNNING), None], "lookup release"), ([UNCERTAIN], "lookup")],
)
def test_a_process_that_waits_is_released_where_there_is_one(answers: list[Any], calls: str) -> None:
    """Whether or not it works, the move is concluded: a hold ends by itself."""
    conclusion = c.PlanAbandoned(plan="p", job="a", code="given-up")
    made, event = played(release_calls(conclusion, JOB, "p.0.0"), *answers)

    assert " ".join(made) == calls
    assert event == conclusion
