"""``steepest events``: what happened, one line an event.

It owns which records are shown and their two spellings, for people and for programs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from steepest.cli.options import OneOf, json_option, remote_options
from steepest.cli.printing.output import tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.client.synchronous import Client
    from steepest.gateway.answers import EventRow
    from steepest.log.base import Record

EPILOG = """\b
Examples:
  steepest events
  steepest events --follow --job mnist-3fa2
  steepest events --type MigrationPlanned --json | jq .event.because
  steepest events --topic loss --job mnist-3fa2 --json | jq '[.event.step, .event.value]'
  steepest events --topic dead-letters

A line is: offset, time, what happened. Ticks, usage and growth come again and again, so they are shown only with --all,
with --type, or on other topics than `cluster`. With --json, a line is one object: topic, partition, offset, at_ms, key,
headers, and the event; or, where a record cannot be read, `unreadable` and the reason. The values of a job's variables
are masked; `steepest record` copies them as they are. With --server, the topic is `cluster`.
"""

TOPICS = ("cluster", "loss", "heartbeats", "dead-letters")

PAGE = 1_000
"""Records in one answer of a gateway."""


@click.command(epilog=EPILOG)
@remote_options
@click.option("--topic", type=OneOf(TOPICS), default="cluster", show_default=True, help="Show this topic.")
@click.option("--job", help="Show only events about this job.")
@click.option("--type", "types", multiple=True, help="Show only events of this type. Repeat it for several.")
@click.option("--since", type=click.IntRange(0), help="Start at this offset (0; with --follow: now).")
@click.option("--all/--no-all", "show_all", default=False, help="Show ticks, usage and growth as well.")
@click.option("--follow/--no-follow", default=False, help="Show new events as they come, until interrupted.")
@json_option
def events(settings: Settings, *, topic: str, since: int | None, follow: bool, as_json: bool, **wanted: Any) -> None:
    """Show what happened in the pool, oldest first."""
    from steepest.cli.pool.follow import run_until_stopped

    shows = chooser(topic, **wanted)
    spelled = as_json_line if as_json else as_words

    matches = False

    def line(record: Record) -> str | None:
        nonlocal matches
        text = spelled(record, shows)
        matches = matches or text is not None
        return text

    if settings.client.server:
        if topic != "cluster":
            raise click.UsageError(f"a gateway gives the topic cluster, and not {topic}")
        _print_of_gateway(settings, since, follow=follow, line=line)
    else:
        run_until_stopped(_print(settings, topic, since, follow=follow, line=line))
    if not matches and not follow:
        tell("no event matches", err=True)


Shows = Callable[[Any], bool]


def chooser(topic: str, *, job: str | None, types: tuple[str, ...], show_all: bool) -> Shows:
    """Which events of a topic are wanted; None stands for a record that cannot be read.

    Raises:
        UsageError: The topic has no event of such a type.
    """
    import difflib

    from steepest.describe import ROUTINE
    from steepest.events.registry import TOPICS as KNOWN
    from steepest.read_models.run_timeline import is_news

    names = {kind.__name__: kind for kind in KNOWN[topic].types}
    for name in types:
        if name not in names:
            close = " or ".join(difflib.get_close_matches(name, names, n=2)) or ", ".join(names)
            raise click.UsageError(f"there is no event {name!r} on {topic}: did you mean {close}?")
    hidden = () if show_all or types or topic != "cluster" else ROUTINE
    kinds = tuple(names[name] for name in types) or tuple(kind for kind in names.values() if kind not in hidden)

    joined: dict[str, Any] = {}

    def shows(event: Any) -> bool:
        if event is None:
            return job is None and not types
        if not isinstance(event, kinds) or (job is not None and not _is_about(event, job)):
            return False
        return show_all or bool(types) or is_news(joined, event)

    return shows


def _is_about(event: Any, job: str) -> bool:
    named = [*getattr(event, "jobs", ()), *(limit.job for limit in getattr(event, "limits", ()))]
    return getattr(event, "job", None) == job or job in named


async def _print(
    settings: Settings, topic: str, since: int | None, *, follow: bool, line: Callable[[Record], str | None]
) -> None:
    from steepest.cli.pool.follow import batches
    from steepest.cli.pool.stored_pool import is_at_rest, reading

    async with reading(settings) as (_, log):
        partitions = await log.partitions(topic)
        ends = {at: await log.end(at) for at in partitions}
        if since is None:
            since, start = 0, ends if follow else {at: await log.begin(at) for at in partitions}
        else:
            # An offset beyond a partition's end waits for nothing there: only a reader that follows may ask for it.
            start = {at: max(min(since, ends[at]), await log.begin(at)) for at in partitions}
        left = {str(at): end for at, end in ends.items() if start[at] < end}
        if follow and is_at_rest(settings):
            follow = False
            tell(f"Steepest does not run on {settings.folder.root}: nothing more comes", err=True)
        if not left and not follow:
            return
        async for records in batches(log, start):
            lines = [text for record in records if record.offset >= since and (text := line(record)) is not None]
            if lines:
                tell("\n".join(lines))
            for record in records:
                if record.offset + 1 >= ends[record.at]:
                    left.pop(str(record.at), None)
            if not left and not follow:
                return


def _print_of_gateway(
    settings: Settings, since: int | None, *, follow: bool, line: Callable[[Record], str | None]
) -> None:
    from steepest.cli.jobs.gateway_requests import followed
    from steepest.cli.pool.remote import client_of, refuse_without_client

    refuse_without_client(settings)
    with client_of(settings) as gateway, contextlib.suppress(KeyboardInterrupt):
        if follow and since is None:
            since = next(pool.position for pool in gateway.pools().pools if settings.pool in {None, pool.pool})
        rows = followed(settings, since or None) if follow else _all_rows(gateway, settings.pool, since or None)
        for row in rows:
            if (text := line(_record(row))) is not None:
                tell(text)


def _all_rows(gateway: Client, pool: str | None, since: int | None) -> Iterator[EventRow]:
    """The events of the log so far, page by page."""
    while page := gateway.events(pool=pool, since=since, limit=PAGE):
        yield from page
        since = page[-1].offset + 1


def _record(row: EventRow) -> Record:
    import msgspec

    from steepest.log.base import Record, TopicPartition

    return Record(
        at=TopicPartition("cluster", row.partition),
        offset=row.offset,
        key=row.key,
        value=msgspec.json.encode(row.event),
        at_ms=row.at_ms,
        headers=row.headers,
        damage=row.unreadable,
    )


def as_words(record: Record, shows: Shows) -> str | None:
    """A record for people; None where it is not wanted."""
    from steepest.describe import one_line, sentence
    from steepest.errors import UndecodableError
    from steepest.events.cluster import LogOpened
    from steepest.runtime.decode import received

    try:
        event = received(record).event
    except UndecodableError as error:
        line = f"{record.offset:>7}  {_clock(record.at_ms)}  this record cannot be read: {one_line(str(error))}"
        return line if shows(None) else None
    if not shows(event):
        return None
    text = sentence(event) if record.at.topic == "cluster" or isinstance(event, LogOpened) else _fields(event)
    return f"{record.offset:>7}  {_clock(record.at_ms)}  {text}"


def _fields(event: Any) -> str:
    import msgspec

    from steepest.describe import one_line

    fields: Mapping[str, object] = msgspec.to_builtins(event)
    return one_line(" ".join(str(value) if name == "type" else f"{name}={value}" for name, value in fields.items()))


def _clock(at_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_ms / 1000)) + f".{at_ms % 1000:03d}"


def as_json_line(record: Record, shows: Shows) -> str | None:
    """A record for programs; None where it is not wanted."""
    import msgspec

    from steepest.describe.masking import masked
    from steepest.errors import UndecodableError
    from steepest.runtime.decode import received

    fields: dict[str, object] = {
        "topic": record.at.topic,
        "partition": record.at.partition,
        "offset": record.offset,
        "at_ms": record.at_ms,
        "key": record.key,
        "headers": dict(record.headers),
    }
    try:
        event = received(record).event
    except UndecodableError as error:
        return msgspec.json.encode({**fields, "unreadable": str(error)}).decode() if shows(None) else None
    return msgspec.json.encode({**fields, "event": masked(event)}).decode() if shows(event) else None
