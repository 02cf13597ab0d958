"""The doors through which a process acts and reads: its log, its snapshots, its nodes and its clock, with faults.

It owns what happens at them. A fault is armed for the next calls, and is used up by striking; what strikes where is noted,
for the table of what was ever tried. A process that is paused or dead passes no door.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from tests.harness.memory_log import MemoryLog
from tests.harness.system.fake_cluster import FakeCluster
from tests.harness.system.fake_nodes import FakeNodes
from tests.harness.system.faulty_log import MortalSnapshots
from tests.harness.system.life import Life
from tests.harness.virtual_time import VirtualClock

from steepest.clock import Clock
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import LogUnavailableError, RefusedError, UncertainError
from steepest.events.common import CheckpointRef
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.registry import TOPICS
from steepest.log.base import NewRecord, Reader, Record, TopicPartition
from steepest.log.snapshot_store import SnapshotStore

T = TypeVar("T")

APPEND_S = (0.001, 0.012)
"""Least and most seconds of an append."""

CALL_S = (0.001, 0.05)
"""Likewise of a call of the cluster."""

ARRIVES = 0.5
"""Probability of a call whose process is killed meanwhile that it takes effect."""

FIRST_RECORDS = 3
"""Records of a partition that are never lost: its name, and the pool's parameters."""

POLL_S = 5.0
"""How long a poll waits at least, if it waits."""

HEARTBEAT_S = 5.0
"""A node is lost to its pool once two of them are missing."""

FETCH_S = 0.1
"""How long a poll takes. What is appended meanwhile comes with it, so that a batch has several records, as from a broker."""

AGENT_S = 0.7
"""Where each node has an agent of its own, they begin so many seconds one after the other."""

PAUSED_S = 1.0
"""A call that takes effect after more seconds was held up by a pause of its process."""


class Armed(msgspec.Struct):
    """A fault of the next calls.

    Attributes:
        kind: Its verb.
        left: How many calls it will strike.
        for_s: Seconds, where it takes time.
        only_acts: It strikes no call that looks what is there.
        step: Calls that it strikes: those made while a plan stands at that step; empty: all.
        starts: The job of which it strikes a START, and no other call; empty: any.
    """

    kind: str
    left: int = 1
    for_s: float = 0.0
    only_acts: bool = False
    step: str = ""
    starts: str = ""


class Broker:
    """The state of the log's servers, which all processes share.

    Attributes:
        slower: How many times as long an append takes.
        losses: How often the power was lost: what was on its way then never arrives.
        late_starts: Jobs of which a start has taken effect that was on its way for long: it may have been looked up before.
    """

    def __init__(self, log: MemoryLog, seed: int) -> None:
        self.log = log
        self.slower = 1.0
        self.losses = 0
        self.late_starts: dict[str, None] = {}
        self.rng = random.Random(seed)
        self.appended: Callable[[Sequence[NewRecord]], None] = lambda _: None
        self._removed: dict[TopicPartition, list[Record]] = {}
        self._answers = asyncio.Event()
        self._answers.set()

    async def lose_tail(self, least: int, most: int) -> Sequence[Record]:
        """Lose so many of each partition's newest records, as a page cache does with the power; return them."""
        self.losses += 1
        lost: list[Record] = []
        for topic in TOPICS:
            for at in await self.log.partitions(topic):
                kept = self.log._kept.partitions[at].records
                count = min(self.rng.randint(least, most), len(kept) - FIRST_RECORDS)
                if count > 0:
                    lost += kept[-count:]
                    del kept[-count:]
        return lost

    async def trim(self, at: TopicPartition, before: int) -> None:
        """Remove the records below an offset, which the recording has."""
        begin = await self.log.begin(at)
        if before > begin:
            self._removed.setdefault(at, []).extend(self.log._kept.partitions[at].records[: before - begin])
            self.log.trim(at, before)

    async def recording(self) -> MemoryLog:
        """A log with all records, those that were trimmed as well."""
        whole = MemoryLog({topic: len(await self.log.partitions(topic)) for topic in TOPICS})
        for at, partition in self.log._kept.partitions.items():
            whole._kept.partitions[at].records = [*self._removed.get(at, ()), *partition.records]
        return whole

    def empty(self, at: TopicPartition) -> None:
        """Delete a partition with all its records, and create it again."""
        kept = self.log._kept.partitions[at]
        kept.records, kept.begin = [], 0
        self._removed.pop(at, None)

    def stick(self) -> None:
        """Answer nothing."""
        self._answers.clear()

    def heal(self) -> None:
        """Answer everything."""
        self.slower = 1.0
        self._answers.set()

    async def answers(self) -> None:
        """Go on once it answers."""
        if not self._answers.is_set():
            await self._answers.wait()

    async def append(self, records: Sequence[NewRecord], losses: int | None = None) -> Sequence[int]:
        """Keep records, and tell who watches.

        Args:
            records: Them.
            losses: How often the power had been lost when they were sent; None: they are sent now.
        """
        if losses not in {None, self.losses}:
            raise LogUnavailableError("they were on their way when the power was lost")
        offsets = await self.log.append(records)
        self.appended(records)
        return offsets


class Doors:
    """All doors of one process.

    Attributes:
        life: Whether it lives.
        clock: Its machine's wall clock, which may be wrong.
    """

    def __init__(
        self,
        broker: Broker,
        struck: Callable[[str], None],
        under_way: Callable[[], Sequence[str]],
        clock: WrongClock,
        dies: Callable[[Doors, float], None],
    ) -> None:
        """Open them.

        Args:
            broker: The log's servers.
            struck: Called with the kind of each fault that strikes.
            under_way: Says at which steps plans stand.
            clock: Of the machine.
            dies: Kills the process, for so many seconds.
        """
        self.life = Life()
        self.clock = clock
        self.broker = broker
        self._struck = struck
        self._under_way = under_way
        self._dies = dies
        self._armed: dict[str, deque[Armed]] = {}
        self._late: list[asyncio.Task[Any]] = []
        self._healed = asyncio.Event()

    def arm(self, door: str, fault: Armed) -> None:
        """Let the next calls at a door (``append``, ``read``, ``call``, ``save``) meet a fault."""
        self._armed.setdefault(door, deque()).append(fault)

    def heal(self) -> None:
        """No call meets a fault from now on, and what is late arrives."""
        self._armed.clear()
        self._healed.set()

    def meets(self, door: str, *, looks: bool = False, starts: str = "") -> Armed | None:
        """The fault that strikes a call, which may only look, or start a replica of a job."""
        waiting = self._armed.get(door)
        if not waiting:
            return None
        # Replicas share those that wait for a step.
        left = [one for one in waiting if one.left > 0 and not (looks and one.only_acts) and one.starts in {"", starts}]
        now = self._under_way() if any(one.step for one in left) else ()
        fault = next((one for one in left if not one.step or one.step in now), None)
        if fault is None:
            return None
        fault.left -= 1
        if fault.left <= 0:
            waiting.remove(fault)
        self._struck(fault.kind)
        return fault

    async def linger(self, seconds: float) -> None:
        """A call is on its way for so long, at most until the world is healed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._healed.wait()

    async def die(self, down_s: float, effect: Callable[[], Awaitable[object]]) -> None:
        """The process is killed while a call of it is on its way, which arrives or does not."""
        if self.broker.rng.random() < ARRIVES:
            with suppress(RefusedError, UncertainError, LogUnavailableError):
                await effect()
        self._dies(self, down_s)
        await self.life.go()

    def later(self, seconds: float, effect: Callable[[], Awaitable[object]]) -> None:
        """What was given up takes effect all the same."""

        async def late() -> None:
            await self.linger(seconds)
            try:
                await effect()
            except (RefusedError, UncertainError, LogUnavailableError):
                return

        self.keep(asyncio.ensure_future(late()))

    def keep(self, task: asyncio.Task[Any]) -> None:
        """End this task with the world."""
        self._late.append(task)

    def close(self) -> None:
        """The world is over."""
        for task in self._late:
            task.cancel()


class WorldSnapshots(MortalSnapshots):
    """The snapshots as one process sees them."""

    def __init__(self, store: SnapshotStore, doors: Doors) -> None:
        super().__init__(store, doors.life)
        self._doors = doors

    async def save(self, key: str, data: bytes) -> None:
        """See ``SnapshotStore.save``."""
        await self._doors.life.go()
        if self._doors.meets("save"):
            raise LogUnavailableError("no space is left on the disk")
        await super().save(key, data)


class WrongClock(VirtualClock):
    """A machine's wall clock, which may have been set, and be too fast or too slow."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead_ms = 0
        self._drift = 0.0
        self._set_s = 0.0

    def set(self, by_ms: int, drift: float) -> None:
        """It jumps by so many milliseconds, and from now on gains the share ``drift`` of each second."""
        self._ahead_ms = self.now_ms() - super().now_ms() + by_ms
        self._drift, self._set_s = drift, self.monotonic()

    def now_ms(self) -> int:
        """See ``Clock``."""
        gained_ms = round(self._drift * (self.monotonic() - self._set_s) * 1000) if self._drift else 0
        return super().now_ms() + self._ahead_ms + gained_ms


class WorldLog:
    """The log as one process sees it."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._broker = doors.broker

    async def append(self, records: Sequence[NewRecord]) -> Sequence[int]:
        """See ``Log.append``."""
        doors, broker = self._doors, self._broker
        losses = broker.losses
        await doors.life.go()
        await broker.answers()
        await asyncio.sleep(broker.rng.uniform(*APPEND_S) * broker.slower)
        await doors.life.go()
        match doors.meets("append"):
            case Armed(kind="append-fails"):
                raise LogUnavailableError("the broker refuses it")
            case Armed(kind="append-unclear"):
                await broker.append(records, losses)
                raise LogUnavailableError("the broker does not say what became of it")
            case Armed(kind="append-late", for_s=for_s):
                await doors.linger(for_s)
            case Armed(kind="append-zombie", for_s=for_s):
                doors.later(for_s, lambda: broker.append(records, losses))
                raise LogUnavailableError("the broker did not answer in time")
            case Armed(kind="append-dies", for_s=for_s):
                await doors.die(for_s, lambda: broker.append(records, losses))
        offsets = await broker.append(records, losses)
        await asyncio.sleep(broker.rng.uniform(*APPEND_S))
        await doors.life.go()
        return offsets

    async def end(self, at: TopicPartition) -> int:
        """See ``Log.end``."""
        await self._reads()
        return await self._broker.log.end(at)

    async def begin(self, at: TopicPartition) -> int:
        """See ``Log.begin``."""
        await self._reads()
        return await self._broker.log.begin(at)

    async def sync(self, partitions: Iterable[TopicPartition]) -> None:  # noqa: ARG002 - the protocol
        """See ``Log.sync``."""
        await self._reads()

    async def partitions(self, topic: str) -> Sequence[TopicPartition]:
        """See ``Log.partitions``."""
        return await self._broker.log.partitions(topic)

    def reader(self, start: Mapping[TopicPartition, int]) -> WorldReader:
        """See ``Log.reader``."""
        return WorldReader(self._broker.log.reader(start), self)

    async def close(self) -> None:
        """See ``Log.close``."""

    async def _reads(self) -> None:
        await self._doors.life.go()
        await self._broker.answers()
        if self._doors.meets("read"):
            raise LogUnavailableError("the broker gives nothing")


class WorldReader:
    """A reader as one process sees it."""

    def __init__(self, reader: Reader, log: WorldLog) -> None:
        self._reader = reader
        self._log = log

    async def poll(self, *, max_records: int = 1000, timeout_s: float = 1.0) -> Sequence[Record]:
        """See ``Reader.poll``."""
        if timeout_s:
            await asyncio.sleep(FETCH_S)
        await self._log._reads()
        # A reader is woken when there is something. Looking in between costs, and shows nothing.
        longer_s = timeout_s and max(timeout_s, POLL_S)
        records = await self._reader.poll(max_records=max_records, timeout_s=longer_s)
        await self._log._doors.life.go()
        return records

    async def close(self) -> None:
        """See ``Reader.close``."""
        await self._reader.close()


class WorldCluster(FakeCluster):
    """The nodes as one process sees them."""

    def __init__(
        self,
        nodes: FakeNodes,
        pool: str,
        clock: Clock,
        doors: Doors,
        silent: Mapping[str, object],
        *,
        has_agents: bool,
    ) -> None:
        """``silent``: the nodes whose heartbeats are lost. ``has_agents``: each node has one of its own."""
        super().__init__(nodes, pool, clock, heartbeat_s=HEARTBEAT_S, life=doors.life)
        self._doors = doors
        self._silent = silent
        self._agent_s = AGENT_S if has_agents else 0.0
        self._starts = ""

    async def start(
        self, replica: ReplicaId, incarnation: int, node: str, spec: ReplicaSpec, restore: CheckpointRef | None
    ) -> None:
        """See ``Cluster.start``."""
        self._starts = replica.job
        await super().start(replica, incarnation, node, spec, restore)

    async def heartbeats(self) -> AsyncIterator[NodeHeartbeat]:
        """See ``Cluster.heartbeats``."""
        begin_s = self._clock.monotonic()
        from_s = {node: begin_s + number * self._agent_s for number, node in enumerate(self.nodes.nodes)}
        async for beat in super().heartbeats():
            is_said = beat.node not in self._silent and self._clock.monotonic() >= from_s[beat.node]
            if is_said and not self.nodes.nodes[beat.node].lost:
                yield beat

    async def _call(self, name: str, effect: Callable[[], Awaitable[T]]) -> T:
        doors, life = self._doors, self._doors.life
        starts = self._starts if name == "start" else ""
        late, asked_s = self._late(effect, starts), asyncio.get_running_loop().time()
        await life.go()
        await asyncio.sleep(doors.broker.rng.uniform(*CALL_S))
        match doors.meets("call", looks=name == "lookup", starts=starts):
            case Armed(kind="call-refused"):
                raise RefusedError("the cluster refuses it")
            case Armed(kind="call-unclear"):
                raise UncertainError("the cluster does not answer, and has done nothing")
            case Armed(kind="call-lost"):
                await effect()
                raise UncertainError("the cluster does not answer, and has done it")
            case Armed(kind="call-bug"):
                raise ZeroDivisionError("a bug of the adapter")
            case Armed(kind="call-dies", for_s=for_s):
                await doors.die(for_s, effect)
            case Armed(kind="call-late", for_s=for_s):
                await doors.linger(for_s)
                effect = late
            case Armed(kind="call-zombie", for_s=for_s):
                doors.later(for_s, late)
                raise UncertainError("the cluster did not answer in time")
            case Armed(kind="call-twice", for_s=for_s):
                doors.later(for_s, late)
            case Armed(kind="call-slow", for_s=for_s):
                done = await effect()
                await doors.linger(for_s)
                await life.go()
                return done
        await life.go()
        is_late = asyncio.get_running_loop().time() - asked_s > PAUSED_S
        done = await (late if is_late else effect)()
        await life.go()
        return done

    def _late(self, effect: Callable[[], Awaitable[T]], starts: str) -> Callable[[], Awaitable[T]]:
        def late() -> Awaitable[T]:
            if starts:
                self._doors.broker.late_starts[starts] = None
            return effect()

        return late
