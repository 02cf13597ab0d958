"""Whether a log still holds a snapshot's records: checksums of the last records before a position.

A log that is not synced record by record may lose its newest records with the machine's power, and others may append in
their place before the process that kept a snapshot starts again. The position alone does not show it; the records
before it do. Some records are looked at, and not only the last, because a decision that is made again is the same after
any records.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

import msgspec

from steepest.errors import LogEpochError
from steepest.log.base import Log, Record, TopicPartition

RECORDS = 100
"""How many are looked at: more than one cause makes, but in the largest pools."""


Positions = Mapping[TopicPartition, int]


class Mark(msgspec.Struct, frozen=True):
    """Checksums of the records before a position.

    Attributes:
        crcs: CRC-32 of each record, the newest last; fewer where there are fewer.
    """

    at: TopicPartition
    position: int
    crcs: tuple[int, ...]


async def marks(log: Log, positions: Positions) -> tuple[Mark, ...]:
    """Checksums of the records before these positions. No position may be beyond its partition's end.

    Raises:
        LogUnavailableError: The log gives nothing now.
    """
    while True:
        starts = {at: max(await log.begin(at), position - RECORDS) for at, position in positions.items()}
        try:
            return await _marks_from(log, starts, positions)
        except LogEpochError:
            # Retention may remove records between the question where the log begins and the first read.
            if all([await log.begin(at) <= start for at, start in starts.items()]):
                raise


async def _marks_from(log: Log, starts: Positions, positions: Positions) -> tuple[Mark, ...]:
    crcs: dict[TopicPartition, list[int]] = {at: [] for at in positions}
    left = {at: position for at, position in positions.items() if starts[at] < position}
    reader = log.reader({at: starts[at] for at in left})
    try:
        while left:
            for record in await reader.poll():
                at, offset = record.at, record.offset
                position = left.get(at, 0)
                if offset < position:
                    crcs[at].append(_crc(record))
                if offset + 1 >= position:
                    left.pop(at, None)
    finally:
        await reader.close()
    return tuple(Mark(at, position, tuple(crcs[at])) for at, position in positions.items())


async def why_not(log: Log, before: Iterable[Mark]) -> str:
    """Why the log lacks the records of these marks; empty if it has them. Records removed by retention do not count.

    Raises:
        LogUnavailableError: The log gives nothing now.
    """
    then = {mark.at: mark for mark in before}
    for at, mark in then.items():
        if (end := await log.end(at)) < mark.position:
            return f"{at} ends at {end}, and stood at {mark.position}"
    for now in await marks(log, {at: mark.position for at, mark in then.items()}):
        kept = len(now.crcs)
        if kept and now.crcs != then[now.at].crcs[-kept:]:
            return f"{now.at} holds other records before {now.position}"
    return ""


def _crc(record: Record) -> int:
    return zlib.crc32(msgspec.msgpack.encode((record.key, record.at_ms, record.headers, record.value)))
