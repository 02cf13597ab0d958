"""A recording up to a position, and its records of the same jobs beyond it.

It owns the reading: the pool's engine as it was at the position, and what was observed of each job. It must never guess:
how a job goes on is in :mod:`steepest_lab.sim.whatif.futures`.
"""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from steepest.errors import InputError, UndecodableError
from steepest.events import cluster as c
from steepest.events import loss
from steepest.events.common import CheckpointMode
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.received import ID, Received
from steepest.log.base import Log, TopicPartition
from steepest.runtime.decision_stream import MintedDecision
from steepest.runtime.decode import received
from steepest.view.cluster_view import ClusterView
from steepest_lab.sim.system.pool import StartingPoint, engine_of_a_pool

FULL = 0.9
"""A node is full when this share of it is in use: a job's use there does not show what it could use."""

FLAT = 1.2
"""A node whose use grows by no more than this factor when it has several jobs instead of one gives no more than that."""

LONGEST_MS = 10_000
"""A usage record speaks for no longer a time before it."""

FEW = 5
"""Usage records with one number of jobs that a mean needs."""


class CpuUse(msgspec.Struct):
    """Measurements of a job's CPU.

    Attributes:
        millicore_ms: Used, over all usage records.
        most_m: The most at any time on a node, in millicores.
        most_on: The node where that was.
        node_m: What all jobs there used then.
        was_limited: Whether a limit held it back then.
        replicas: Its replicas that were seen there.
    """

    millicore_ms: float = 0.0
    most_m: int = 0
    most_on: str = ""
    node_m: int = 0
    was_limited: bool = False
    replicas: int = 1


class ReplicaWork(msgspec.Struct):
    """CPU time of one process, in milliseconds, and the steps that it was for.

    Attributes:
        first: The step and the CPU time of its first report of both; None: it reports no steps.
        newest: Likewise.
        cpu_ms: Its newest CPU time, from its start on.
        node: Where it runs.
    """

    first: tuple[int, int] | None = None
    newest: tuple[int, int] | None = None
    cpu_ms: int = 0
    node: str = ""

    def add(self, step: int | None, cpu_ms: int) -> None:
        """Add a report; one without new CPU time is of a process that had ended when it was measured."""
        if cpu_ms <= self.cpu_ms:
            return
        self.cpu_ms = cpu_ms
        if step is not None:
            self.newest = (step, cpu_ms)
            self.first = self.first or self.newest


class JobObservations(msgspec.Struct):
    """Observations of one job over the whole recording.

    Attributes:
        reports: Time, incarnation, step and value of each report of the judged metric, in the order of the log.
        placed_ms: When each incarnation was placed.
        mode: How it declared that it can be checkpointed; none where it declared nothing.
        work: CPU time of each incarnation of each replica.
        total: The steps of the whole training, as the process stated them last; None: it stated none.
        limit_m: The CPU limit in force; None: none.
        finished: The recording shows it finish.
        last_step: At which step, where its process reported it.
    """

    reports: list[tuple[int, int, int, float]] = []
    placed_ms: dict[int, int] = {}
    mode: CheckpointMode = CheckpointMode.NONE
    use: CpuUse = msgspec.field(default_factory=CpuUse)
    work: dict[tuple[int, int], ReplicaWork] = {}
    total: int | None = None
    limit_m: int | None = None
    finished: bool = False
    last_step: int | None = None


class NodeLoad(msgspec.Struct):
    """CPU that a node provided, by its number of jobs.

    Attributes:
        used_m: Sum and number of its usage records, by how many jobs used it.
        at_ms: Time of the newest one.
    """

    used_m: dict[int, tuple[int, int]] = {}
    at_ms: int = 0

    def gives_m(self, capacity_m: int) -> int:
        """CPU that it gives to jobs that want as much as they can get, in millicores.

        A node of a shared machine may give less than its capacity. Where its use does not grow with the number of jobs,
        that use is what it gives.
        """
        one, several = self._mean({1}), self._mean(self.used_m.keys() - {0, 1})
        if not one or not several or max(one, several) >= FULL * capacity_m or several > FLAT * one:
            return capacity_m
        return max(1, round(self._mean(self.used_m.keys() - {0})))

    def _mean(self, counts: Collection[int]) -> float:
        """Mean CPU in use with these numbers of jobs; 0 if too little is known."""
        used = [self.used_m[count] for count in sorted(counts) if count in self.used_m]
        number = sum(records for _, records in used)
        return sum(total for total, _ in used) / number if number >= FEW else 0.0


class RecordedPool(msgspec.Struct):
    """The observations of a recording.

    Attributes:
        start: The pool at the position.
        log_ms: Time of the log's first record.
        later: What came from outside beyond the position, with its time: requests of people, and nodes that were new.
        seen: By job.
        gives_m: What each node gives, in millicores.
        heartbeat_s: The usual time between two heartbeats of a node; None: it shows none.
    """

    start: StartingPoint
    log_ms: int
    later: list[tuple[int, c.ClusterEvent]]
    seen: dict[str, JobObservations]
    gives_m: dict[str, int]
    heartbeat_s: float | None

    @property
    def view(self) -> ClusterView:
        """The view at the position."""
        return self.start.engine.view


async def read_history(log: Log, position: int | None) -> RecordedPool:
    """Read a recording of one pool.

    Args:
        log: The recording.
        position: An offset of ``cluster``: the records before it are the past; None: its end.

    Raises:
        InputError: It is no offset of the recording, or the recording holds no pool or several.
        RecordingError, LogVersionError: The recording cannot be read.
    """
    pools = [at for at in await log.partitions("cluster") if await log.end(at)]
    if len(pools) != 1:
        raise InputError(f"the recording holds {len(pools)} pools, and one can be played on")
    end = await log.end(pools[0])
    position = end if position is None else position
    if not 1 <= position <= end:
        raise InputError(f"--at {position}: the recording's positions are 1 to {end}")
    seen: dict[str, JobObservations] = {}
    loads: dict[str, NodeLoad] = {}
    start, log_ms, later = await _pool(log, pools[0], position, seen, loads)
    async for one in _all(log, "loss"):
        _note_report(one, seen)
        if one.at_ms <= start.at_ms:
            start.categorizer.step(one)
    beats: dict[str, list[int]] = {}
    async for one in _all(log, "heartbeats"):
        if isinstance(one.event, NodeHeartbeat):
            beats.setdefault(one.event.node, []).append(one.at_ms)
        if one.at_ms <= start.at_ms:
            start.facts.step(one)
    capacity_m = {node.name: node.capacity.cpu_m for node in start.engine.view.nodes}
    capacity_m |= {event.node: event.capacity.cpu_m for _, event in later if isinstance(event, c.NodeJoined)}
    gives_m = {name: loads.get(name, NodeLoad()).gives_m(has_m) for name, has_m in capacity_m.items()}
    return RecordedPool(
        start=start, log_ms=log_ms, later=later, seen=seen, gives_m=gives_m, heartbeat_s=_period_s(beats.values())
    )


def _period_s(beats: Iterable[Sequence[int]]) -> float | None:
    """The usual time between two heartbeats of a node."""
    gaps = [later - one for times in beats for one, later in pairwise(times)]
    return statistics.median(gaps) / 1000 if gaps else None


async def _pool(
    log: Log, at: TopicPartition, position: int, seen: dict[str, JobObservations], loads: dict[str, NodeLoad]
) -> tuple[StartingPoint, int, list[tuple[int, c.ClusterEvent]]]:
    start = StartingPoint(engine_of_a_pool(at))
    engine = start.engine
    pending: dict[str, MintedDecision] = {}
    later: list[tuple[int, c.ClusterEvent]] = []
    log_ms = 0
    async for one in _partition(log, at):
        _note(one, seen, loads)
        if one.offset >= position:
            if _is_from_outside(one.event, engine.view, later):
                later.append((one.at_ms, one.event))
            continue
        log_ms, start.at_ms = log_ms or one.at_ms, max(start.at_ms, one.at_ms)
        pending |= {minted.headers[ID]: minted for minted in engine.step(one)}
        pending.pop(one.headers.get(ID, ""), None)
    start.pending = list(pending.values())
    return start, log_ms, later


def _is_from_outside(event: Any, view: ClusterView, later: list[tuple[int, c.ClusterEvent]]) -> bool:
    """Whether it would have come under any policy. Of nodes, only those that are new: what becomes of others is played."""
    if isinstance(event, c.NodeJoined):
        known = [one.node for _, one in later if isinstance(one, c.NodeJoined)]
        return event.node not in view.nodes and event.node not in known
    return isinstance(event, c.JobSubmitted | c.JobCancelRequested | c.PoolConfigured)


def _note(one: Received[Any], seen: dict[str, JobObservations], loads: dict[str, NodeLoad]) -> None:
    """Note a record's observations of jobs and nodes, before or beyond the position."""
    match one.event:
        case c.JobPlaced() as event:
            placed = seen.setdefault(event.job, JobObservations())
            placed.placed_ms.setdefault(event.incarnation, one.at_ms)
            placed.limit_m = None
        case c.CheckpointModeDeclared() as event:
            seen.setdefault(event.job, JobObservations()).mode = event.mode
        case c.NodeUsage() as event:
            _note_usage(event, one.at_ms, seen, loads.setdefault(event.node, NodeLoad()))
        case c.LimitsApplied() as event:
            seen.setdefault(event.job, JobObservations()).limit_m = event.cpu_m
        case c.ReplicaStopped() as event if event.exit_status == 0:
            one_job = seen.setdefault(event.job, JobObservations())
            one_job.finished, one_job.last_step = True, event.step


def _note_usage(event: c.NodeUsage, at_ms: int, seen: dict[str, JobObservations], load: NodeLoad) -> None:
    passed_ms = min(at_ms - (load.at_ms or at_ms), LONGEST_MS)
    load.at_ms = at_ms
    total, number = load.used_m.get(len(event.jobs), (0, 0))
    load.used_m[len(event.jobs)] = (total + event.used.cpu_m, number + 1)
    for progress in event.progress:
        job = seen.setdefault(progress.job, JobObservations())
        job.total = progress.total or job.total
        if progress.cpu_ms is not None:
            work = job.work.setdefault((progress.incarnation, progress.replica), ReplicaWork())
            work.node = event.node
            work.add(progress.step, progress.cpu_ms)
    for name, cpu_m in event.jobs.items():
        job = seen.setdefault(name, JobObservations())
        use = job.use
        use.millicore_ms += passed_ms * cpu_m
        if cpu_m > use.most_m:
            use.most_m, use.most_on, use.node_m = cpu_m, event.node, sum(event.jobs.values())
            use.was_limited = job.limit_m is not None and FULL * job.limit_m <= cpu_m <= job.limit_m / FULL
            newest = max((incarnation for incarnation, _ in job.work), default=0)
            here = [one for one, work in job.work.items() if one[0] == newest and work.node == event.node]
            use.replicas = max(1, len(here))


def _note_report(one: Received[Any], seen: dict[str, JobObservations]) -> None:
    event = one.event
    if isinstance(event, loss.LossReported) and event.step is not None and event.split == "train":
        seen.setdefault(event.job, JobObservations()).reports.append(
            (one.at_ms, event.incarnation, event.step, event.value)
        )


async def _all(log: Log, topic: str) -> AsyncIterator[Received[Any]]:
    for at in await log.partitions(topic):
        async for one in _partition(log, at):
            yield one


async def _partition(log: Log, at: TopicPartition) -> AsyncIterator[Received[Any]]:
    """The readable records of a partition; live readers sent the others to the dead letters."""
    end = await log.end(at)
    if not end:
        return
    reader = log.reader({at: 0})
    try:
        position = 0
        while position < end:
            for record in await reader.poll(timeout_s=0.1):
                position = record.offset + 1
                try:
                    yield received(record)
                except UndecodableError:
                    continue
    finally:
        await reader.close()
