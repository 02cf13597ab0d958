"""What a recording tells up to a position, and what it tells of the jobs beyond it.

It owns the reading: the state of everybody who decides, as it was at the position, and what was seen of each job. It must
never guess: how a job goes on is in :mod:`steepest.sim.whatif.futures`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import msgspec

from steepest.errors import InputError, UndecodableError
from steepest.events import cluster as c
from steepest.events import loss
from steepest.events.common import CheckpointMode
from steepest.events.received import ID, DecisionId, Received
from steepest.log.base import Log, TopicPartition
from steepest.policies.decider import fold_and_decide
from steepest.runtime.decode import received
from steepest.sim.system.pool import Memory, deciders_of_a_pool
from steepest.view.cluster_view import ClusterView

FULL = 0.9
"""A node of which this share is in use is full: what a job gets there says nothing of what it could use."""

FLAT = 1.2
"""A node whose use grows by no more than this factor when it has several jobs instead of one gives no more than that."""

LONGEST_MS = 10_000
"""A usage record speaks for no longer a time before it."""

FEW = 5
"""Usage records with one number of jobs that a mean needs."""


class Use(msgspec.Struct):
    """What was measured of a job's CPU.

    Attributes:
        millicore_ms: Used, over all usage records.
        most_m: The most at any time, in millicores.
        most_on: The node where that was.
    """

    millicore_ms: float = 0.0
    most_m: int = 0
    most_on: str = ""


class Seen(msgspec.Struct):
    """What the whole recording shows of one job.

    Attributes:
        reports: Time, incarnation, step and value of each report of the judged metric, in the order of the log.
        placed_ms: When each incarnation was placed.
        mode: How it said that it can be checkpointed; none where it said nothing.
        finished: The recording shows it finish.
        last_step: At which step, where its process said so.
    """

    reports: list[tuple[int, int, int, float]] = []
    placed_ms: dict[int, int] = {}
    mode: CheckpointMode = CheckpointMode.NONE
    use: Use = msgspec.field(default_factory=Use)
    finished: bool = False
    last_step: int | None = None


class Load(msgspec.Struct):
    """What a node gave.

    Attributes:
        used_m: Sum and number of its usage records, by how many jobs used it.
        at_ms: Time of the newest one.
    """

    used_m: dict[int, tuple[int, int]] = {}
    at_ms: int = 0

    def gives_m(self, capacity_m: int) -> int:
        """CPU that it gives to whoever wants as much as they can get, in millicores.

        A node of a shared machine may give less than its capacity. Where its use does not grow with the number of jobs,
        that use is what it gives.
        """
        one, several = self._mean({1}), self._mean(self.used_m.keys() - {0, 1})
        if not one or not several or max(one, several) >= FULL * capacity_m or several > FLAT * one:
            return capacity_m
        return max(1, round(self._mean(self.used_m.keys() - {0})))

    def _mean(self, counts: Collection[int]) -> float:
        """CPU in use with so many jobs; 0 where too little is known."""
        used = [self.used_m[count] for count in sorted(counts) if count in self.used_m]
        number = sum(records for _, records in used)
        return sum(total for total, _ in used) / number if number >= FEW else 0.0


class Past(msgspec.Struct):
    """A pool at a position of its log.

    Attributes:
        memory: What everybody who decides remembers there.
        log_ms: The time of the log's first record.
    """

    memory: Memory
    log_ms: int


class History(msgspec.Struct):
    """A recording, read.

    Attributes:
        later: What came from outside beyond the position, with its time: what people asked for, and nodes that were new.
        seen: By job.
        gives_m: What each node gives, in millicores.
    """

    past: Past
    later: list[tuple[int, c.ClusterEvent]]
    seen: dict[str, Seen]
    gives_m: dict[str, int]


async def read_history(log: Log, position: int | None) -> History:
    """Read a recording of one pool.

    Args:
        log: The recording.
        position: An offset of ``cluster``: what stands before it is the past; None: its end.

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
    seen: dict[str, Seen] = {}
    loads: dict[str, Load] = {}
    past, later = await _pool(log, pools[0], position, seen, loads)
    async for one in _all(log, "loss"):
        _note_report(one, seen)
        if one.at_ms <= past.memory.at_ms:
            past.memory.categorizer.step(one)
    async for one in _all(log, "heartbeats"):
        if one.at_ms <= past.memory.at_ms:
            past.memory.facts.step(one)
    capacity_m = {node.name: node.capacity.cpu_m for node in past.memory.view.nodes}
    capacity_m |= {event.node: event.capacity.cpu_m for _, event in later if isinstance(event, c.NodeJoined)}
    gives_m = {name: loads.get(name, Load()).gives_m(has_m) for name, has_m in capacity_m.items()}
    return History(past=past, later=later, seen=seen, gives_m=gives_m)


async def _pool(
    log: Log, at: TopicPartition, position: int, seen: dict[str, Seen], loads: dict[str, Load]
) -> tuple[Past, list[tuple[int, c.ClusterEvent]]]:
    view, deciders = ClusterView(), deciders_of_a_pool()
    made: dict[str, tuple[c.ClusterEvent, Mapping[str, str], int]] = {}
    later: list[tuple[int, c.ClusterEvent]] = []
    at_ms = log_ms = 0
    async for one in _partition(log, at):
        _note(one, seen, loads)
        if one.offset >= position:
            if _is_from_outside(one.event, view, later):
                later.append((one.at_ms, one.event))
            continue
        log_ms, at_ms = log_ms or one.at_ms, max(at_ms, one.at_ms)
        _, decided = fold_and_decide(view, deciders, one)
        for decider, events in zip(deciders, decided, strict=False):
            for index, event in enumerate(events):
                made_id = str(DecisionId(decider.name, view.state.epoch, one.topic, one.partition, one.offset, index))
                made[made_id] = (event, {ID: made_id}, one.at_ms)
        made.pop(one.headers.get(ID, ""), None)
    memory = Memory(view=view, deciders=deciders, partition=at.partition, at_ms=at_ms, pending=list(made.values()))
    past = Past(memory, log_ms)
    return past, later


def _is_from_outside(event: Any, view: ClusterView, later: list[tuple[int, c.ClusterEvent]]) -> bool:
    """Whether it would have come under any policy. Of nodes, only those that are new: what becomes of others is played."""
    if isinstance(event, c.NodeJoined):
        known = [one.node for _, one in later if isinstance(one, c.NodeJoined)]
        return event.node not in view.nodes and event.node not in known
    return isinstance(event, c.JobSubmitted | c.JobCancelRequested | c.PoolConfigured)


def _note(one: Received[Any], seen: dict[str, Seen], loads: dict[str, Load]) -> None:
    """What a record of the pool shows of jobs and nodes, before or beyond the position."""
    match one.event:
        case c.JobPlaced() as event:
            seen.setdefault(event.job, Seen()).placed_ms.setdefault(event.incarnation, one.at_ms)
        case c.CheckpointModeDeclared() as event:
            seen.setdefault(event.job, Seen()).mode = event.mode
        case c.NodeUsage() as event:
            load = loads.setdefault(event.node, Load())
            passed_ms = min(one.at_ms - (load.at_ms or one.at_ms), LONGEST_MS)
            load.at_ms = one.at_ms
            total, number = load.used_m.get(len(event.jobs), (0, 0))
            load.used_m[len(event.jobs)] = (total + event.used.cpu_m, number + 1)
            for job, cpu_m in event.jobs.items():
                use = seen.setdefault(job, Seen()).use
                use.millicore_ms += passed_ms * cpu_m
                if cpu_m > use.most_m:
                    use.most_m, use.most_on = cpu_m, event.node
        case c.ReplicaStopped() as event if event.exit_status == 0:
            one_job = seen.setdefault(event.job, Seen())
            one_job.finished, one_job.last_step = True, event.step


def _note_report(one: Received[Any], seen: dict[str, Seen]) -> None:
    event = one.event
    if isinstance(event, loss.LossReported) and event.step is not None and event.split == "train":
        seen.setdefault(event.job, Seen()).reports.append((one.at_ms, event.incarnation, event.step, event.value))


async def _all(log: Log, topic: str) -> AsyncIterator[Received[Any]]:
    for at in await log.partitions(topic):
        async for one in _partition(log, at):
            yield one


async def _partition(log: Log, at: TopicPartition) -> AsyncIterator[Received[Any]]:
    """What can be read of a partition; the rest went to the dead letters, live as well."""
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
