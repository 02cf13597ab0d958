"""Dead letters: each unreadable record is reported once, with its position and the reason. The reader continues.

It owns the letter's size and id. Every process that meets the same record writes the same letter under the same id, so a
reader of letters counts it once; and a process that starts again does not write a letter that is there.
"""

from __future__ import annotations

from collections.abc import Mapping

from steepest.errors import UndecodableError
from steepest.events.dead_letter import DeadLetter
from steepest.events.received import ID
from steepest.log.base import NewRecord, Record, TopicPartition
from steepest.logger import Logger
from steepest.runtime.decision_stream import Found, decision_id
from steepest.runtime.decode import new_record
from steepest.runtime.layout import DEAD_LETTERS
from steepest.runtime.monitoring.metric_defs import Metrics

logger = Logger()

WRITER = "reader"
"""Name in the place of the decider in a letter's id."""

DEAD_LETTER_BYTES = 64 * 1024
"""A letter keeps this much of its record's value, key and headers."""


class DeadLetters:
    """The letters of one loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._found: Found = {}

    def fence(self, found: Found) -> None:
        """Do not write a letter that is in the topic."""
        self._found = {key: one for key, one in found.items() if one.newest.decider == WRITER}

    def about(self, record: Record, error: UndecodableError, epoch: str) -> list[NewRecord]:
        """The letter about a record that could not be read; none where it was written before."""
        letter = decision_id(WRITER, epoch, record.at, record.offset)
        found = self._found.get((letter.stream, DEAD_LETTERS))
        if found is not None and letter.position <= found.newest.position:
            return []
        self._metrics.dead_letters.labels(record.at.topic).inc()
        logger.warning("dead letter", record=str(record), why=str(error))
        return [_letter(record, error, {ID: str(letter)})]

    def passed(self, at: TopicPartition, position: int) -> bool:
        """Whether no letter was found about that position of a partition, or one beyond it."""
        return all(
            (one.newest.topic, one.newest.partition) != (at.topic, at.partition) or one.newest.offset < position
            for one in self._found.values()
        )


def _letter(record: Record, error: UndecodableError, headers: Mapping[str, str]) -> NewRecord:
    letter = DeadLetter(
        topic=record.at.topic,
        partition=record.at.partition,
        offset=record.offset,
        key=record.key[:DEAD_LETTER_BYTES],
        headers=_first(record.headers, DEAD_LETTER_BYTES),
        reason=str(error)[:2000],
        value=record.value[:DEAD_LETTER_BYTES],
    )
    return new_record(DEAD_LETTERS, record.at.topic, letter, record.at_ms, headers)


def _first(headers: Mapping[str, str], size: int) -> dict[str, str]:
    """The first headers, as many as fit."""
    kept: dict[str, str] = {}
    for name, text in headers.items():
        size -= len(name) + len(text)
        if size < 0:
            break
        kept[name] = text
    return kept
