"""The one interface of an ordered, partitioned log, and the records in it.

It owns what a log promises and no mechanism. It must never know what a record's value means. Every implementation passes
the suite in ``steepest.testing.contracts.log_contract``.

What every log promises:

* A partition is a sequence of records with offsets 0, 1, 2 …, without holes, that only grows. Its oldest records may be
  removed (on Kafka, by retention); the others keep their offsets.
* ``append`` returns once the records are kept; the records of one call that go to one partition stand next to each
  other, in the order given. A failed append raises; whether it took effect is then unknown.
* A reader sees every record of its partitions once, in order, from the offset that it asked for, and sees a record only
  after the append that wrote it has taken effect.
* Value, key, headers and time come back exactly as they were given, byte for byte, also where the value is no JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec


class TopicPartition(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """One partition of one topic."""

    topic: str
    partition: int = 0

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class NewRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record to append.

    Attributes:
        key: What orders it: records of one key are in one partition. May be empty.
        at_ms: When the thing was observed, milliseconds of the wall clock; readers see it as it is.
        headers: Names to values, both text.
    """

    to: TopicPartition
    key: str
    value: bytes
    at_ms: int
    headers: Mapping[str, str] = {}


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record as it stands in a log. It holds no cycles, so the collector of these need not look at each.

    Attributes:
        damage: Why the record cannot be trusted (its stored form does not match its checksum); empty when sound.
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
    """A position in each of some partitions, moved on by reading. Not for use by two tasks at once."""

    async def poll(self, *, max_records: int = 1000, timeout_s: float = 1.0) -> Sequence[Record]:
        """The next records, in order within each partition; none only where ``timeout_s`` seconds went by.

        Cancelling it loses nothing: the next call gives what this one would have given.

        Raises:
            LogUnavailableError: Nothing can be read now; the position has not moved.
            LogEpochError: The position is beyond the end: the log is not the one that was read before; or, with the code
                ``offset-missing``, the record at the position was removed.
            RecordingError: What is stored at the position can never be read.
        """

    async def close(self) -> None:
        """Let go of what the reader holds. It cannot be used afterwards."""


class Log(Protocol):
    """An ordered, partitioned log."""

    async def append(self, records: Sequence[NewRecord]) -> Sequence[int]:
        """Append records and give the offset of each.

        Raises:
            InputError: A record that no log can hold (an unknown partition, a size beyond 8 MiB); none of them is kept.
            LogUnavailableError: They are not kept, or it is not known whether they are.
        """

    async def end(self, at: TopicPartition) -> int:
        """The offset that the next record of the partition will get; 0 for a partition that nobody wrote to."""

    async def begin(self, at: TopicPartition) -> int:
        """The offset of the oldest record that is still there, or the end where none is; 0 unless some were removed."""

    async def sync(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait until all that stands in these partitions survives the machine's loss of power, where the log can tell.

        Raises:
            LogUnavailableError: It may not.
        """

    async def partitions(self, topic: str) -> Sequence[TopicPartition]:
        """The partitions of a topic, in order."""

    def reader(self, start: Mapping[TopicPartition, int]) -> Reader:
        """A reader of these partitions from these offsets on. It waits at an end for what comes."""

    async def close(self) -> None:
        """Flush what was appended and let go."""
