"""What is remembered of a device has bounds."""

from __future__ import annotations

import pytest

from steepest.mqtt import seen as module
from steepest.mqtt.seen import WINDOW, Seen, Standing


def test_another_message_under_an_old_number_goes_back() -> None:
    """A device that lost its place and went on in its old generation is told apart from a repetition."""
    seen = Seen()
    seen.note("d/g", 5, "a")

    assert seen.judge("d/g", 5, "a") is Standing.REPEATED
    assert seen.judge("d/g", 5, "b") is Standing.BACK
    assert seen.judge("d/g", 4, "a") is Standing.BACK
    assert seen.judge("d/other", 1, "b") is Standing.NEW


def test_only_the_last_messages_are_remembered() -> None:
    """What comes again after more than the window is not believed to be a repetition."""
    seen = Seen()
    for number in range(1, WINDOW + 2):
        seen.note("d/g", number, "x")

    assert len(seen.streams["d/g"].digests) == WINDOW
    assert seen.judge("d/g", 2, "x") is Standing.REPEATED
    assert seen.judge("d/g", 1, "x") is Standing.BACK


def test_the_silent_stream_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of made-up devices costs a bounded memory, and pushes out those that say nothing."""
    monkeypatch.setattr(module, "MOST_STREAMS", 3)
    seen = Seen()
    for stream in ("a/1", "b/1", "c/1", "a/1", "d/1"):
        seen.note(stream, 1 + len(seen.streams), "x")

    assert list(seen.streams) == ["c/1", "a/1", "d/1"]


def test_the_generations_of_a_device_are_bounded() -> None:
    """A device that begins a new one every day for a year leaves no more behind than one that began a few."""
    seen = Seen()
    seen.note("other/1", 1, "x")
    for day in range(365):
        seen = Seen(seen.streams)
        for number in (1, 2):
            seen.note(f"d/{day}", number, "x")
    seen.note("d/362", 3, "x")
    seen.note("d/365", 1, "x")

    assert list(seen.streams) == ["other/1", "d/363", "d/364", "d/362", "d/365"]
