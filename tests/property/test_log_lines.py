"""What holds of a recording's lines for every record and every change."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from steepest.log.base import NewRecord, TopicPartition
from steepest.log.files.record_lines import decode_line, encode_line

AT = TopicPartition("loss", 2)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
).map(msgspec.json.encode)
RECORDS = st.builds(
    NewRecord,
    to=st.just(AT),
    key=TEXT,
    value=st.binary() | JSON,
    at_ms=st.integers(0, 2**63 - 1),
    headers=st.dictionaries(TEXT, TEXT, max_size=4),
)


@given(RECORDS, st.integers(0, 2**63 - 1))
def test_a_line_gives_back_its_record(record: NewRecord, offset: int) -> None:
    """Every record is one line of valid JSON in UTF-8, and comes back from it exactly."""
    line = encode_line(record, offset)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert isinstance(msgspec.json.decode(line.decode()), dict)
    found = decode_line(line[:-1], AT, offset, "file")
    assert (found.at, found.offset, found.damage) == (AT, offset, "")
    assert (found.key, found.value, found.at_ms, found.headers) == (
        *(record.key, record.value, record.at_ms, record.headers),
    )


@given(RECORDS, st.data())
def test_a_changed_byte_is_always_seen(record: NewRecord, data: st.DataObject) -> None:
    """For a change of any byte of a line, the record is delivered at its place and marked as damaged."""
    line = bytearray(encode_line(record, 7)[:-1])
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] ^= data.draw(st.integers(1, 255))
    found = decode_line(bytes(line), AT, 7, "file")
    assert (found.at, found.offset) == (AT, 7)
    assert found.damage


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(line: bytes) -> None:
    """Bytes that were never a line are delivered as they are, as damaged."""
    found = decode_line(line, AT, 0, "file")
    assert found.damage
    assert found.value == line
