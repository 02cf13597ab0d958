"""Moves a process that only sleeps, by a keeper: nothing else proves that two nodes can save and restore jobs.

It owns what is tried. It must never know what nodes are.
"""

from __future__ import annotations

import asyncio
import contextlib

from steepest.cluster.port import Cluster, ReplicaId, ReplicaSpec
from steepest.errors import ClusterError, RefusedError
from steepest.events.common import CheckpointMode, Resources

_JOB = ReplicaId("doctor")
_PATIENCE_S = 60.0


async def trial_move(cluster: Cluster, source: str, target: str) -> str:
    """Start the process, and move it from a node to another or the same one; return why that failed, or empty."""
    spec = ReplicaSpec(command=("sleep", "600"), requests=Resources(cpu_m=100), checkpoint_mode=CheckpointMode.SYSTEM)
    try:
        await cluster.start(_JOB, 1, source, spec, None)
        if reason := await asyncio.wait_for(_declared(cluster), _PATIENCE_S):
            return reason
        saved = await cluster.checkpoint(_JOB, 1, request="trial", hold_s=_PATIENCE_S, timeout_s=_PATIENCE_S)
        await cluster.stop(_JOB, 1, grace_s=_PATIENCE_S)
        await cluster.start(_JOB, 2, target, spec, saved)
        await cluster.wait_for_step(_JOB, 2, at_least=saved.step, timeout_s=_PATIENCE_S)
    except TimeoutError:
        return f"its keeper said nothing in {_PATIENCE_S:g} s"
    except ClusterError as error:
        return await _why(cluster) or str(error)
    finally:
        with contextlib.suppress(ClusterError):
            await _remove(cluster)
    return ""


async def _declared(cluster: Cluster) -> str:
    """Why its keeper cannot save it, once it has tried; empty if it can."""
    async for beat in cluster.heartbeats():
        for report in beat.replicas:
            if report.checkpoint_mode is not None:
                return report.mode_reason
    raise RefusedError("the heartbeats have ended")


async def _why(cluster: Cluster) -> str:
    status = await cluster.lookup(_JOB, verify=False)
    return status.reason if status is not None and status.has_ended else ""


async def _remove(cluster: Cluster) -> None:
    status = await cluster.lookup(_JOB, verify=False)
    if status is not None:
        if not status.has_ended:
            await cluster.stop(_JOB, status.incarnation, grace_s=0.0)
        await cluster.forget(_JOB.job)
