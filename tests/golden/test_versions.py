"""What earlier versions wrote is read as it was meant, and today's view is theirs at every position of their recordings."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.golden.kept import HERE, MESSAGES, VIEWS, digests

from steepest.events.registry import READS, SINCE, TOPICS, encode

FILES = sorted(MESSAGES.glob("*/*.jsonl"))
RECORDINGS = sorted(folder.parent.name for folder in HERE.glob("*/recording.json"))


def lines(file: Path) -> list[bytes]:
    """The messages in a file."""
    return file.read_bytes().splitlines()


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_kept_message_means_what_it_meant(file: Path) -> None:
    """It is read, and written again it has the same bytes: no field was renamed, and no default is another one."""
    topic = TOPICS[file.stem]
    for value in lines(file):
        assert encode(topic.decode(value)) == value


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_kept_message_may_say_more_than_we_know(file: Path) -> None:
    """A later writer's field is passed over, also within what an event holds."""
    topic = TOPICS[file.stem]
    for value in lines(file):
        assert topic.decode(msgspec.json.encode(with_more(msgspec.json.decode(value)))) == topic.decode(value)


def with_more(value: Any) -> Any:
    """The message with a field more in every object; names of jobs and the like are no fields."""
    match value:
        case dict():
            inner = {key: _with_more_of(key, one) for key, one in value.items()}
            return inner | {"a_field_of_tomorrow": [{"x": 1}]}
        case list():
            return [with_more(one) for one in value]
    return value


def _with_more_of(field: str, value: Any) -> Any:
    match field:
        case "env" | "params" | "jobs" | "headers" | "figures":
            return value
        case "labels":  # of a node, by key
            return value
        case "others" if isinstance(value, dict):  # of a node, by job; those of a preemption are a list
            return {job: with_more(one) for job, one in value.items()}
    return with_more(value)


OLDER = [(old, new) for new in range(2, READS + 1) for old in range(1, new)]


@pytest.mark.parametrize("topic", TOPICS)
def test_an_older_reader_finds_what_it_must_have(topic: str) -> None:
    """Whatever an older version always wrote, and so may ask for, a newer one always writes, in the same form."""
    for old, new in OLDER:
        before, after = (by_type(MESSAGES / str(version) / f"{topic}.jsonl") for version in (old, new))
        for name, messages in before.items():
            for then, now in zip(messages, after[name], strict=True):
                assert has_form(then, now) == "", f"{name} of version {new} is not what version {old} reads"


def by_type(file: Path) -> dict[str, list[Any]]:
    """A version's messages: of each event the one with all fields, then the one with the fewest."""
    found: dict[str, list[Any]] = {}
    for value in lines(file):
        message = msgspec.json.decode(value)
        found.setdefault(message["type"], []).append(message)
    return found


def has_form(then: Any, now: Any, where: str = "") -> str:
    """Where something of an older message is missing from a newer one, or is of another JSON type; empty: nowhere."""
    if type(then) is not type(now):
        return where or "."
    match then:
        case dict():
            found = (has_form(one, now.get(key), f"{where}.{key}") for key, one in then.items())
        case list():
            found = (has_form(one, other, f"{where}[]") for one, other in zip(then, now, strict=False))
        case _:
            return ""
    return next(filter(None, found), "")


@pytest.mark.parametrize(
    ("now", "where"),
    [
        ({"a": 1, "b": {"c": []}, "new": 2}, ""),
        ({"a": 1, "b": {}}, ".b.c"),
        ({"a": 1}, ".b"),
        ({"a": "1", "b": {"c": []}}, ".a"),
        ({"a": 1, "b": {"c": {}}}, ".b.c"),
    ],
)
def test_what_an_older_reader_would_miss_is_found(now: Any, where: str) -> None:
    """A field that is gone, or of another type; one that is new is none of its business."""
    assert has_form({"a": 1, "b": {"c": []}}, now) == where


def test_every_event_is_kept() -> None:
    """Each version has a message of every event that it knows; the command beside makes those of this one."""
    for version in range(1, READS + 1):
        for topic in TOPICS.values():
            known = {kind.__name__ for kind in topic.types if SINCE.get(kind, 1) <= version}
            kept = MESSAGES / str(version) / f"{topic.name}.jsonl"
            assert kept.exists(), f"no {kept}: python -m tests.golden.kept"
            assert {msgspec.json.decode(value)["type"] for value in lines(kept)} >= known, "python -m tests.golden.kept"


@pytest.mark.parametrize("recording", RECORDINGS)
async def test_the_view_is_what_it_was_at_every_position(recording: str) -> None:
    """The fold of version 1 left these digests; whoever reads the same log with today's comes to the same view."""
    then, now = (VIEWS / f"{recording}.txt").read_text().splitlines(), await digests(HERE / recording)

    differing = (offset for offset, (one, other) in enumerate(itertools.zip_longest(then, now)) if one != other)
    assert next(differing, None) is None, "the first position at which the view is another one"
