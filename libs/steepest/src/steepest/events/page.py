"""The registry as a page for people: each topic's events, who writes them, and what they say.

It owns the form of the page; all that it says comes from the registry and from docstrings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from steepest.events.asyncapi import HEADERS, describe
from steepest.events.registry import TOPICS, Topic

INTRODUCTION = """# Topics and events

This page is made from the registry (`steepest schema --page > docs/events.md`); the whole of it, with every field's type,
is in [asyncapi.json](asyncapi.json) (`steepest schema`).

Records are JSON objects with the event's name in `type`. Fields at their default are not encoded, and fields that a
reader does not know are skipped, so that fields can be added. No number is NaN or infinite. Times are integer
milliseconds; a record's own time is when the thing was observed."""


def page(topics: Mapping[str, Topic[Any]] = TOPICS) -> str:
    """The page, as Markdown with a final newline."""
    headers = "\n".join(
        ("| header | says |", "|---|---|", *(f"| `{name}` | {said} |" for name, said in HEADERS.items()))
    )
    sections = (section for topic in topics.values() for section in _sections(topic))
    return "\n\n".join((INTRODUCTION, headers, *sections)) + "\n"


def _sections(topic: Topic[Any]) -> Iterator[str]:
    partitions = f"{topic.partitions} partition{'s' if topic.partitions > 1 else ''} unless configured otherwise"
    yield f"## `{topic.name}`"
    yield f"{topic.description} Keyed by {topic.key}; {partitions}."
    rows = (f"| `{event.__name__}` | {topic.writers[event]} | {_said(event)} |" for event in topic.types)
    yield "\n".join(("| event | writer | says |", "|---|---|---|", *rows))


def _said(event: type) -> str:
    """The docstring on one line, as a cell of a table may hold it."""
    return " ".join(describe(event)[0].split()).replace("|", "\\|")
