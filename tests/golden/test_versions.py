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
            named = {"env", "jobs", "headers"}
            inner = {key: one if key in named else with_more(one) for key, one in value.items()}
            return inner | {"a_field_of_tomorrow": [{"x": 1}]}
        case list():
            return [with_more(one) for one in value]
    return value


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
