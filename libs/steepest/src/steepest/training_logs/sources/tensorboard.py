"""Follows TensorBoard's event files: frames of nested protobuf messages.

It owns the framing (TFRecord: length, checksum, payload, checksum), the few fields that a scalar needs, and the check of the
checksums. It must never hold more than one frame in memory: images and graphs, which may be large, are skipped.

Fields, from TensorFlow's ``event.proto``, ``summary.proto`` and ``tensor.proto``: Event{2: step, 5: Summary{1: Value{1:
tag, 2: simple_value, 8: tensor}}}; Tensor{1: type, 4: content, 5: floats, 6: doubles}.
"""

import struct
from collections.abc import Iterator
from functools import cache

from steepest.training_logs.ledger import MetricSeries, Position, Reading, to_records
from steepest.training_logs.records import LossRecord, Split
from steepest.training_logs.syntax.words import is_reported, plain, role_of

FORMAT_NAME = "tensorboard"

MAX_FRAME_BYTES = 64 << 10
"""A frame of scalars has a few hundred bytes; a longer one is skipped without buffering it."""

_LENGTH = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TYPES = {1: "<f", 2: "<d", 19: "<e"}
"""TensorFlow's DT_FLOAT, DT_DOUBLE and DT_HALF as ``struct`` formats."""


class EventReader:
    """Reads scalars from the bytes of one event file.

    Args:
        metric: report only this tag; None: every loss and every held-out quality.
        split: the split that the file's folder implies (Keras writes to ``train`` and ``validation``); a tag overrides it.
    """

    def __init__(self, metric: str | None = None, *, split: Split | None = None) -> None:
        self._offset, self._frame = 0, 1  # of the first frame that has not been read completely, and its number
        self._passing = 0  # bytes still to be skipped, of a frame that was too long
        self._broken = 0
        self._lanes: dict[str, MetricSeries] = {}
        self._wanted = None if metric is None else plain(metric)
        self._split = split
        self._buffer = b""
        self._lost = False

    @property
    def metrics(self) -> int:
        """Number of metrics tracked."""
        return len(self._lanes)

    @property
    def broken_frames(self) -> int:
        """Number of frames with a wrong checksum; after a wrong length the rest of the file cannot be read."""
        return self._broken

    def feed(self, chunk: bytes) -> list[LossRecord]:
        """Takes the file's next bytes, split anywhere; returns the records of the frames that they complete."""
        records: list[LossRecord] = []
        for payload in self._frames(chunk):
            found = [one for one in scalars(payload, self._split) if self._is_kept(one)]
            for index, one in enumerate(found):
                place = (self._frame - 1, self._offset, index)
                records += to_records(self._lanes, one, place, FORMAT_NAME)
        return records

    def close(self) -> list[LossRecord]:
        """Ends the file: an incomplete frame is dropped."""
        return []

    def _is_kept(self, found: Reading) -> bool:
        return is_reported(role_of(found.metric), found.split, self._wanted)

    def _frames(self, chunk: bytes) -> Iterator[bytes]:
        if self._lost:
            return
        self._buffer += self._pass_over(chunk)
        while len(self._buffer) >= _LENGTH.size:
            length, checksum = _LENGTH.unpack_from(self._buffer)
            if masked_crc32c(self._buffer[:8]) != checksum:
                self._broken += 1
                self._lost, self._buffer = True, b""
                return
            size = _LENGTH.size + length + _CHECKSUM.size
            if length > MAX_FRAME_BYTES:
                self._begin_passing(size)
            elif len(self._buffer) < size:
                return
            else:
                payload = self._buffer[_LENGTH.size : _LENGTH.size + length]
                checksum = _CHECKSUM.unpack_from(self._buffer, size - _CHECKSUM.size)[0]
                self._advance(size)
                yield from self._checked(payload, checksum)

    def _checked(self, payload: bytes, checksum: int) -> Iterator[bytes]:
        if masked_crc32c(payload) == checksum:
            yield payload
        else:
            self._broken += 1

    def _advance(self, size: int) -> None:
        self._buffer = self._buffer[size:]
        self._offset += size
        self._frame += 1

    def _begin_passing(self, size: int) -> None:
        rest, self._buffer = self._buffer, b""
        self._passing = size
        self._frame += 1
        self._buffer = self._pass_over(rest)

    def _pass_over(self, chunk: bytes) -> bytes:
        passed = min(self._passing, len(chunk))
        self._passing -= passed
        self._offset += passed
        return chunk[passed:]


def scalars(payload: bytes, folder_split: Split | None = None) -> list[Reading]:
    """The scalars of one event; a malformed payload has none."""
    step, found = 0, []
    try:
        for number, value in _fields(payload):
            if number == 2 and isinstance(value, int):
                step = value if value < 1 << 63 else value - (1 << 64)
            elif number == 5 and isinstance(value, bytes):
                found += [_scalar(one) for key, one in _fields(value) if key == 1 and isinstance(one, bytes)]
    except (ValueError, IndexError, struct.error):
        return []
    at = Position(step, (step,))
    taken = []
    for one in found:
        if one is not None:
            name = role_of(one[0].decode("utf-8", "replace"))
            taken.append(Reading(name.metric, one[1], name.split or folder_split or "train", at))
    return taken


def _scalar(message: bytes) -> tuple[bytes, float] | None:
    tag, value = b"", None
    for number, field in _fields(message):
        if number == 1 and isinstance(field, bytes):
            tag = field[:200]
        elif number == 2 and isinstance(field, float):
            value = field
        elif number == 8 and isinstance(field, bytes):
            value = _tensor(field)
    return None if value is None or not tag else (tag, value)


def _tensor(message: bytes) -> float | None:
    fields = dict(_fields(message))
    kind = fields.get(1)
    layout = _TYPES.get(kind) if isinstance(kind, int) else None
    if layout is None:
        return None
    for content in (fields.get(4), fields.get(5), fields.get(6)):
        if isinstance(content, float):
            return content
        if isinstance(content, bytes) and len(content) == struct.calcsize(layout):
            return float(struct.unpack(layout, content)[0])
    return None


def _fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Iterates over a message's fields in protobuf's wire format.

    Raises:
        ValueError: The bytes are not a message.
        IndexError: They end within a field.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        value: int | float | bytes
        if kind == _VARINT:
            value, at = _varint(message, at)
        elif kind == _FIXED64:
            (value,), at = struct.unpack_from("<d", message, at), at + 8
        elif kind == _FIXED32:
            (value,), at = struct.unpack_from("<f", message, at), at + 4
        elif kind == _BYTES:
            length, at = _varint(message, at)
            if at + length > len(message):
                raise ValueError("a field extends beyond its message")
            value, at = message[at : at + length], at + length
        else:
            raise ValueError(f"wire type {kind} is not in use")
        yield key >> 3, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def masked_crc32c(data: bytes) -> int:
    """TFRecord's checksum: CRC-32C (RFC 3720, appendix B.4), rotated and offset as in its ``record_writer``."""
    table = _crc_table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)
