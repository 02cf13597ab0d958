"""The async shell of a step's calls: they are made on the cluster port, within a time limit, so that there is an outcome.

A call that hangs, or fails in a way that no adapter should, is uncertain, and is looked up like any other. It must never
know which call comes next: that is :mod:`steepest.sagas.step_calls`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from steepest.cluster.port import Cluster, ReplicaId
from steepest.errors import ClusterError, UncertainError
from steepest.events import cluster as c
from steepest.logger import Logger
from steepest.sagas.calls import (
    LOOK_UP_S,
    Call,
    Calls,
    CheckpointCall,
    GatherCall,
    LookupCall,
    OneCall,
    ReleaseCall,
    StartCall,
    StopCall,
    WaitCall,
)
from steepest.sagas.step_calls import call_limit_s, release_calls, step_calls
from steepest.sagas.step_task import StepTask

logger = Logger()


async def act(cluster: Cluster, task: StepTask) -> c.ClusterEvent:
    """Do the step and give its outcome; a failure is an outcome too."""
    calls, error = step_calls(task), None
    # The second round looks up what became of the step, when the first has ended with an error.
    for limit_s in (call_limit_s(task.begun.step, task.limits), LOOK_UP_S):
        try:
            async with asyncio.timeout(limit_s):
                return await _make(cluster, calls, error)
        except ClusterError as failure:
            error = failure
        except TimeoutError:
            error = UncertainError("the cluster did not answer in time", code="timeout")
        except Exception as bug:
            logger.exception("a step failed in a way that no adapter should", step=task.begun)
            error = UncertainError(f"{type(bug).__name__}: {bug}", code="bug")
    logger.warning("could not look up what became of a step", step=task.begun, why=repr(error))
    return await _make(cluster, calls, error)  # after a second failure there is no call left to make


async def release(cluster: Cluster, conclusion: c.ClusterEvent, replica: ReplicaId, request: str) -> None:
    """Let a process that waits after its checkpoint train on."""
    try:
        async with asyncio.timeout(LOOK_UP_S):
            await _make(cluster, release_calls(conclusion, replica, request))
    except Exception as error:  # noqa: BLE001 - a hold ends by itself, so no failure here is worth more than a warning
        logger.warning("could not release; the process waits until its hold is over", job=replica.job, why=repr(error))


async def _make(cluster: Cluster, calls: Calls, error: ClusterError | None = None) -> c.ClusterEvent:
    """Make the calls until there is an event; ``error`` is what the call before has ended with."""
    try:
        call = next(calls) if error is None else calls.throw(error)
        while True:
            call = calls.send(await _answer(cluster, call))
    except StopIteration as end:
        event: c.ClusterEvent = end.value
        return event


async def _answer(cluster: Cluster, call: Call) -> Any:
    if isinstance(call, GatherCall):
        return tuple(await asyncio.gather(*(_answer_or_error(cluster, one, call.timeout_s) for one in call.calls)))
    return await _answer_one(cluster, call)


async def _answer_one(cluster: Cluster, call: OneCall) -> Any:
    match call:
        case CheckpointCall(replica, incarnation, request, hold_s, timeout_s):
            return await cluster.checkpoint(replica, incarnation, request=request, hold_s=hold_s, timeout_s=timeout_s)
        case ReleaseCall(replica, incarnation, request):
            return await cluster.release(replica, incarnation, request=request)
        case StopCall(replica, incarnation, grace_s):
            return await cluster.stop(replica, incarnation, grace_s=grace_s)
        case StartCall(replica, incarnation, node, spec, restore):
            return await cluster.start(replica, incarnation, node, spec, restore)
        case WaitCall(replica, incarnation, at_least, timeout_s):
            return await cluster.wait_for_step(replica, incarnation, at_least=at_least, timeout_s=timeout_s)
        case LookupCall(replica):
            return await cluster.lookup(replica)


async def _answer_or_error(cluster: Cluster, call: OneCall, timeout_s: float) -> Any:
    """The answer to one of several calls, or the error that it ends with."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _answer_one(cluster, call)
    except ClusterError as error:
        return error
    except TimeoutError:
        return UncertainError("the cluster did not answer in time", code="timeout")
    except Exception as bug:
        logger.exception("a call failed in a way that no adapter should", call=call)
        return UncertainError(f"{type(bug).__name__}: {bug}", code="bug")
