"""A pool's log, folded up to a position: what every look at its past does."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from steepest.errors import UndecodableError
from steepest.events.received import Received
from steepest.log.base import Log, Record, TopicPartition
from steepest.runtime.decode import received
from steepest.view.cluster_view import ClusterView

AT_ONCE = 100
"""Others are answered between two batches."""


class FoldedRecord(msgspec.Struct, frozen=True):
    """A record that a view has passed.

    Attributes:
        event: None where it cannot be read.
        accepted: Whether it counts.
    """

    record: Record
    event: Received[Any] | None = None
    accepted: bool = False


async def folded(log: Log, at: TopicPartition, view: ClusterView, until: int) -> AsyncGenerator[FoldedRecord, None]:
    """Fold the records from where a view stands to before this offset, and give each once it is folded.

    Raises:
        LogError: The log cannot be read.
    """
    if view.position >= until:
        return
    reader = log.reader({at: view.position})
    try:
        while view.position < until:
            for record in await reader.poll(max_records=min(AT_ONCE, until - view.position)):
                try:
                    event = received(record)
                except UndecodableError:
                    view.skip(record.offset)
                    yield FoldedRecord(record)
                else:
                    yield FoldedRecord(record, event, view.fold(event))
    finally:
        await reader.close()
