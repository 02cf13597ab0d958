"""A record as a line of a recording, and back.

It owns the line's form (``docs/recordings.md``): JSON for people and jq, exact for machines. It must never know of
files, only of their names in messages.

A value that is JSON in one line stands in the line as it is, byte for byte; any other value stands in it as base64. The
last field, ``crc``, is the CRC-32 of all the bytes to the left of its comma, as 8 hexadecimal digits. It shows rot and
changes by hand; it is no protection from people who mean harm.
"""

from __future__ import annotations

import binascii
import re
import zlib
from collections.abc import Sequence

import msgspec

from steepest.errors import RecordingError
from steepest.log.base import NewRecord, Record, TopicPartition

MAX_LINE_BYTES = 64 * 2**20
"""No record makes a longer line: the door takes 8 MiB, and the worst text escapes to six times its size."""

MAX_DEPTH = 64
"""Deeper JSON values are kept as base64, because readers of JSON, ours and jq, nest only as deep as their stacks."""

CRC_FIELD = len(b',"crc":"01234567"}')

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKET = re.compile(rb"[\[\]{}]")


class _Line(msgspec.Struct, kw_only=True):
    topic: str
    partition: int
    offset: int
    key: str
    at_ms: int
    headers: dict[str, str]
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    value_base64: str | msgspec.UnsetType = msgspec.UNSET
    crc: str | msgspec.UnsetType = msgspec.UNSET


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


def encode_line(record: NewRecord, offset: int) -> bytes:
    """The record's line at this offset of its partition, with the line's end."""
    line = _Line(
        topic=record.to.topic,
        partition=record.to.partition,
        offset=offset,
        key=record.key,
        at_ms=record.at_ms,
        headers=dict(record.headers),
    )
    if _stands_in_a_line(record.value):
        line.value = msgspec.Raw(record.value)
    else:
        line.value_base64 = binascii.b2a_base64(record.value, newline=False).decode()
    body = _encode(line)[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))


def decode_line(line: bytes, at: TopicPartition, offset: int, source: object, first: int = 0) -> Record:
    """The record of a line, which is marked as damaged where it is not what was written.

    Args:
        line: Without its end.
        at: The partition that the file belongs to.
        offset: The offset that the line must hold.
        source: The file, for messages.
        first: The offset of the file's first line.

    Raises:
        RecordingError: The line is sound and holds another partition or offset: lines before it were lost or added.
    """
    try:
        found = _decode(line)
        value = _value(found)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        damage = f"{source}, line {offset - first + 1}: is no record: {error}"
        return Record(at=at, offset=offset, key="", value=line, at_ms=0, damage=damage)
    damage = ""
    if line[-CRC_FIELD:] != b',"crc":"%08x"}' % zlib.crc32(line[:-CRC_FIELD]):
        damage = (
            f"{source}, line {offset - first + 1}: does not match its checksum; it was changed after it was written"
        )
    elif found.offset != offset or found.partition != at.partition or found.topic != at.topic:
        raise RecordingError(
            f"{source}, line {offset - first + 1}: holds {found.topic}/{found.partition}@{found.offset}"
            f" where {at}@{offset} must stand: lines were lost, added or moved",
            hint="Restore the file, or cut it off before this line.",
        )
    return Record(
        at=at,
        offset=offset,
        key=found.key,
        value=value,
        at_ms=found.at_ms,
        headers=found.headers,
        damage=damage,
    )


def _value(line: _Line) -> bytes:
    if line.value is not msgspec.UNSET:
        return bytes(line.value)
    if line.value_base64 is msgspec.UNSET:
        raise ValueError("it has no value")
    return binascii.a2b_base64(line.value_base64, strict_mode=True)


def _stands_in_a_line(value: bytes) -> bool:
    if b"\n" in value or b"\r" in value:
        return False
    try:
        if not value.isascii():
            value.decode()  # the decoder skips over strings without a look at their bytes
        sound = bytes(_decode_raw(value)) == value  # not so where blanks stand around it
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return sound and (value.count(b"[") + value.count(b"{") <= MAX_DEPTH or _depth(value) <= MAX_DEPTH)


def _depth(value: bytes) -> int:
    depth = deepest = 0
    brackets: Sequence[bytes] = _BRACKET.findall(_STRING.sub(b"", value))
    for bracket in brackets:
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest
