"""Topics copied to a recording: same partitions, same offsets, same bytes.

It owns copying and going on where a recording ends. It must never know what a record's value means.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from steepest.errors import InputError, LogEpochError
from steepest.log.base import Log, NewRecord, Record, TopicPartition
from steepest.log.file import FileLog


async def record(source: Log, into: FileLog, *, follow: bool = False) -> AsyncIterator[int]:
    """Copy what is in the source's topics beyond what the recording has; give the number copied after each batch.

    Args:
        source: Any log that has the recording's topics.
        into: The recording; it may be new, or one of the same log that ends earlier.
        follow: Go on with what comes, for ever.

    Raises:
        InputError: The recording is of another log, or the source does not have the records any more that come next.
        LogUnavailableError: The source gives nothing, or the recording takes nothing.
    """
    partitions = [at for topic in into.topics for at in await into.partitions(topic)]
    start = {at: await into.end(at) for at in partitions}
    ends = {at: await source.end(at) for at in partitions}
    await _check_same(source, into, start)
    copied, left = 0, {at for at in partitions if start[at] < ends[at]}
    reader = source.reader(start)
    try:
        while left or follow:
            records = await reader.poll()
            _check_next(records, start)
            await into.append([as_new(one) for one in records])
            left -= {at for at in left if start[at] >= ends[at]}
            copied += len(records)
            yield copied
    except LogEpochError as error:
        raise InputError(f"nothing can be recorded from here: {error}", mend=error.mend) from error
    finally:
        await reader.close()


def as_new(record: Record) -> NewRecord:
    """A record as it was appended."""
    return NewRecord(to=record.at, key=record.key, value=record.value, at_ms=record.at_ms, headers=record.headers)


def _check_next(records: Sequence[Record], start: dict[TopicPartition, int]) -> None:
    """A recording counts its records; one with a hole would give all that follow another offset."""
    for one in records:
        if one.offset != start[one.at]:
            raise InputError(f"{one.at} has no record {start[one.at]}: the next one is {one.offset}", code="hole")
        start[one.at] = one.offset + 1


async def _check_same(source: Log, into: FileLog, start: Mapping[TopicPartition, int]) -> None:
    """The first record of a partition is its identity."""
    for at in (at for at, position in start.items() if position):
        first = [await _first(log, at) for log in (source, into)]
        if as_new(first[0]) != as_new(first[1]):
            raise InputError(
                f"{into.folder} is a recording of another log: {at} begins otherwise", mend="record to a new folder"
            )


async def _first(log: Log, at: TopicPartition) -> Record:
    reader = log.reader({at: 0})
    try:
        while True:
            for one in await reader.poll(max_records=1):
                return one
    finally:
        await reader.close()
