"""Builds heartbeats from the roster and delivers them to every listener.

It owns their content and their delivery. It must never measure or observe by itself. A slow listener misses heartbeats but
no facts: it gets the newest heartbeat of each node, and ended replicas stay listed in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import msgspec

from steepest.cluster.folders.replica_roster import Tracked
from steepest.cluster.port import ReplicaPhase
from steepest.errors import BugError
from steepest.events.common import CheckpointRef, KeeperFacts, Resources
from steepest.events.facts import FailedGpu, GpuUse
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState

_STATES = {
    ReplicaPhase.RUNNING: ReplicaState.RUNNING,
    ReplicaPhase.EXITED: ReplicaState.EXITED,
    ReplicaPhase.GONE: ReplicaState.GONE,
}


class GpuFacts(NamedTuple):
    """The use of GPUs, and those that are out of use."""

    use: tuple[GpuUse, ...]
    failed: tuple[FailedGpu, ...]


NO_FACTS = GpuFacts((), ())
"""Those of a node without a driver."""


def heartbeat(
    *,
    node: str,
    pool: str,
    at_ms: int,
    capacity: Resources,
    replicas: Sequence[Tracked],
    checkpoint: Callable[[str], CheckpointRef | None],
    gpus: GpuFacts = NO_FACTS,
    keeper: KeeperFacts | None = None,
) -> NodeHeartbeat:
    """The heartbeat of a node now. A replica is listed once it is proven to run, and no other has its GPUs any more.

    Args:
        node: Its name.
        pool: Its pool.
        at_ms: Wall-clock time.
        capacity: The node's resources, without the GPUs that failed.
        replicas: The replicas on the node.
        checkpoint: Returns the newest verified checkpoint of a job.
        gpus: The facts of its GPUs.
        keeper: What an image of its jobs depends on.
    """
    unsettled = {gpu for each in replicas if each.seen.ended and not each.settled for gpu in each.gpus}
    listed = [each for each in replicas if each.seen.phase in _STATES]
    listed = [each for each in listed if each.seen.ended or each.listed or unsettled.isdisjoint(each.gpus)]
    for each in listed:
        each.listed = True
    listed.sort(key=lambda one: not one.settled)  # an end is a fact before the next start is one
    reports = tuple(_report(each, _state(each), checkpoint(each.folder.replica.job)) for each in listed)
    used = Resources(
        cpu_m=sum(report.cpu_m or 0 for report in reports), memory_mib=sum(report.memory_mib or 0 for report in reports)
    )
    return NodeHeartbeat(
        node=node,
        pool=pool,
        at_ms=at_ms,
        capacity=capacity,
        used=used,
        replicas=tuple(_gone_with_its_gpu(one, gpus.failed, at) for one, at in zip(reports, listed, strict=True)),
        gpus=gpus.use,
        failed_gpus=gpus.failed,
        keeper=keeper,
    )


def _gone_with_its_gpu(report: ReplicaReport, failed: Sequence[FailedGpu], tracked: Tracked) -> ReplicaReport:
    """A process that ended, but did not finish, with a GPU that failed says nothing of its job."""
    why = [f"GPU {one.gpu} has failed: {one.why}" for one in failed if one.gpu in tracked.gpus]
    if not why or report.state is not ReplicaState.EXITED or not report.exit_status:
        return report
    reason = f"{'; '.join(why)}; its exit status was {report.exit_status}"
    return msgspec.structs.replace(report, state=ReplicaState.GONE, exit_status=None, reason=reason)


def _state(tracked: Tracked) -> ReplicaState:
    """An end is reported once, so it is held back until the last checkpoint is verified."""
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
        total=tracked.tail.total,
        epoch=tracked.tail.epoch,
        epochs=tracked.tail.epochs,
        cpu_ms=tracked.use.cpu_ms,
        read_bytes=tracked.use.read_bytes,
        stopped=tracked.use.stopped,
        checkpoint_mode=tracked.hello.checkpoint_mode if tracked.hello else None,
        mode_reason=tracked.hello.reason if tracked.hello else "",
        checkpoint=checkpoint,
        reason=tracked.seen.reason,
        gpus=tracked.gpus if state is ReplicaState.RUNNING else (),
    )


class Listener:
    """One consumer's mailbox: the newest heartbeat of each node."""

    def __init__(self) -> None:
        self._unread: dict[str, NodeHeartbeat] = {}
        self._some = asyncio.Event()
        self._closed = False
        self._failure: BaseException | None = None

    def put(self, newest: NodeHeartbeat) -> None:
        """Deliver a heartbeat; it replaces an older one of the same node that was not consumed yet."""
        self._unread[newest.node] = newest
        self._some.set()

    def close(self, failure: BaseException | None = None) -> None:
        """End the stream; with ``failure``, the consumer gets an error with that cause."""
        self._closed = True
        self._failure = failure
        self._some.set()

    async def heartbeats(self) -> AsyncIterator[NodeHeartbeat]:
        """Yield heartbeats until the listener is closed.

        Raises:
            BugError: The stream ended with a failure.
        """
        while True:
            await self._some.wait()
            if self._failure is not None:
                raise BugError("the cluster's heartbeats broke off") from self._failure
            if self._closed:
                return
            node = next(iter(self._unread))
            newest = self._unread.pop(node)
            if not self._unread:
                self._some.clear()
            yield newest
