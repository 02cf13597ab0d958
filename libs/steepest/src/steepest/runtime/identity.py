"""Which log this is: the random epoch in the first record of every partition.

It owns giving it and asking for it. Ids, positions and snapshots contain the epoch, so that those of one log are never
taken for another's.
"""

from __future__ import annotations

import secrets

from steepest.clock import Clock
from steepest.errors import LogEpochError, UndecodableError
from steepest.events.cluster import LogOpened
from steepest.log.base import Log, TopicPartition
from steepest.runtime.decode import new_record, received
from steepest.runtime.layout import Layout


async def open_partitions(log: Log, layout: Layout, clock: Clock) -> None:
    """Give every partition that is still empty its identity. Where several processes begin at once, one at a time may do so.

    Raises:
        LogUnavailableError: The log takes or gives nothing now.
    """
    empty = [at for topic in layout.partitions() for at in layout.of_topic(topic) if await log.end(at) == 0]
    opened = [new_record(at, "", LogOpened(epoch=secrets.token_hex(8)), clock.now_ms()) for at in empty]
    if opened:
        await log.append(opened)


async def check_epoch(log: Log, at: TopicPartition, epoch: str) -> None:
    """Refuse to go on from a position that was kept of another log.

    Raises:
        LogEpochError: The partition's first record names another epoch than ``epoch``, which may be empty for any.
    """
    if not epoch or await log.end(at) == 0:
        return
    now = await _epoch(log, at)
    if now and now != epoch:
        raise LogEpochError(
            f"{at} is {now} now, and was {epoch}",
            mend="start with an empty state folder, or point at the log of before",
        )


async def _epoch(log: Log, at: TopicPartition) -> str:
    """The epoch in a partition's first record; empty where that cannot be read, or was dropped by age."""
    reader = log.reader({at: 0})
    try:
        records = await reader.poll(max_records=1)
        event = received(records[0]).event if records and records[0].offset == 0 else None
    except UndecodableError:
        return ""
    finally:
        await reader.close()
    return event.epoch if isinstance(event, LogOpened) else ""
