"""What counts as a difference between what was decided then and now."""

from __future__ import annotations

from steepest.events.received import DecisionId
from steepest.replay.compare import Decided, Difference, compare

STREAM = "node-scorer/e/cluster/0"


def decided(offset: int, value: bytes = b'{"x":1}', *, at: int | None = None, logic: str = "1") -> Decided:
    """A decision about the record at ``offset``, which stands at ``at``."""
    place = offset + 100 if at is None else at
    decision = DecisionId("node-scorer", "e", "cluster", 0, offset, 0)
    return Decided(id=decision, value=value, position=f"cluster/0@{place}", offset=place, logic=logic)


def test_equal_bytes_are_no_difference() -> None:
    """Two decisions with the same id and the same bytes are the same."""
    report = compare({STREAM: [decided(1)]}, {STREAM: [decided(1)]})

    assert (report.decisions, report.differences, report.first_difference) == (1, 0, None)


def test_other_bytes_are_told_with_both_versions() -> None:
    """The first decision whose bytes differ is named with its position in the recording and both values."""
    report = compare({STREAM: [decided(1), decided(2, b'{"x":2}')]}, {STREAM: [decided(1), decided(2, b'{"x":3}')]})

    first = report.first_difference
    assert first is not None
    assert (
        report.differences,
        first.position,
        first.recorded,
        first.decided,
    ) == (1, "cluster/0@102", {"x": 2}, {"x": 3})


def test_a_decision_that_is_missing_is_told() -> None:
    """What was decided then and not now is a difference, and so is the reverse within the recorded part of a stream."""
    gone = compare({STREAM: [decided(1), decided(2)]}, {STREAM: [decided(2)]})
    new = compare({STREAM: [decided(2)]}, {STREAM: [decided(1), decided(2)]})

    assert (
        gone.first_difference and gone.first_difference.why,
        new.first_difference and new.first_difference.why,
    ) == ("decided then, and not now", "decided now, and not then")


def test_what_lies_beyond_the_recorded_stream_is_not_a_difference() -> None:
    """A process may be stopped between a record and its consequences: those are not yet recorded."""
    report = compare({STREAM: [decided(1)]}, {STREAM: [decided(1), decided(2), decided(3)]})

    assert (report.differences, report.not_yet_recorded) == (0, 2)


def test_explanations_are_compared_only_under_the_same_logic() -> None:
    """A decider of another version may explain the same decision otherwise."""
    then = decided(1, b'{"x":1,"because":{"rule":"old"}}', logic="1")
    now = decided(1, b'{"x":1,"because":{"rule":"new"}}', logic="2")
    same_logic = decided(1, b'{"x":1,"because":{"rule":"new"}}', logic="1")

    assert (
        compare({STREAM: [then]}, {STREAM: [now]}).differences,
        compare({STREAM: [then]}, {STREAM: [same_logic]}).differences,
    ) == (0, 1)


def test_an_altered_record_without_consequences_is_still_a_difference() -> None:
    """A record that was changed by hand is reported even where every decision stays the same."""
    altered = Difference(
        position="cluster/0@7", offset=7, decision="", why="its checksum does not match", recorded={"y": 1}
    )

    report = compare({STREAM: [decided(1)]}, {STREAM: [decided(1)]}, [altered])

    assert (1, altered) == (report.differences, report.first_difference)


def test_a_value_that_is_nested_too_deep_is_reported_as_text() -> None:
    """A deeply nested value in the log does not stop the report."""
    deep = b"[" * 100_000
    found = compare({STREAM: [decided(1, deep)]}, {STREAM: [decided(1, logic="2")]}).first_difference

    assert found is not None
    assert found.recorded == deep.decode()
