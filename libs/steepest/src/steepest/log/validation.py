"""What every log of this package refuses at its door: partitions that it does not have, records that no log can hold.

It owns the checks that logs share, so that memory refuses what a file or a broker would refuse. It must never know
how records are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from steepest.errors import InputError, LogEpochError
from steepest.log.base import NewRecord, TopicPartition

LEGAL_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""What Kafka takes as the name of a topic; safe as a folder's name as well."""

MAX_PARTITIONS = 10_000
"""Of all topics of a log together: far beyond any installation; a bound, because each takes memory and a file."""

MAX_AT_MS = 2**63 - 1
"""Kafka keeps a record's time in 64 bits, and gives negative numbers a meaning of their own."""

MAX_RECORD_BYTES = 8 * 2**20
"""Far beyond any event; a bound, so that one record cannot fill the memory of all who read it."""


class Topics:
    """The topics of one log, each with its number of partitions, which never changes."""

    def __init__(self, partitions: Mapping[str, int], *, source: str) -> None:
        """Take the numbers of partitions.

        Args:
            partitions: Topic to number of partitions, at least 1; ``MAX_PARTITIONS`` in all.
            source: What people call the log, for messages.

        Raises:
            InputError: A name that is no topic's, a number below 1, or too many in all.
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
                    hint="Give it at least one.",
                )
        if (total := sum(partitions.values())) > MAX_PARTITIONS:
            raise InputError(
                f"{source}: its partitions are {total}, more than {MAX_PARTITIONS}",
                code="bad-topic",
                hint="Use fewer partitions; one is enough for thousands of records a second.",
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
        """Refuse a partition that the log does not have.

        Raises:
            InputError: It has not.
        """
        if not 0 <= at.partition < self.counts.get(at.topic, 0):
            raise self._unknown(str(at))

    def check_start(self, start: Mapping[TopicPartition, int]) -> None:
        """Refuse what no reader can start from.

        Raises:
            InputError: A partition that the log does not have, or a negative offset.
        """
        for at, offset in start.items():
            self.check(at)
            if offset < 0:
                raise InputError(f"{self.source}: {at} has no offset {offset}", hint="Start at 0 or later.")

    def check_records(self, records: Sequence[NewRecord]) -> None:
        """Refuse what cannot be kept byte for byte in every log, before anything of it is kept.

        Raises:
            InputError: The record's partition is not the log's, its text is no Unicode text (a lone surrogate), its
                time is not in 63 bits, or it is larger than ``MAX_RECORD_BYTES``.
        """
        for to in dict.fromkeys(record.to for record in records):
            self.check(to)
        for record in records:
            self._check_record(record)

    def _check_record(self, record: NewRecord) -> None:
        if not 0 <= record.at_ms <= MAX_AT_MS:
            raise InputError(
                f"{self.source}: a record for {record.to} has the time {record.at_ms}",
                hint="Give milliseconds since 1970, not negative, in 63 bits.",
            )
        try:
            text = "".join((record.key, *record.headers, *record.headers.values()))
            size = len(record.value) + len(text.encode())
        except UnicodeEncodeError as error:
            raise InputError(
                f"{self.source}: key or headers of a record for {record.to} are no text: {error}",
                hint="Keep bytes in the value; keys and headers are Unicode text.",
            ) from error
        if size > MAX_RECORD_BYTES:
            raise InputError(
                f"{self.source}: a record for {record.to} has {size} bytes, more than {MAX_RECORD_BYTES}",
                code="record-too-large",
                hint="Keep large things in files, and their names in records.",
            )

    def _unknown(self, what: str) -> InputError:
        known = ", ".join(f"{topic} ({count})" for topic, count in self.counts.items()) or "no topics"
        return InputError(
            f"{self.source} has no {what}; it has {known}",
            code="unknown-partition",
            hint="Use one of its partitions, or make the log with this topic.",
        )


def check_position(at: TopicPartition, offset: int, begin: int, end: int) -> None:
    """Refuse to read a partition from where it has no record and will get none.

    Raises:
        LogEpochError: The position is beyond the end, or the record at it was removed (``offset-missing``).
    """
    if offset < begin:
        raise LogEpochError(
            f"{at} has no offset {offset} any more: it is kept from {begin} on",
            code="offset-missing",
            hint="Raise the topic's retention; to go on, restore a snapshot, or begin with new topics.",
        )
    if offset > end:
        raise LogEpochError(
            f"{at} ends at {end}, before the position {offset}",
            hint="The position is of another log: drop it with all state that was kept with it.",
        )
