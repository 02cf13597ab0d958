"""One step done on the cluster, and the event that tells its outcome: there always is one, within a time limit.

It owns which calls of the cluster port a step makes, and what is done when a call's effect is uncertain: it is looked up.
A call that hangs, or fails in a way that no adapter should, is uncertain too. It must never know which step comes next.
"""

from __future__ import annotations

import asyncio

import structlog

from steepest.cluster.port import Cluster
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events import cluster as c
from steepest.events.parameters import MoveLimits
from steepest.sagas.task import (
    Task,
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

logger = structlog.get_logger(__name__)

START_S = 60.0
"""How long a node may take to accept a process."""

SLACK_S = 15.0
"""What a call may take beyond its own limit: SIGKILL, say, and a slow disk."""

LOOK_UP_S = 10.0
"""How long looking up may take, which changes nothing and reads little."""


def time_limit_s(step: c.Step, limits: MoveLimits) -> float:
    """How long a step takes at most, from its reading back to its outcome, in seconds."""
    return _call_limit_s(step, limits) + LOOK_UP_S


def _call_limit_s(step: c.Step, limits: MoveLimits) -> float:
    own_s = {
        c.Step.CHECKPOINT: limits.checkpoint_timeout_ms / 1000,
        c.Step.STOP: limits.stop_grace_ms / 1000,
        c.Step.START: START_S,
        c.Step.VERIFY: limits.verify_timeout_ms / 1000,
    }
    return own_s[step] + SLACK_S


async def act(cluster: Cluster, task: Task) -> c.ClusterEvent:
    """Do the step and give its outcome; a failure is an outcome too."""
    try:
        async with asyncio.timeout(_call_limit_s(task.begun.step, task.limits)):
            return await _STEPS[task.begun.step](cluster, task)
    except ClusterError as error:
        return await _after_failure(cluster, task, error)
    except TimeoutError:
        return await _look_up(cluster, task, UncertainError("the cluster did not answer in time", code="timeout"))
    except Exception as error:
        logger.exception("a step failed in a way that no adapter should", step=task.begun)
        return await _look_up(cluster, task, UncertainError(f"{type(error).__name__}: {error}", code="bug"))


async def _checkpoint(cluster: Cluster, task: Task) -> c.ClusterEvent:
    begun, limits = task.begun, task.limits
    checkpoint = await cluster.checkpoint(
        task.replica,
        begun.incarnation,
        request=task.request,
        hold_s=limits.hold_ms / 1000,
        timeout_s=limits.checkpoint_timeout_ms / 1000,
    )
    return saved(task, checkpoint)


async def _stop(cluster: Cluster, task: Task) -> c.ClusterEvent:
    begun = task.begun
    return stopped(task, await cluster.stop(task.replica, begun.incarnation, grace_s=task.limits.stop_grace_ms / 1000))


async def _start(cluster: Cluster, task: Task) -> c.ClusterEvent:
    begun = task.begun
    if begun.attempt == 1 and (why := was_forgotten(task, await cluster.lookup(task.replica))):
        return failed(task, RefusedError(why, code="stale-incarnation"))
    await cluster.start(task.replica, begun.incarnation, begun.node, replica_spec(task.spec), task.restore)
    return placed(task)


async def _verify(cluster: Cluster, task: Task) -> c.ClusterEvent:
    begun = task.begun
    step = await cluster.wait_for_step(
        task.replica,
        begun.incarnation,
        at_least=step_wanted(task),
        timeout_s=task.limits.verify_timeout_ms / 1000,
    )
    return resumed(task, step)


_STEPS = {c.Step.CHECKPOINT: _checkpoint, c.Step.STOP: _stop, c.Step.START: _start, c.Step.VERIFY: _verify}


async def _after_failure(cluster: Cluster, task: Task, error: ClusterError) -> c.ClusterEvent:
    """The outcome of a call that failed."""
    if error.definite and not may_have_been_done(task):
        return failed(task, error)
    return await _look_up(cluster, task, error)


async def _look_up(cluster: Cluster, task: Task, error: ClusterError) -> c.ClusterEvent:
    """What became of a step whose effect is not known: asked of the cluster, never assumed."""
    try:
        async with asyncio.timeout(LOOK_UP_S):
            if task.begun.step is c.Step.CHECKPOINT:
                await cluster.release(task.replica, task.begun.incarnation, request=task.request)
                return failed(task, RefusedError(str(error), code=error.code))
            return looked_up(task, await cluster.lookup(task.replica), error)
    except Exception as second:  # noqa: BLE001 - whatever it is, it is not known what became of the step
        logger.warning("could not look up what became of a step", step=task.begun, why=repr(second))
        return failed(task, UncertainError(str(error), code=error.code))
