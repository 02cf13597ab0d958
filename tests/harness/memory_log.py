"""A log and its snapshots in the memory of one process, for tests that need no disk.

It owns the lists of records. It must give the same guarantees as other logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from steepest.errors import LogUnavailableError
from steepest.log.base import NewRecord, Record, TopicPartition
from steepest.log.local_reader import Bell, LocalReader
from steepest.log.snapshot_store import file_name
from steepest.log.validation import Topics, check_position


class _Partition:
    """The records of a partition from the offset ``begin`` on."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.begin = 0

    @property
    def end(self) -> int:
        return self.begin + len(self.records)


class _SharedRecords:
    """The state that all handles on one log share."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.topics = Topics(partitions, source="the log in memory")
        self.partitions = {at: _Partition() for at in self.topics.all()}
        self.bell = Bell()


class MemoryLog:
    """A ``steepest.log.base.Log`` that lives as long as its process. All its handles belong to one event loop."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        """Create an empty log.

        Args:
            partitions: Topic to number of partitions.

        Raises:
            InputError: A topic name is invalid, or a number of partitions is below 1.
        """
        self._kept = _SharedRecords(partitions)
        self._closed = False

    def reopen(self) -> MemoryLog:
        """Another handle on the same records, like opening a log on disk again. Each handle is closed separately."""
        other = MemoryLog({})
        other._kept = self._kept
        return other

    async def append(self, records: Sequence[NewRecord]) -> Sequence[int]:
        """See ``steepest.log.base.Log.append``; all of the records or none.

        Raises:
            InputError: A record is invalid.
            LogUnavailableError: This handle was closed.
        """
        self._check_open()
        self._kept.topics.check_records(records)
        offsets = [self._keep(record) for record in records]
        for at in dict.fromkeys(record.to for record in records):
            self._kept.bell.ring(at)
        return offsets

    async def end(self, at: TopicPartition) -> int:
        """See ``steepest.log.base.Log.end``.

        Raises:
            InputError: The log has no such partition.
        """
        return self._partition(at).end

    async def begin(self, at: TopicPartition) -> int:
        """See ``steepest.log.base.Log.begin``.

        Raises:
            InputError: The log has no such partition.
        """
        return self._partition(at).begin

    def trim(self, at: TopicPartition, before: int) -> None:
        """Remove the records below an offset, as retention does in Kafka."""
        partition = self._partition(at)
        del partition.records[: before - partition.begin]
        partition.begin = before

    async def sync(self, partitions: Iterable[TopicPartition]) -> None:
        """See ``steepest.log.base.Log.sync``: it does nothing, because memory is not durable."""

    async def partitions(self, topic: str) -> Sequence[TopicPartition]:
        """See ``steepest.log.base.Log.partitions``.

        Raises:
            InputError: The log has no such topic.
        """
        return self._kept.topics.of(topic)

    def reader(self, start: Mapping[TopicPartition, int]) -> LocalReader:
        """See ``steepest.log.base.Log.reader``.

        Raises:
            InputError: A partition that the log does not have, or a negative offset.
        """
        self._check_open()
        self._kept.topics.check_start(start)
        cursors = {at: _MemoryCursor(at, self._kept.partitions[at], offset) for at, offset in start.items()}
        return LocalReader(cursors, self._kept.bell)

    async def close(self) -> None:
        """Reject calls on this handle from now on; other handles and readers continue."""
        self._closed = True

    def _partition(self, at: TopicPartition) -> _Partition:
        self._check_open()
        self._kept.topics.check(at)
        return self._kept.partitions[at]

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailableError("this log was closed", hint="Open it again.")

    def _keep(self, record: NewRecord) -> int:
        partition = self._kept.partitions[record.to]
        offset = partition.end
        partition.records.append(
            Record(
                at=record.to,
                offset=offset,
                key=record.key,
                value=record.value,
                at_ms=record.at_ms,
                headers=dict(record.headers),
            )
        )
        return offset


class _MemoryCursor:
    def __init__(self, at: TopicPartition, partition: _Partition, offset: int) -> None:
        self._at = at
        self._partition = partition
        self._offset = offset

    async def seek(self) -> None:
        check_position(self._at, self._offset, self._partition.begin, self._partition.end)

    def take(self, limit: int) -> Sequence[Record]:
        first = self._offset - self._partition.begin
        taken = self._partition.records[first : first + limit]
        self._offset += len(taken)
        return taken

    def close(self) -> None:
        self._partition = _Partition()


class MemorySnapshots:
    """A ``SnapshotStore`` that lives as long as its process."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def save(self, key: str, data: bytes) -> None:
        """See ``SnapshotStore.save``."""
        file_name(key)
        self._kept[key] = data

    async def load(self, key: str) -> Sequence[bytes]:
        """See ``SnapshotStore.load``."""
        return [self._kept[key]] if key in self._kept else []

    async def keys(self) -> Sequence[str]:
        """See ``SnapshotStore.keys``."""
        return sorted(self._kept)
