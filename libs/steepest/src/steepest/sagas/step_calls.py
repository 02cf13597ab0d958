"""The calls of the cluster port that carry out a step, one after the other, and the event that they end with.

It owns which calls a step makes, and what is done when the effect of one is not known: it is looked up. Pure: each function
is a generator that gives a call, takes its answer or its error, and returns the event. A shell makes the calls, in real
or in virtual time.
"""

from __future__ import annotations

import msgspec

from steepest.cluster.port import ReplicaId
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events import cluster as c
from steepest.events.common import LARGEST
from steepest.events.parameters import MoveLimits
from steepest.sagas import gang_calls
from steepest.sagas.calls import (
    LOOK_UP_S,
    SLACK_S,
    START_S,
    Calls,
    CheckpointCall,
    LookupCall,
    ReleaseCall,
    StartCall,
    StopCall,
    WaitCall,
)
from steepest.sagas.step_task import (
    StepTask,
    failed,
    looked_up,
    may_have_been_done,
    placed,
    resumed,
    saved,
    step_wanted,
    stopped,
    was_forgotten,
    with_newest,
)
from steepest.view.state import Plan

PATIENCE = 3
"""Halves of a predicted wait that a save gets in addition to its own limit."""


def call_limit_s(step: c.Step, limits: MoveLimits) -> float:
    """How long the calls of a step may take, in seconds; looking up comes after that."""
    own_s = {
        c.Step.CHECKPOINT: limits.checkpoint_timeout_ms / 1000,
        c.Step.STOP: limits.stop_grace_ms / 1000,
        c.Step.START: START_S,
        c.Step.VERIFY: limits.verify_timeout_ms / 1000,
    }
    return own_s[step] + SLACK_S


def time_limit_s(step: c.Step, limits: MoveLimits) -> float:
    """How long a step takes at most, from its reading back to its outcome, in seconds."""
    return call_limit_s(step, limits) + LOOK_UP_S


def patient(plan: Plan, limits: MoveLimits) -> MoveLimits:
    """The limits of a plan: a job that is predicted to save at the end of its epoch gets time for it, and half more."""
    wait_ms = min(limits.checkpoint_timeout_ms + PATIENCE * plan.saves_within_ms // 2, LARGEST)
    return msgspec.structs.replace(limits, checkpoint_timeout_ms=wait_ms) if plan.saves_within_ms else limits


def step_calls(task: StepTask) -> Calls:
    """Do a step, and return its outcome; a failure is an outcome too."""
    steps = _GANG_STEPS if task.is_gang else _STEPS
    try:
        return (yield from steps[task.begun.step](task))
    except ClusterError as error:
        if task.is_gang and task.begun.step is not c.Step.CHECKPOINT:
            return (yield from gang_calls.look_up(task, error))
        if error.definite and not may_have_been_done(task):
            return failed(task, error)
        return (yield from _look_up(task, error))


def release_calls(conclusion: c.ClusterEvent, replica: ReplicaId, request: str) -> Calls:
    """Let a process that waits after its checkpoint train on, because its move is given up; return the conclusion."""
    try:
        status = yield LookupCall(replica)
        if status is not None:
            yield ReleaseCall(replica, status.incarnation, request)
    except ClusterError:
        pass  # the hold ends by itself
    return conclusion


def _checkpoint(task: StepTask) -> Calls:
    limits = task.limits
    hold_s, timeout_s = limits.hold_ms / 1000, limits.checkpoint_timeout_ms / 1000
    return saved(task, (yield CheckpointCall(task.replica, task.begun.incarnation, task.request, hold_s, timeout_s)))


def _stop(task: StepTask) -> Calls:
    return stopped(task, (yield StopCall(task.replica, task.begun.incarnation, task.limits.stop_grace_ms / 1000)))


def _start(task: StepTask) -> Calls:
    begun = task.begun
    if task.first_start:
        try:
            known = yield LookupCall(task.replica)
        except ClusterError as error:
            # The next START of this number would not be the first one, and nothing would be looked up before it.
            why = f"it is not known whether incarnation {begun.incarnation} was started before: {error}"
            return failed(task, RefusedError(why, code=c.StepFailure.STEP_TIMEOUT.value))
        if why := was_forgotten(begun, known):
            return failed(task, RefusedError(why, code=c.StepFailure.STALE_INCARNATION.value))
        task = with_newest(task, [known])
    yield StartCall(task.replica, begun.incarnation, begun.node, task.spec, task.restore)
    return placed(task)


def _verify(task: StepTask) -> Calls:
    timeout_s = task.limits.verify_timeout_ms / 1000
    return resumed(task, (yield WaitCall(task.replica, task.begun.incarnation, step_wanted(task), timeout_s)))


_STEPS = {c.Step.CHECKPOINT: _checkpoint, c.Step.STOP: _stop, c.Step.START: _start, c.Step.VERIFY: _verify}
_GANG_STEPS = {
    c.Step.CHECKPOINT: _checkpoint,
    c.Step.STOP: gang_calls.stop,
    c.Step.START: gang_calls.start,
    c.Step.VERIFY: gang_calls.verify,
}


def _look_up(task: StepTask, error: ClusterError) -> Calls:
    """The outcome of a step whose effect is not known, as the cluster reports it."""
    try:
        if task.begun.step is c.Step.CHECKPOINT:
            yield ReleaseCall(task.replica, task.begun.incarnation, task.request)
            return failed(task, RefusedError(str(error), code=error.code))
        return looked_up(task, (yield LookupCall(task.replica)), error)
    except ClusterError:
        return failed(task, UncertainError(str(error), code=error.code))
