"""Heartbeats: made from the roster, handed to everybody who listens.

It owns their content and their delivery. It must never measure or look by itself. A listener that is slow misses heartbeats
but never a fact: it gets the newest of each node, in which ended replicas stay listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from steepest.cluster.folders.replica_roster import Tracked
from steepest.cluster.port import ReplicaPhase
from steepest.errors import BugError
from steepest.events.common import CheckpointRef, Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState

_STATES = {
    ReplicaPhase.RUNNING: ReplicaState.RUNNING,
    ReplicaPhase.EXITED: ReplicaState.EXITED,
    ReplicaPhase.GONE: ReplicaState.GONE,
}


def heartbeat(
    *,
    node: str,
    pool: str,
    at_ms: int,
    capacity: Resources,
    replicas: Sequence[Tracked],
    checkpoint: Callable[[str], CheckpointRef | None],
) -> NodeHeartbeat:
    """What a node says of itself now. A replica that is not proven to run is not listed yet.

    Args:
        node: Its name.
        pool: Its pool.
        at_ms: The wall clock.
        capacity: What it has.
        replicas: Those on the node.
        checkpoint: The newest verified checkpoint of a job.
    """
    reports = tuple(
        _report(each, _state(each), checkpoint(each.folder.replica.job))
        for each in replicas
        if each.seen.phase in _STATES
    )
    used = Resources(
        cpu_m=sum(report.cpu_m or 0 for report in reports), memory_mib=sum(report.memory_mib or 0 for report in reports)
    )
    return NodeHeartbeat(
        node=node, pool=pool, at_ms=at_ms, capacity=capacity, used=used, replicas=reports, takes_jobs=True
    )


def _state(tracked: Tracked) -> ReplicaState:
    """An end is told once, so it is not told before it is known what was saved up to it."""
    if tracked.seen.ended and not tracked.settled:
        return ReplicaState.RUNNING
    return _STATES[tracked.seen.phase]


def _report(tracked: Tracked, state: ReplicaState, checkpoint: CheckpointRef | None) -> ReplicaReport:
    return ReplicaReport(
        job=tracked.folder.replica.job,
        replica=tracked.folder.replica.index,
        incarnation=tracked.folder.incarnation,
        state=state,
        exit_status=tracked.seen.exit_status,
        cpu_m=tracked.use.cpu_m,
        memory_mib=tracked.use.memory_mib,
        block_bytes_s=tracked.use.block_bytes_s,
        network_bytes_s=tracked.use.network_bytes_s,
        step=tracked.tail.step,
        checkpoint_mode=tracked.hello.checkpoint_mode if tracked.hello else None,
        checkpoint=checkpoint,
        reason=tracked.seen.reason,
    )


class Listener:
    """One consumer's mailbox: at most one heartbeat a node, the newest."""

    def __init__(self) -> None:
        self._waiting: dict[str, NodeHeartbeat] = {}
        self._some = asyncio.Event()
        self._closed = False
        self._failure: BaseException | None = None

    def put(self, beat: NodeHeartbeat) -> None:
        """Hand over a heartbeat; one of the same node that was not taken yet gives way."""
        self._waiting[beat.node] = beat
        self._some.set()

    def close(self, failure: BaseException | None = None) -> None:
        """Nothing comes any more; with a failure, the consumer gets to know why."""
        self._closed = True
        self._failure = failure
        self._some.set()

    async def beats(self) -> AsyncIterator[NodeHeartbeat]:
        """All heartbeats until it is closed.

        Raises:
            BugError: They ended because of a failure.
        """
        while True:
            await self._some.wait()
            if self._failure is not None:
                raise BugError("the cluster's heartbeats broke off") from self._failure
            if self._closed:
                return
            node = next(iter(self._waiting))
            beat = self._waiting.pop(node)
            if not self._waiting:
                self._some.clear()
            yield beat
