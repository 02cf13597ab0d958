"""TensorBoard's event files: both kinds of scalars, any cut, damage, and frames that are too long."""

import struct

import pytest

from steepest.training_logs.sources.tensorboard import MAX_FRAME_BYTES, EventReader, masked_crc32c


def varint(number: int) -> bytes:
    """A number in protobuf's variable length."""
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, content: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def simple(tag: str, value: float) -> bytes:
    """A scalar as TensorFlow 1 and PyTorch write it."""
    return field(1, tag.encode()) + varint(2 << 3 | 5) + struct.pack("<f", value)


def tensor(tag: str, value: float, *, packed: bool) -> bytes:
    """A scalar as TensorFlow 2 writes it: a tensor of one float, as a list or as content."""
    content = field(5 if packed else 4, struct.pack("<f", value))
    return field(1, tag.encode()) + field(8, varint(1 << 3) + varint(1) + content)


def event(step: int, *values: bytes) -> bytes:
    """One event's payload: wall time, step, summary."""
    return (
        struct.pack("<Bd", 1 << 3 | 1, 1.5)
        + varint(2 << 3)
        + varint(step)
        + field(5, b"".join(field(1, one) for one in values))
    )


def frame(payload: bytes) -> bytes:
    """A payload between its checksums."""
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc32c(length)) + payload + struct.pack("<I", masked_crc32c(payload))


VERSION = frame(struct.pack("<Bd", 1 << 3 | 1, 1.5) + field(3, b"brain.Event:2"))
FILE = VERSION + b"".join(
    frame(
        event(step, simple("train/loss", 2.0**-step), tensor("val_loss", 0.5, packed=step % 2 == 0), simple("lr", 0.1))
    )
    for step in range(5)
)


def test_the_checksum_is_crc_32c() -> None:
    """The published check value of CRC-32C, masked as TFRecord masks it."""
    crc = 0xE3069283

    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_scalars_of_both_kinds() -> None:
    """Simple values and tensors are read with their step and split; other tags are not losses."""
    records = EventReader().feed(FILE)

    assert [(one.step, one.metric, one.value, one.split) for one in records[:2]] == [
        (0, "train/loss", 1.0, "train"),
        (0, "val_loss", 0.5, "eval"),
    ]
    assert [one.step for one in records] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_the_folder_says_the_split_where_the_tag_does_not() -> None:
    """Keras writes ``epoch_loss`` to a folder for each split."""
    records = EventReader(split="eval").feed(VERSION + frame(event(1, simple("epoch_loss", 0.5))))

    assert [(one.metric, one.split) for one in records] == [("epoch_loss", "eval")]


@pytest.mark.parametrize("cut", range(0, len(FILE), 7))
def test_a_file_may_come_in_pieces(cut: int) -> None:
    """Cut at any byte, the records are those of one reading."""
    reader = EventReader()

    assert reader.feed(FILE[:cut]) + reader.feed(FILE[cut:]) == EventReader().feed(FILE)


def test_a_damaged_payload_loses_itself_only() -> None:
    """A wrong checksum drops its frame, is counted, and what follows is read."""
    damaged = bytearray(FILE)
    damaged[len(VERSION) + 30] ^= 0xFF
    reader = EventReader()

    assert [one.step for one in reader.feed(bytes(damaged))] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert reader.broken_frames == 1


def test_a_damaged_length_ends_the_file() -> None:
    """Behind a wrong length nothing can be found again: it is counted, and the reader does not fail."""
    reader = EventReader()

    assert reader.feed(b"\xff" * 100 + FILE) == []
    assert reader.broken_frames == 1


def test_a_frame_that_is_too_long_is_passed_over() -> None:
    """Images do not fill the memory, and the frames behind them are read."""
    long = frame(b"\0" * (MAX_FRAME_BYTES + 1))
    file = VERSION + long + FILE
    reader = EventReader()

    records = [record for at in range(0, len(file), 4096) for record in reader.feed(file[at : at + 4096])]

    assert len(records) == 10
    assert records[-1].position == len(file)
