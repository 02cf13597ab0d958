"""The calls that carry out a step for all replicas of a gang, and the one event that each step ends with.

It owns that a gang is whole or not at all. A START for which one replica is refused stops those that were accepted, within
the step's time limit, so that its failure is definite only where no replica runs because of it. A STOP is done where every
replica is proven to have ended; once one has, it is never given up. Where surplus replicas leave, it is a STOP of these
alone. A VERIFY waits for the chief's first step; where the chief has ended, the others are stopped. Pure, as
:mod:`steepest.sagas.step_calls` is.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from steepest.cluster.port import ReplicaPhase, ReplicaStatus, Stopped
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events import cluster as c
from steepest.events.common import CheckpointRef
from steepest.sagas.calls import (
    LOOK_UP_S,
    SLACK_S,
    START_S,
    Call,
    Calls,
    GatherCall,
    LookupCall,
    StartCall,
    StopCall,
    WaitCall,
)
from steepest.sagas.step_task import (
    Member,
    StepTask,
    failed,
    looked_up,
    placed,
    resumed,
    step_wanted,
    stopped,
    surplus_stopped,
    was_forgotten,
    with_newest,
)
from steepest.view.state import PlanKind

Answers = Sequence[Any]
"""Each replica's answer, in the order of the task's members: a result, or a ``ClusterError``."""


def start(task: StepTask) -> Calls:
    """START: all replicas are accepted, or none runs."""
    begun = task.begun
    if task.first_start:
        known = yield GatherCall(tuple(LookupCall(member.replica) for member in task.gang), LOOK_UP_S)
        for status in known:
            if isinstance(status, ClusterError):  # nothing was started, and the next START has another number
                return failed(task, RefusedError(str(status), code=status.code))
            if why := was_forgotten(begun, status):
                return failed(task, RefusedError(why, code=c.StepFailure.STALE_INCARNATION.value))
        task = with_newest(task, known)
    starts = tuple(
        StartCall(member.replica, begun.incarnation, member.node, member.spec, task.restore) for member in task.gang
    )
    answers = yield GatherCall(starts, START_S)
    error = _first_error(answers)
    if error is None:
        return placed(task)
    ends = yield from _stop_all(task, task.gang, 0.0)
    said = _answered(task, answers)
    if all(map(_runs_no_more, ends)):
        return failed(task, RefusedError(str(error), code=error.code), said)
    return failed(task, UncertainError(f"{error}; not every replica could be stopped", code=error.code), said)


def stop(task: StepTask) -> Calls:
    """STOP: every replica that is acted on has ended."""
    ends = yield from _stop_all(task, task.gang, task.limits.stop_grace_ms / 1000)
    return _stopped(task, ends)


def verify(task: StepTask) -> Calls:
    """VERIFY: the chief has reported the step that it resumed from."""
    begun = task.begun
    timeout_s = task.limits.verify_timeout_ms / 1000
    try:
        step = yield WaitCall(task.replica, begun.incarnation, step_wanted(task), timeout_s)
    except RefusedError as error:
        if error.code == c.StepFailure.STEP_TIMEOUT:
            return failed(task, error)
        ends = yield from _stop_all(task, task.gang, 0.0)
        if all(map(_runs_no_more, ends)):
            return failed(task, RefusedError(str(error), code=c.StepFailure.ENDED.value), _answered(task, ends))
        return failed(task, UncertainError(str(error), code=error.code), _answered(task, ends))
    return resumed(task, step)


def look_up(task: StepTask, error: ClusterError) -> Calls:
    """The outcome of a step whose effect is not known, as the cluster reports it."""
    try:
        found = yield GatherCall(tuple(LookupCall(member.replica) for member in task.gang), LOOK_UP_S)
    except ClusterError:
        found = ()
    unclear = failed(task, UncertainError(str(error), code=error.code))
    if len(found) < len(task.gang) or any(isinstance(status, ClusterError) for status in found):
        return unclear
    match task.begun.step:
        case c.Step.START if all(_is_started(task, *one) for one in zip(task.gang, found, strict=True)):
            return placed(task)
        case c.Step.START if not any(_is_here(task, status) for status in found):
            return failed(task, RefusedError(str(error), code=error.code))
        case c.Step.STOP if all(status is None or status.has_ended for status in found):
            return _stopped(task, [status or Stopped() for status in found])
        case c.Step.VERIFY:
            seen = looked_up(task, found[0] if task.gang and task.gang[0].replica.index == 0 else None, error)
            return seen if isinstance(seen, c.JobResumed) else unclear
    return unclear


def _stop_all(task: StepTask, members: Sequence[Member], grace_s: float) -> Generator[Call, Any, Answers]:
    calls = tuple(StopCall(member.replica, task.begun.incarnation, grace_s) for member in members)
    ends: Answers = yield GatherCall(calls, grace_s + SLACK_S)
    return ends


def _stopped(task: StepTask, ends: Answers) -> c.ClusterEvent:
    said = _answered(task, ends)
    if all(map(_runs_no_more, ends)):
        if task.kind is PlanKind.SHED:
            return surplus_stopped(task, said)
        return stopped(task, _together(task, ends), said)
    error = _first_error([end for end in ends if not _runs_no_more(end)]) or RefusedError("no answer")
    if error.definite and not any(map(_runs_no_more, ends)):
        return failed(task, error, said)
    return failed(task, UncertainError(f"not every replica has ended: {error}", code=error.code), said)


def _together(task: StepTask, ends: Answers) -> Stopped:
    """How the gang ended: the chief's exit status and step, and the newest checkpoint."""
    known = {member.replica.index: end for member, end in zip(task.gang, ends, strict=True) if isinstance(end, Stopped)}
    steps = [end.step for end in known.values() if end.step is not None]
    checkpoints: list[CheckpointRef] = [end.checkpoint for end in known.values() if end.checkpoint is not None]
    chief = known.get(0)
    step = chief.step if chief is not None and chief.step is not None else max(steps, default=task.stop_step)
    newest = max(checkpoints, key=lambda checkpoint: checkpoint.step, default=None)
    return Stopped(exit_status=chief.exit_status if chief else None, step=step, checkpoint=newest)


def _answered(task: StepTask, answers: Answers) -> tuple[c.ReplicaAnswer, ...]:
    return tuple(_answer(member.replica.index, answer) for member, answer in zip(task.gang, answers, strict=True))


def _answer(replica: int, answer: Any) -> c.ReplicaAnswer:
    match answer:
        case ClusterError():
            return c.ReplicaAnswer(replica, code=answer.code, definite=answer.definite)
        case Stopped():
            return c.ReplicaAnswer(replica, exit_status=answer.exit_status, step=answer.step)
    return c.ReplicaAnswer(replica)


def _first_error(answers: Answers) -> ClusterError | None:
    """The first definite error, or the first one."""
    errors = [answer for answer in answers if isinstance(answer, ClusterError)]
    return next((error for error in errors if error.definite), errors[0] if errors else None)


def _runs_no_more(end: Any) -> bool:
    """Whether the answer to a stop proves that nothing runs: it ended, or was never started."""
    return isinstance(end, Stopped) or getattr(end, "code", "") == c.StepFailure.UNKNOWN_INCARNATION


def _is_here(task: StepTask, status: ReplicaStatus | None) -> bool:
    return status is not None and status.incarnation >= task.begun.incarnation


def _is_started(task: StepTask, member: Member, status: ReplicaStatus | None) -> bool:
    if status is None or status.phase is ReplicaPhase.STARTING:
        return False
    return (status.incarnation, status.node) == (task.begun.incarnation, member.node)
