"""A record as a line of a recording, and back.

It owns the line's format (``docs/recordings.md``): JSON for people and jq, exact for machines. It must never know files,
except their names in messages.

A value that is JSON on one line is embedded unchanged, byte for byte; any other value is encoded as base64. The last field,
``crc``, is the CRC-32 of all bytes to the left of its comma, as 8 hexadecimal digits. It detects bit rot and manual
edits; it does not protect against an attacker.
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
"""No record makes a longer line: a record has at most 8 MiB, and escaping makes text at most six times longer."""

MAX_DEPTH = 64
"""Deeper JSON values are encoded as base64: JSON parsers, this one and jq, are limited by their stacks."""

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
    """The record's line at this offset of its partition, with its newline."""
    line = _Line(
        topic=record.to.topic,
        partition=record.to.partition,
        offset=offset,
        key=record.key,
        at_ms=record.at_ms,
        headers=dict(record.headers),
    )
    if _fits_in_a_line(record.value):
        line.value = msgspec.Raw(record.value)
    else:
        line.value_base64 = binascii.b2a_base64(record.value, newline=False).decode()
    body = _encode(line)[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))


def decode_line(line: bytes, at: TopicPartition, offset: int, source: object, first: int = 0) -> Record:
    """The record of a line; it is marked as damaged if it is not what was written.

    Args:
        line: The line without its newline.
        at: The partition that the file belongs to.
        offset: The offset that the line must have.
        source: The file, for messages.
        first: The offset of the file's first line.

    Raises:
        RecordingError: The line is intact but has another partition or offset: lines before it were lost or added.
    """
    try:
        found = _decode(line)
        value = _value(found)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        damage = f"{source}, line {offset - first + 1}: is not a record: {error}"
        return Record(at=at, offset=offset, key="", value=line, at_ms=0, damage=damage)
    damage = ""
    if line[-CRC_FIELD:] != b',"crc":"%08x"}' % zlib.crc32(line[:-CRC_FIELD]):
        damage = (
            f"{source}, line {offset - first + 1}: does not match its checksum; it was modified after it was written"
        )
    elif found.offset != offset or found.partition != at.partition or found.topic != at.topic:
        raise RecordingError(
            f"{source}, line {offset - first + 1}: has {found.topic}/{found.partition}@{found.offset}"
            f" instead of {at}@{offset}: lines were lost, added or moved",
            hint="Restore the file, or truncate it before this line.",
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


def _fits_in_a_line(value: bytes) -> bool:
    if b"\n" in value or b"\r" in value:
        return False
    try:
        if not value.isascii():
            value.decode()  # msgspec.Raw does not validate the UTF-8 of strings
        sound = bytes(_decode_raw(value)) == value  # False if blanks surround it
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
