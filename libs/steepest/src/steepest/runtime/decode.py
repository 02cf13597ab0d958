"""Records to events and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from steepest.errors import UndecodableError
from steepest.events.received import Received
from steepest.events.registry import TOPICS, encode
from steepest.log.base import NewRecord, Record, TopicPartition


def received(record: Record) -> Received[Any]:
    """The event in a record.

    Raises:
        UndecodableError: There is none, or the record is damaged.
    """
    if record.damage:
        raise UndecodableError(record.damage, code="damaged")
    at = record.at
    return Received(
        event=TOPICS[at.topic].decode(record.value),
        topic=at.topic,
        partition=at.partition,
        offset=record.offset,
        at_ms=record.at_ms,
        key=record.key,
        headers=record.headers,
    )


def new_record(
    to: TopicPartition, key: str, event: msgspec.Struct, at_ms: int, headers: Mapping[str, str] | None = None
) -> NewRecord:
    """An event as a record to append."""
    return NewRecord(to=to, key=key, value=encode(event), at_ms=at_ms, headers=headers or {})
