"""The outbox: oldest first, bounded, one process at a time, and still there after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from steepest_sdk.delivery.outbox import MessageOutbox, open_first
from steepest_sdk.mqtt import read


def payloads(outbox: MessageOutbox) -> list[bytes]:
    """All that is in it, oldest first."""
    return [waiting.payload for waiting in outbox.after(0, 100)]


def test_messages_wait_in_order_until_they_are_removed(tmp_path: Path) -> None:
    """What is in it is there for the next one to open it, and places are never used twice."""
    outbox = MessageOutbox(tmp_path / "o.db")
    for number in range(4):
        outbox.append("t", b"%d" % number)
    first, *_, last = outbox.after(0, 10)
    outbox.remove(first.place)
    outbox.remove(last.place)
    outbox.close()
    again = MessageOutbox(tmp_path / "o.db")
    again.append("t", b"new")

    assert payloads(again) == [b"1", b"2", b"new"]
    assert len(again) == 3
    assert again.after(0, 10)[-1].place > last.place
    again.close()


def test_the_oldest_gives_way(tmp_path: Path) -> None:
    """A full outbox keeps the newest, and counts what it could not keep."""
    outbox = MessageOutbox(tmp_path / "o.db", capacity=3)
    for number in range(10):
        outbox.append("t", b"%d" % number)

    assert payloads(outbox) == [b"7", b"8", b"9"]
    assert outbox.dropped == 7
    outbox.close()


def test_each_process_has_one_of_its_own(tmp_path: Path) -> None:
    """Two processes at the same time have two files; the next process takes over the file of the first."""
    first = open_first(tmp_path, "job")
    second = open_first(tmp_path, "job")
    first.append("t", b"first")
    first.close()
    third = open_first(tmp_path, "job")

    assert payloads(second) == []
    assert payloads(third) == [b"first"]
    second.close()
    third.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STEEPEST_MQTT", "broker"),
        ("STEEPEST_MQTT", "broker:http"),
        ("STEEPEST_MQTT_DEVICE", ""),
        ("STEEPEST_MQTT_DEVICE", "Edge"),
        ("STEEPEST_JOB", "a/b"),
        ("STEEPEST_INCARNATION", "one"),
    ],
)
def test_a_wrong_variable_is_named(name: str, value: str) -> None:
    """The message names the variable to set."""
    good = {"STEEPEST_MQTT": "broker:1883", "STEEPEST_MQTT_DEVICE": "edge-1", "STEEPEST_JOB": "job"}
    assert read(good) is not None
    assert read({}) is None
    with pytest.raises(ValueError, match=name):
        read({**good, name: value})
