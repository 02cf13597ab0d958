"""What is remembered of a device is bounded."""

from __future__ import annotations

import pytest

from steepest.mqtt import deduplication as module
from steepest.mqtt.deduplication import WINDOW, Deduplication, SequenceCheck


def test_another_message_under_an_old_number_is_out_of_order() -> None:
    """A device that lost its last number and continued its old generation is distinguished from a duplicate."""
    seen = Deduplication()
    seen.record("d/g", 5, "a")

    assert seen.check("d/g", 5, "a") is SequenceCheck.DUPLICATE
    assert seen.check("d/g", 5, "b") is SequenceCheck.OUT_OF_ORDER
    assert seen.check("d/g", 4, "a") is SequenceCheck.OUT_OF_ORDER
    assert seen.check("d/other", 1, "b") is SequenceCheck.NEW


def test_only_the_last_messages_are_remembered() -> None:
    """A message that is repeated after more than the window is not recognised as a duplicate."""
    seen = Deduplication()
    for number in range(1, WINDOW + 2):
        seen.record("d/g", number, "x")

    assert len(seen.streams["d/g"].digests) == WINDOW
    assert seen.check("d/g", 2, "x") is SequenceCheck.DUPLICATE
    assert seen.check("d/g", 1, "x") is SequenceCheck.OUT_OF_ORDER


def test_the_silent_stream_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of invented devices costs a bounded memory, and displaces those that are silent."""
    monkeypatch.setattr(module, "MAX_STREAMS", 3)
    seen = Deduplication()
    for stream in ("a/1", "b/1", "c/1", "a/1", "d/1"):
        seen.record(stream, 1 + len(seen.streams), "x")

    assert list(seen.streams) == ["c/1", "a/1", "d/1"]


def test_the_generations_of_a_device_are_bounded() -> None:
    """A device that begins a new one every day for a year occupies no more than one that began a few."""
    seen = Deduplication()
    seen.record("other/1", 1, "x")
    for day in range(365):
        seen = Deduplication(seen.streams)
        for number in (1, 2):
            seen.record(f"d/{day}", number, "x")
    seen.record("d/362", 3, "x")
    seen.record("d/365", 1, "x")

    assert list(seen.streams) == ["other/1", "d/363", "d/364", "d/362", "d/365"]
