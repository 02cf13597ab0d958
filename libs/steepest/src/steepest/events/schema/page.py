"""The registry as a page for people: each topic's events, who writes them, and what they say.

It owns the form of the page; all that it says comes from the registry and from docstrings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from steepest.events.registry import FLAGS, TOPICS, Topic
from steepest.events.schema.asyncapi import HEADERS, describe

INTRODUCTION = """# Topics and events

This page is generated from the registry (`steepest schema --page > docs/events.md`); [asyncapi.json](asyncapi.json)
(`steepest schema`) has the type of every field.

Records are JSON objects with the event's name in `type`. Fields at their default are not encoded, and fields that a
reader does not know are skipped, so that fields can be added. No number is NaN or infinite. Times are integer
milliseconds; a record's own time is when its content was observed."""

VERSIONS = """## Versions and flags

`PoolConfigured` states what a pool requires of its readers: the event version (`reads`), below which a reader stops
before that record, and the flags that are on. A flag is a change of behaviour; a reader that does not know its number
stops as well. So old recordings replay as they were decided, and old and new code never fold one log to different
views.

A new pool has every flag from its first configuration on. In a pool that is older, `steepest up` puts them in force at its
next start where one process is the whole system. On Kafka `steepest upgrade` does, once every service is of the new
version."""


def page(topics: Mapping[str, Topic[Any]] = TOPICS) -> str:
    """The page, as Markdown with a final newline."""
    headers = "\n".join(
        ("| header | says |", "|---|---|", *(f"| `{name}` | {said} |" for name, said in HEADERS.items()))
    )
    flags = "\n".join(
        (
            "| flag | version | what holds where it is on |",
            "|---|---|---|",
            *(f"| {number} | {flag.since} | {flag.says} |" for number, flag in FLAGS.items()),
        )
    )
    sections = (section for topic in topics.values() for section in _sections(topic))
    return "\n\n".join((INTRODUCTION, headers, VERSIONS, flags, *sections)) + "\n"


def _sections(topic: Topic[Any]) -> Iterator[str]:
    partitions = f"{topic.partitions} partition{'s' if topic.partitions > 1 else ''} unless configured otherwise"
    yield f"## `{topic.name}`"
    yield f"{topic.description} Keyed by {topic.key}; {partitions}."
    rows = (f"| `{event.__name__}` | {topic.writers[event]} | {_said(event)} |" for event in topic.types)
    yield "\n".join(("| event | writer | says |", "|---|---|---|", *rows))


def _said(event: type) -> str:
    """The docstring on one line, as a cell of a table may hold it."""
    return " ".join(describe(event)[0].split()).replace("|", "\\|")
