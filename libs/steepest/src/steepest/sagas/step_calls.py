"""The calls of the cluster port that carry out a step, one after the other, and the event that they end with.

It owns which calls a step makes, and what is done when the effect of one is not known: it is looked up. Pure: each function
is a generator that gives a call, takes its answer or its error, and returns the event. A shell makes the calls, in real
or in virtual time.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events import cluster as c
from steepest.events.common import CheckpointRef
from steepest.events.parameters import MoveLimits
from steepest.sagas.step_task import (
    StepTask,
    failed,
    looked_up,
    may_have_been_done,
    placed,
    replica_spec,
    resumed,
    saved,
    step_wanted,
    stopped,
    was_forgotten,
)

START_S = 60.0
"""How long a node may take to accept a process."""

SLACK_S = 15.0
"""What a call may take beyond its own limit: SIGKILL, say, and a slow disk."""

LOOK_UP_S = 10.0
"""How long looking up may take, which changes nothing and reads little."""


class CheckpointCall(msgspec.Struct, frozen=True):
    """Answered by a ``CheckpointRef``."""

    replica: ReplicaId
    incarnation: int
    request: str
    hold_s: float
    timeout_s: float


class ReleaseCall(msgspec.Struct, frozen=True):
    """Answered by None."""

    replica: ReplicaId
    incarnation: int
    request: str


class StopCall(msgspec.Struct, frozen=True):
    """Answered by a ``Stopped``."""

    replica: ReplicaId
    incarnation: int
    grace_s: float


class StartCall(msgspec.Struct, frozen=True):
    """Answered by None."""

    replica: ReplicaId
    incarnation: int
    node: str
    spec: ReplicaSpec
    restore: CheckpointRef | None


class WaitCall(msgspec.Struct, frozen=True):
    """Answered by the step."""

    replica: ReplicaId
    incarnation: int
    at_least: int
    timeout_s: float


class LookupCall(msgspec.Struct, frozen=True):
    """Answered by a ``ReplicaStatus``, or by None where the replica is not known."""

    replica: ReplicaId


Call = CheckpointCall | ReleaseCall | StopCall | StartCall | WaitCall | LookupCall
"""A call of the cluster port; its fields are the method's arguments."""

Calls = Generator[Call, Any, c.ClusterEvent]


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


def step_calls(task: StepTask) -> Calls:
    """Do a step, and return its outcome; a failure is an outcome too."""
    try:
        return (yield from _STEPS[task.begun.step](task))
    except ClusterError as error:
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
    if task.first_start and (why := was_forgotten(task, (yield LookupCall(task.replica)))):
        return failed(task, RefusedError(why, code="stale-incarnation"))
    yield StartCall(task.replica, begun.incarnation, begun.node, replica_spec(task.spec), task.restore)
    return placed(task)


def _verify(task: StepTask) -> Calls:
    timeout_s = task.limits.verify_timeout_ms / 1000
    return resumed(task, (yield WaitCall(task.replica, task.begun.incarnation, step_wanted(task), timeout_s)))


_STEPS = {c.Step.CHECKPOINT: _checkpoint, c.Step.STOP: _stop, c.Step.START: _start, c.Step.VERIFY: _verify}


def _look_up(task: StepTask, error: ClusterError) -> Calls:
    """The outcome of a step whose effect is not known, as the cluster reports it."""
    try:
        if task.begun.step is c.Step.CHECKPOINT:
            yield ReleaseCall(task.replica, task.begun.incarnation, task.request)
            return failed(task, RefusedError(str(error), code=error.code))
        return looked_up(task, (yield LookupCall(task.replica)), error)
    except ClusterError:
        return failed(task, UncertainError(str(error), code=error.code))
