"""The form of a recording's line."""

import base64
import json
from pathlib import Path

import pytest

from steepest.errors import RecordingError
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.files.record_lines import decode_line, encode_line

AT = TopicPartition("cluster", 0)
TICK = NewRecord(to=AT, key="main", value=b'{"type":"Tick"}', at_ms=1763683200000, headers={"id": "monitor/0/12"})

GOLDEN = (
    b'{"topic":"cluster","partition":0,"offset":12,"key":"main","at_ms":1763683200000,'
    b'"headers":{"id":"monitor/0/12"},"value":{"type":"Tick"},"crc":"070214ee"}\n'
)


def line_of(value: bytes) -> bytes:
    """The line of a record with this value, at offset 0."""
    return encode_line(NewRecord(to=AT, key="k", value=value, at_ms=1), 0)


def test_a_line_is_what_it_was_in_version_1() -> None:
    """Recordings of version 1 were written in exactly these bytes, and must be read for as long as it is version 1."""
    assert encode_line(TICK, 12) == GOLDEN
    record = decode_line(GOLDEN[:-1], AT, 12, "file")
    assert (record.key, record.value, record.at_ms, record.headers, record.damage) == (
        *("main", b'{"type":"Tick"}', 1763683200000, {"id": "monitor/0/12"}, ""),
    )


def test_the_documented_line_is_one() -> None:
    """The example that people are shown in docs/recordings.md is a line as it is written."""
    documented = Path(__file__).parents[3] / "docs" / "recordings.md"
    assert GOLDEN in documented.read_bytes()


def test_a_value_in_json_stands_in_its_line_as_it_is() -> None:
    """People and jq see the value as part of the line, with its own order, blanks and digits."""
    value = b'{"b": 1.50, "a":[1e3,"\xc3\xa9"]}'
    assert b'"value":' + value + b"," in line_of(value)


@pytest.mark.parametrize("value", [b"", b" 1", b"1\r", b"no", b'"\xff"', b"[" * 65 + b"]" * 65], ids=repr)
def test_any_other_value_stands_in_its_line_as_base64(value: bytes) -> None:
    """What is no JSON, is not UTF-8, has blanks around it, or nests deep, would not come back as it was."""
    line = json.loads(line_of(value))
    assert "value" not in line
    assert base64.b64decode(line["value_base64"]) == value


def test_many_brackets_are_not_depth() -> None:
    """A long flat value stays readable, and brackets in its strings are no nesting."""
    flat = b"[" + b",".join([b"[{}]"] * 100) + b"]"
    text = b'["' + b"[" * 100 + b'\\"' + b"{" * 100 + b'"]'
    assert b'"value":' + flat in line_of(flat)
    assert b'"value":' + text in line_of(text)


def test_a_line_without_its_checksum_is_damaged() -> None:
    """A line whose last field another program has removed is marked as damaged but still read."""
    record = decode_line(GOLDEN.split(b',"crc"')[0] + b"}", AT, 12, "cluster/0.jsonl")
    assert record.value == b'{"type":"Tick"}'
    assert record.damage.startswith("cluster/0.jsonl, line 13: does not match its checksum")


def test_a_line_changed_by_hand_is_damaged() -> None:
    """A changed value is delivered as it now is, and said not to be what was written."""
    record = decode_line(GOLDEN[:-1].replace(b"Tick", b"Tock"), AT, 12, "file")
    assert record.value == b'{"type":"Tock"}'
    assert "modified after it was written" in record.damage


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe\x00",
        b"null",
        b"{}",
        b"[" * 100_000,
        GOLDEN[:40],
        GOLDEN[:-1].replace(b'"value"', b'"volue"'),
        GOLDEN[:-1].replace(b'"value":{"type":"Tick"}', b'"value_base64":"#"'),
        GOLDEN[:-1].replace(b"1763683200000", b'"today"'),
    ],
    ids=["empty", "binary", "null", "no fields", "nested", "half", "no value", "bad base64", "bad time"],
)
def test_a_line_that_is_no_record_is_delivered_as_its_bytes(line: bytes) -> None:
    """A line that is no record is delivered as a damaged one, so that it can be kept and reading continues."""
    record = decode_line(line, AT, 12, "cluster/0.jsonl")
    assert (record.at, record.offset, record.value) == (AT, 12, line)
    assert record.damage.startswith("cluster/0.jsonl, line 13: is not a record: ")


@pytest.mark.parametrize(
    ("at", "offset"), [(AT, 11), (AT, 13), (TopicPartition("cluster", 1), 12), (TopicPartition("loss", 0), 12)]
)
def test_a_sound_line_in_a_wrong_place_is_refused(at: TopicPartition, offset: int) -> None:
    """A record of another partition or offset means that lines were lost or added: nothing after it can be trusted."""
    with pytest.raises(RecordingError, match=rf"x, line {offset + 1}: has cluster/0@12 instead of {at}@{offset}"):
        decode_line(GOLDEN[:-1], at, offset, "x")
