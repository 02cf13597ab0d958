"""Which decisions are in the log already: read from the output partitions when a loop starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steepest.events.received import ID, LOGIC, TRUNCATIONS, DecisionId, is_number
from steepest.log.base import Log, Record, TopicPartition
from steepest.runtime.decision_stream import Found, StreamInLog


def _ignore(_unread: int) -> None:
    """For callers that report no progress."""


async def scan(log: Log, start: Mapping[TopicPartition, int], progress: Callable[[int], None] = _ignore) -> Found:
    """The newest decision of every stream in some partitions, from given offsets to the partitions' present ends.

    Args:
        log: Where they are.
        start: Offsets; what retention has removed behind them is left out.
        progress: Called after each poll with the number of records that are still to be read.
    """
    start = {at: max(offset, await log.begin(at)) for at, offset in start.items()}
    ends = {at: await log.end(at) for at in start}
    left = {at: None for at, end in ends.items() if start[at] < end}
    found: Found = {}
    if not left:
        return found
    reader = log.reader({at: start[at] for at in left})
    unread = sum(ends[at] - start[at] for at in left)
    try:
        while left:
            records = await reader.poll(max_records=10_000)
            unread -= len(records)
            progress(max(0, unread))
            for record in records:
                note(found, record)
                if record.offset + 1 >= ends[record.at]:
                    left.pop(record.at, None)
    finally:
        await reader.close()
    return found


def note(found: Found, record: Record) -> None:
    """Remember a record's decision, if it is one."""
    text = record.headers.get(ID)
    decision = DecisionId.parse(text) if text else None
    if decision is None:
        return
    one = found.setdefault((decision.stream, record.at), StreamInLog(decision, {}, record.at_ms))
    truncations = record.headers.get(TRUNCATIONS, "")
    one.versions[record.headers.get(LOGIC, ""), int(truncations) if is_number(truncations) else 0] = None
    if decision.position > one.newest.position:
        one.newest, one.at_ms = decision, record.at_ms


async def holds(log: Log, at: TopicPartition, cause: tuple[int, int | None]) -> bool:
    """Whether a partition still holds the record of that position and time; True of what retention has removed.

    It may not where the log has lost its newest records, and kept what was decided about them. Others get their positions.
    """
    offset, at_ms = cause
    if offset < await log.begin(at):
        return True
    if offset >= await log.end(at):
        return False
    reader = log.reader({at: offset})
    try:
        while not (records := await reader.poll(max_records=1)):
            pass
        return at_ms is None or records[0].at_ms == at_ms
    finally:
        await reader.close()


def epoch_in(found: Found, decider: str, source: TopicPartition) -> str:
    """The epoch of a partition, as the newest decisions of a decider name it; empty where there are none."""
    mine = (decider, source.topic, source.partition)
    decided = [one.newest for one in found.values()]
    epochs = [one.epoch for one in decided if (one.decider, one.topic, one.partition) == mine]
    return epochs[-1] if epochs else ""
