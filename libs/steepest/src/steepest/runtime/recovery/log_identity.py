"""Which log this is: the random epoch in the first record of every partition.

It owns giving it and asking for it. Ids, positions and snapshots contain the epoch, so that those of one log are never
taken for another's. Once retention has removed the first record, the log no longer names its epoch: then a snapshot
names it, or without a snapshot the newest decision about the partition.
"""

from __future__ import annotations

import os

from steepest.clock import Clock
from steepest.errors import LogEpochError, UndecodableError
from steepest.events.cluster import LogOpened
from steepest.log.base import Log, TopicPartition
from steepest.runtime.decode import new_record, received
from steepest.runtime.layout import Layout


async def open_partitions(log: Log, layout: Layout, clock: Clock) -> None:
    """Give every partition that is still empty its identity. Where several processes begin together, the first one's counts.

    Raises:
        LogUnavailableError: The log takes or gives nothing now.
    """
    empty = [at for topic in layout.partitions() for at in layout.of_topic(topic) if await log.end(at) == 0]
    opened = [new_record(at, "", LogOpened(epoch=os.urandom(8).hex()), clock.now_ms()) for at in empty]
    if opened:
        await log.append(opened)


async def check_epoch(log: Log, at: TopicPartition, epoch: str) -> None:
    """Refuse to continue from a position in another log.

    Raises:
        LogEpochError: The partition's first record names another epoch than ``epoch``, which may be empty for any.
    """
    if not epoch:
        return
    now = await epoch_of(log, at)
    if now and now != epoch:
        raise LogEpochError(
            f"{at} is {now} now, and was {epoch}",
            hint="start with an empty state folder, or point at the log of before",
        )


async def epoch_of(log: Log, at: TopicPartition) -> str:
    """The epoch in a partition's first record; empty where there is none, it cannot be read, or it was removed."""
    if await log.end(at) == 0:
        return ""
    reader = log.reader({at: 0})
    try:
        while not (records := await reader.poll(max_records=1)):
            pass
        event = received(records[0]).event
    except (UndecodableError, LogEpochError):
        return ""
    finally:
        await reader.close()
    return event.epoch if isinstance(event, LogOpened) else ""


def check_opening(opened: LogOpened, epoch: str) -> None:
    """Pass over an opening that another process has appended behind the one that counts.

    Raises:
        UndecodableError: The log is ``epoch`` already; empty: it is not known yet.
    """
    if epoch and opened.epoch != epoch:
        raise UndecodableError(f"it opens a log again that is {epoch} already, as {opened.epoch}", code="opened-again")
