"""A log, and snapshots, as one process sees them: with failures that a test makes, for as long as the process lives.

It owns what happens at the doors. It must never know what is read or written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from tests.harness.system.fake_cluster import When
from tests.harness.system.life import Life

from steepest.log.base import Log, NewRecord, Reader, Record, TopicPartition
from steepest.log.snapshot_store import SnapshotStore

LogHook = Callable[[str, When, Sequence[NewRecord]], Awaitable[None]]
"""What a test does to every call: its name, the moment, and what is appended. It may raise, wait, pause or kill."""


async def _nothing(_call: str, _when: When, _records: Sequence[NewRecord]) -> None:
    pass


class FaultyLog:
    """A :class:`~steepest.log.base.Log` over another one."""

    def __init__(self, log: Log, life: Life | None = None, hook: LogHook = _nothing) -> None:
        self._log = log
        self._life = life or Life()
        self.hook = hook

    async def append(self, records: Sequence[NewRecord]) -> Sequence[int]:
        """See ``Log.append``."""
        await self.run_hook("append", When.BEFORE, records)
        offsets = await self._log.append(records)
        await self.run_hook("append", When.AFTER, records)
        return offsets

    async def end(self, at: TopicPartition) -> int:
        """See ``Log.end``."""
        await self.run_hook("end", When.BEFORE)
        return await self._log.end(at)

    async def begin(self, at: TopicPartition) -> int:
        """See ``Log.begin``."""
        return await self._log.begin(at)

    async def sync(self, partitions: Iterable[TopicPartition]) -> None:
        """See ``Log.sync``."""
        await self._log.sync(partitions)

    async def partitions(self, topic: str) -> Sequence[TopicPartition]:
        """See ``Log.partitions``."""
        return await self._log.partitions(topic)

    def reader(self, start: Mapping[TopicPartition, int]) -> FaultyReader:
        """See ``Log.reader``."""
        return FaultyReader(self._log.reader(start), self)

    async def close(self) -> None:
        """See ``Log.close``."""
        await self._log.close()

    async def run_hook(self, call: str, when: When, records: Sequence[NewRecord] = ()) -> None:
        """Run the test's hook, and go on if the process lives."""
        await self._life.go()
        await self.hook(call, when, records)
        await self._life.go()


class FaultyReader:
    """A :class:`~steepest.log.base.Reader` over another one."""

    def __init__(self, reader: Reader, log: FaultyLog) -> None:
        self._reader = reader
        self._log = log

    async def poll(self, *, max_records: int = 1000, timeout_s: float = 1.0) -> Sequence[Record]:
        """See ``Reader.poll``."""
        await self._log.run_hook("poll", When.BEFORE)
        records = await self._reader.poll(max_records=max_records, timeout_s=timeout_s)
        await self._log.run_hook("poll", When.AFTER)
        return records

    async def close(self) -> None:
        """See ``Reader.close``."""
        await self._reader.close()


class MortalSnapshots:
    """A :class:`~steepest.log.snapshot_store.SnapshotStore` of a process that may be killed."""

    def __init__(self, store: SnapshotStore, life: Life) -> None:
        self._store = store
        self._life = life

    async def save(self, key: str, data: bytes) -> None:
        """See ``SnapshotStore.save``."""
        await self._life.go()
        await self._store.save(key, data)

    async def load(self, key: str) -> Sequence[bytes]:
        """See ``SnapshotStore.load``."""
        await self._life.go()
        return await self._store.load(key)

    async def keys(self) -> Sequence[str]:
        """See ``SnapshotStore.keys``."""
        return await self._store.keys()
