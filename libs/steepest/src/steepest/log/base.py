"""The interface of an ordered, partitioned log, and its records.

It owns the guarantees of a log and no mechanism. It must never know what a record's value means. Every implementation passes
the suite in ``tests/harness/contracts``.

Every log guarantees:

* A partition is a sequence of records with offsets 0, 1, 2 …, without holes, that only grows. Its oldest records may be
  removed (on Kafka, by retention); the others keep their offsets.
* ``append`` returns once the records are stored; the records of one call for one partition are adjacent, in the order
  given. A failed append raises; whether it took effect is then unknown.
* A reader sees every record of its partitions once, in order, from the offset that it asked for, and sees a record only
  after the append that wrote it has taken effect.
* Value, key, headers and time come back exactly as they were appended, byte for byte, even if the value is not JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

DAY_MS = 86_400_000
RETENTION_MS: Mapping[str, int] = {"loss": 30 * DAY_MS, "heartbeats": 7 * DAY_MS, "dead-letters": 90 * DAY_MS}
"""How long records of a topic are kept, unless it is set. A pool's log is its source of truth and is kept; records of other
topics are kept much longer than their oldest snapshot needs."""


class TopicPartition(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """One partition of one topic."""

    topic: str
    partition: int = 0

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class NewRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record to append.

    Attributes:
        key: The partitioning key: records of one key are in one partition. May be empty.
        at_ms: When the event was observed, in milliseconds of the wall clock; readers see it unchanged.
        headers: Names to values, both text.
    """

    to: TopicPartition
    key: str
    value: bytes
    at_ms: int
    headers: Mapping[str, str] = {}


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record of a log. It contains no reference cycles, so it is excluded from garbage collection (``gc=False``).

    Attributes:
        damage: Why the record cannot be trusted (its stored form does not match its checksum); empty if it is intact.
    """

    at: TopicPartition
    offset: int
    key: str
    value: bytes
    at_ms: int
    headers: Mapping[str, str] = {}
    damage: str = ""

    def __str__(self) -> str:
        return f"{self.at}@{self.offset}"


class Reader(Protocol):
    """A position in each of some partitions, advanced by reading. Not for concurrent use by two tasks."""

    async def poll(self, *, max_records: int = 1000, timeout_s: float = 1.0) -> Sequence[Record]:
        """The next records, in order within each partition; empty only after ``timeout_s`` seconds.

        Cancelling it loses nothing: the next call returns what this one would have returned.

        Raises:
            LogUnavailableError: Nothing can be read now; the position has not moved.
            LogEpochError: The position is beyond the end, so this is not the log that was read before; or, with code
                ``offset-missing``, the record at the position was removed.
            RecordingError: The stored record at the position cannot be read, now or later.
        """

    async def close(self) -> None:
        """Release the reader's resources. It cannot be used afterwards."""


class Log(Protocol):
    """An ordered, partitioned log."""

    async def append(self, records: Sequence[NewRecord]) -> Sequence[int]:
        """Append records and return the offset of each.

        Raises:
            InputError: A record is invalid (an unknown partition, a size beyond 8 MiB); none of them is stored.
            LogUnavailableError: They are not stored, or it is not known whether they are.
        """

    async def end(self, at: TopicPartition) -> int:
        """The offset that the next record of the partition will get; 0 for a partition that was never written to."""

    async def begin(self, at: TopicPartition) -> int:
        """The offset of the oldest record that still exists, or the end if there is none; 0 unless some were removed."""

    async def sync(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait until all records of these partitions would survive a power loss, if the log can ensure that.

        Raises:
            LogUnavailableError: They may not survive.
        """

    async def partitions(self, topic: str) -> Sequence[TopicPartition]:
        """The partitions of a topic, in order."""

    def reader(self, start: Mapping[TopicPartition, int]) -> Reader:
        """A reader of these partitions from these offsets on. At the end of a partition it waits for new records."""

    async def close(self) -> None:
        """Flush appended records and release all resources."""
