"""The registry as a page for people: each topic's events, who writes them, and what they say.

It owns the form of the page; all that it says comes from the registry and from docstrings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from steepest.events.registry import FLAGS, TOPICS, Topic
from steepest.events.schema.asyncapi import HEADERS, describe

INTRODUCTION = """# Topics and events

Read this page to write a program over the log. [asyncapi.json](asyncapi.json) has the type of every field. Both are
generated from the registry (`steepest schema`).

Records are JSON objects with the event's name in `type`. Fields at their default are not encoded, and a reader skips
unknown fields. No number is NaN or infinite. Times are integer milliseconds; a record's own time is when its content was
observed."""

VERSIONS = """## Versions and flags

`PoolConfigured` has the event version that a pool requires of its readers (`reads`), and the flags that are on. A flag is
a change of behaviour. A reader with an older version, or without a flag, stops before that record. So old recordings
replay as they were decided, and old and new code never fold one log to different views.

A new pool has every flag. In an older pool, `steepest up` puts them in force at its next start, and on Kafka
`steepest upgrade`, once every service is of the new version.

A flag goes after two releases: the second release after the one that brought it keeps the new behaviour alone, and stops at
pools that have not switched it on. No number is used twice."""


def page(topics: Mapping[str, Topic[Any]] = TOPICS) -> str:
    """The page, as Markdown with a final newline."""
    headers = "\n".join(
        ("| header | says |", "|---|---|", *(f"| `{name}` | {said} |" for name, said in HEADERS.items()))
    )
    rows = [f"| {number} | {flag.since} | {flag.says} |" for number, flag in FLAGS.items()]
    flags = "\n".join(
        ("| flag | version | rule |", "|---|---|---|", *rows)
        if rows
        else ("This release is the baseline: it has no flags, and its event version is 1.",)
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
