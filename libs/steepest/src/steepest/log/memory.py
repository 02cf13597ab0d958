"""A log in the memory of one process: for tests, the simulator and the embedded system.

It owns the lists that hold the records. It must never differ from other logs in what it promises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steepest.errors import LogEpochError, LogUnavailableError
from steepest.log.base import NewRecord, Record, TopicPartition
from steepest.log.local import Bell, LocalReader
from steepest.log.topics import Topics


class _Kept:
    """What all handles on one log share."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.topics = Topics(partitions, source="the log in memory")
        self.records: dict[TopicPartition, list[Record]] = {at: [] for at in self.topics.all()}
        self.bell = Bell()


class MemoryLog:
    """A ``steepest.log.base.Log`` that lives as long as its process. All handles on it belong to one event loop."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        """Make an empty log.

        Args:
            partitions: Topic to number of partitions.

        Raises:
            InputError: A name that is no topic's, or a number of partitions below 1.
        """
        self._kept = _Kept(partitions)
        self._closed = False

    def reopen(self) -> MemoryLog:
        """Another handle on the same records, as one has who opens a log on disk again. Closing is by handle."""
        other = MemoryLog({})
        other._kept = self._kept
        return other

    async def append(self, records: Sequence[NewRecord]) -> Sequence[int]:
        """See ``steepest.log.base.Log.append``; all of the records or none.

        Raises:
            InputError: A record that no log can hold.
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
        self._check_open()
        self._kept.topics.check(at)
        return len(self._kept.records[at])

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
        cursors = {at: _MemoryCursor(at, self._kept.records[at], offset) for at, offset in start.items()}
        return LocalReader(cursors, self._kept.bell)

    async def close(self) -> None:
        """Refuse what comes through this handle from now on; other handles and readers go on."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailableError("this log was closed", mend="Open it again.")

    def _keep(self, record: NewRecord) -> int:
        partition = self._kept.records[record.to]
        partition.append(
            Record(
                at=record.to,
                offset=len(partition),
                key=record.key,
                value=record.value,
                at_ms=record.at_ms,
                headers=dict(record.headers),
            )
        )
        return len(partition) - 1


class _MemoryCursor:
    def __init__(self, at: TopicPartition, records: Sequence[Record], offset: int) -> None:
        self._at = at
        self._records = records
        self._offset = offset

    async def seek(self) -> None:
        if self._offset > len(self._records):
            raise LogEpochError(
                f"{self._at} ends at {len(self._records)}, before the position {self._offset}",
                mend="The position is of another log: drop it with all state that was kept with it.",
            )

    def take(self, limit: int) -> Sequence[Record]:
        taken = self._records[self._offset : self._offset + limit]
        self._offset += len(taken)
        return taken

    def close(self) -> None:
        self._records = ()
