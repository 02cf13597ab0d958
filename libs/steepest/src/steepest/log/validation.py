"""The input validation of every log: unknown partitions, invalid records.

It owns the checks that logs share, so that the log in memory rejects what a file or a broker would reject. It must never
know how records are stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from steepest.errors import InputError, LogEpochError
from steepest.log.base import NewRecord, TopicPartition

LEGAL_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""Kafka's rule for topic names; such a name is also safe as a folder name."""

MAX_PARTITIONS = 10_000
"""Bound on the partitions of a log, far beyond any installation: each takes memory and a file."""

MAX_AT_MS = 2**63 - 1
"""Kafka stores a record's time in 64 bits, with a special meaning for negative numbers."""

MAX_RECORD_BYTES = 8 * 2**20
"""Bound on a record, far beyond any event, so that one record cannot fill the memory of its readers."""


class Topics:
    """The topics of one log, each with its number of partitions, which never changes."""

    def __init__(self, partitions: Mapping[str, int], *, source: str) -> None:
        """Validate the numbers of partitions.

        Args:
            partitions: Topic to number of partitions, at least 1 each and at most ``MAX_PARTITIONS`` in total.
            source: The log's name in messages.

        Raises:
            InputError: A topic name is invalid, a number is below 1, or the total is too high.
        """
        for topic, count in partitions.items():
            if not LEGAL_TOPIC.fullmatch(topic):
                raise InputError(
                    f"{source}: {topic[:300]!r} cannot be a topic",
                    code="bad-topic",
                    hint="Use 1 to 249 letters, digits, dots, dashes and underscores.",
                )
            if count < 1:
                raise InputError(
                    f"{source}: topic {topic} cannot have {count} partitions",
                    code="bad-topic",
                    hint="Use at least one.",
                )
        if (total := sum(partitions.values())) > MAX_PARTITIONS:
            raise InputError(
                f"{source}: it has {total} partitions, more than {MAX_PARTITIONS}",
                code="bad-topic",
                hint="Use fewer partitions; one is enough for thousands of records per second.",
            )
        self.source = source
        self.counts = dict(partitions)
        self._partitions = {
            topic: tuple(TopicPartition(topic, number) for number in range(count))
            for topic, count in partitions.items()
        }

    def of(self, topic: str) -> Sequence[TopicPartition]:
        """The partitions of a topic, in order.

        Raises:
            InputError: The log has no such topic.
        """
        found = self._partitions.get(topic)
        if found is None:
            raise self._unknown(topic)
        return found

    def all(self) -> Sequence[TopicPartition]:
        """Every partition, by topic in the order given."""
        return [at for partitions in self._partitions.values() for at in partitions]

    def check(self, at: TopicPartition) -> None:
        """Reject a partition that the log does not have.

        Raises:
            InputError: The log has no such partition.
        """
        if not 0 <= at.partition < self.counts.get(at.topic, 0):
            raise self._unknown(str(at))

    def check_start(self, start: Mapping[TopicPartition, int]) -> None:
        """Reject start positions that no reader can have.

        Raises:
            InputError: A partition that the log does not have, or a negative offset.
        """
        for at, offset in start.items():
            self.check(at)
            if offset < 0:
                raise InputError(f"{self.source}: {at} has no offset {offset}", hint="Start at 0 or later.")

    def check_records(self, records: Sequence[NewRecord]) -> None:
        """Reject records that some log could not store byte for byte, before any of them is stored.

        Raises:
            InputError: The log has no such partition, the record's text is not valid Unicode (a lone surrogate), its time
                does not fit in 63 bits, or it is larger than ``MAX_RECORD_BYTES``.
        """
        for to in dict.fromkeys(record.to for record in records):
            self.check(to)
        for record in records:
            self._check_record(record)

    def _check_record(self, record: NewRecord) -> None:
        if not 0 <= record.at_ms <= MAX_AT_MS:
            raise InputError(
                f"{self.source}: a record for {record.to} has the time {record.at_ms}",
                hint="Use milliseconds since 1970, not negative, in 63 bits.",
            )
        try:
            text = "".join((record.key, *record.headers, *record.headers.values()))
            size = len(record.value) + len(text.encode())
        except UnicodeEncodeError as error:
            raise InputError(
                f"{self.source}: key or headers of a record for {record.to} are not valid text: {error}",
                hint="Put bytes into the value; keys and headers are Unicode text.",
            ) from error
        if size > MAX_RECORD_BYTES:
            raise InputError(
                f"{self.source}: a record for {record.to} has {size} bytes, more than {MAX_RECORD_BYTES}",
                code="record-too-large",
                hint="Store large data in files, and their names in records.",
            )

    def _unknown(self, what: str) -> InputError:
        known = ", ".join(f"{topic} ({count})" for topic, count in self.counts.items()) or "no topics"
        return InputError(
            f"{self.source} has no {what}; it has {known}",
            code="unknown-partition",
            hint="Use one of its partitions, or create the log with this topic.",
        )


def check_position(at: TopicPartition, offset: int, begin: int, end: int) -> None:
    """Reject a position at which the partition has no record and will not get one.

    Raises:
        LogEpochError: The position is beyond the end, or the record at it was removed (``offset-missing``).
    """
    if offset < begin:
        raise LogEpochError(
            f"{at} no longer has offset {offset}: its oldest record is {begin}",
            code="offset-missing",
            hint="Raise the topic's retention; to continue, restore a snapshot, or start with new topics.",
        )
    if offset > end:
        raise LogEpochError(
            f"{at} ends at {end}, before the position {offset}",
            hint="The position belongs to another log: delete it with all state that was saved with it.",
        )
