"""A recording fed to a live system: what came from outside, at the pace at which it came or faster.

It owns what is fed and when. Decisions and outcomes of the recording are left out: the system that is fed makes its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from steepest.clock import Clock
from steepest.errors import UndecodableError
from steepest.events.cluster import JobCancelRequested, JobSubmitted, LogOpened, PoolConfigured
from steepest.events.registry import BY_POOL
from steepest.log.base import Log, NewRecord, Record
from steepest.runtime.decode import received
from steepest.runtime.layout import Layout

FROM_OUTSIDE = (PoolConfigured, JobSubmitted, JobCancelRequested)
"""Events that people write to ``cluster``. All records of the other topics come from outside."""

TOPICS = ("cluster", "loss", "heartbeats")

BATCH_S = 0.05
"""Records that are due within this time go together."""


async def feed(recording: Log, into: Log, layout: Layout, clock: Clock, speed: float) -> AsyncIterator[int]:
    """Append what came from outside, with times moved to now; give the number fed after each batch.

    Args:
        recording: Where it is read.
        into: The log of the system that is fed.
        layout: The partitions of that log.
        clock: Paces it.
        speed: How many times faster than it was.

    Raises:
        LogUnavailableError: The system's log takes nothing.
    """
    records = sorted(
        [one for topic in TOPICS for one in await _from_outside(recording, topic)], key=lambda one: one.at_ms
    )
    if not records:
        return
    first_ms, start_ms, began = records[0].at_ms, clock.now_ms(), clock.monotonic()
    fed, position = 0, 0
    while position < len(records):
        passed_s = clock.monotonic() - began
        due: list[NewRecord] = []
        while position < len(records) and _due_s(records[position], first_ms, speed) <= passed_s:
            at_ms = start_ms + round(1000 * _due_s(records[position], first_ms, speed))
            due.append(_moved(records[position], layout, at_ms))
            position += 1
        if due:
            await into.append(due)
            fed += len(due)
            yield fed
        await clock.sleep(BATCH_S)


def _due_s(record: Record, first_ms: int, speed: float) -> float:
    return (record.at_ms - first_ms) / 1000 / speed


def _moved(record: Record, layout: Layout, at_ms: int) -> NewRecord:
    to = record.at if record.at.topic in BY_POOL else layout.of_key(record.at.topic, record.key)
    return NewRecord(to=to, key=record.key, value=record.value, at_ms=at_ms, headers=record.headers)


async def _from_outside(recording: Log, topic: str) -> Sequence[Record]:
    found = []
    for at in await recording.partitions(topic):
        end, position = await recording.end(at), 0
        reader = recording.reader({at: 0})
        while position < end:
            for one in await reader.poll():
                position = one.offset + 1
                if _is_from_outside(one):
                    found.append(one)
        await reader.close()
    return found


def _is_from_outside(record: Record) -> bool:
    """An undecodable record came from outside as well, and is fed as it was."""
    try:
        event: msgspec.Struct = received(record).event
    except UndecodableError:
        return not record.damage
    return not isinstance(event, LogOpened) and (record.at.topic != "cluster" or isinstance(event, FROM_OUTSIDE))
