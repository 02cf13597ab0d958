"""``steepest dead-letters``: lists, shows and resends records that could not be read.

It owns listing, showing and sending again. It must never mend anything: what is sent again is what was sent.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.events.dead_letter import DeadLetter
    from steepest.log.base import Log

EPILOG = """\b
Examples:
  steepest dead-letters list
  steepest dead-letters list --topic loss --json | jq .reason
  steepest dead-letters show loss/3@1207
  steepest dead-letters resend loss/3@1207        after the reader was upgraded, say

A letter is named by the record that it is about: TOPIC/PARTITION@OFFSET.
"""


@click.group(epilog=EPILOG)
def dead_letters() -> None:
    """List, show and resend records that could not be read."""


@dead_letters.command(name="list")
@installation_options
@click.option("--topic", help="Show only records of this topic.")
@json_option
def list_(settings: Settings, *, topic: str | None, as_json: bool) -> None:
    """List the letters, a line each: the record, its key, and why it could not be read."""
    import asyncio

    import msgspec

    from steepest.describe import one_line

    found = asyncio.run(_all(settings, topic))
    for letter in found:
        if as_json:
            give({"record": name(letter), **msgspec.to_builtins(letter)})
        else:
            tell(f"{name(letter)}  {one_line(letter.key) or '(no key)'}  {one_line(letter.reason)}")
    if not found and not as_json:
        tell("no dead letters")


@dead_letters.command()
@click.argument("record")
@installation_options
@json_option
def show(record: str, settings: Settings, *, as_json: bool) -> None:
    """Show one letter with all that is known of it; its bytes as they are where they are text."""
    import asyncio

    import msgspec

    letter = asyncio.run(_one(settings, record))
    if as_json:
        give({"record": record, **msgspec.to_builtins(letter)})
        return
    tell(f"record   {record}\nkey      {letter.key}\nreason   {letter.reason}")
    for header, text in sorted(letter.headers.items()):
        tell(f"header   {header}: {text}")
    tell(f"value    {len(letter.value)} bytes\n{letter.value.decode('utf-8', 'backslashreplace')}")


@dead_letters.command()
@click.argument("records", nargs=-1, required=True)
@installation_options
@json_option
def resend(records: tuple[str, ...], settings: Settings, *, as_json: bool) -> None:
    """Append the records of these letters to their topic again, byte for byte."""
    import asyncio

    sent = asyncio.run(_resend(settings, records))
    if as_json:
        give(sent)
        return
    for old, new in sent.items():
        tell(f"{old} is sent again, as {new}")
    sys.exit(0)


def name(letter: DeadLetter) -> str:
    """The name of a letter."""
    return f"{letter.topic}/{letter.partition}@{letter.offset}"


async def _all(settings: Settings, topic: str | None) -> list[DeadLetter]:
    from steepest.cli.pool.stored_pool import reading

    async with reading(settings) as (_, log):
        return [letter async for letter in letters_of(log) if topic in {None, letter.topic}]


async def letters_of(log: Log) -> AsyncIterator[DeadLetter]:
    """Every letter once, in the order in which they were written; several readers report the same."""
    from steepest.cli.pool.stored_pool import records_to_end
    from steepest.errors import UndecodableError
    from steepest.events.dead_letter import DeadLetter
    from steepest.runtime.decode import received

    seen: dict[str, None] = {}
    for at in await log.partitions("dead-letters"):
        async for record in records_to_end(log, at):
            try:
                letter = received(record).event
            except UndecodableError:
                continue
            if isinstance(letter, DeadLetter) and name(letter) not in seen:
                seen[name(letter)] = None
                yield letter


async def _one(settings: Settings, record: str) -> DeadLetter:
    return _found(await _all(settings, None), record)


def _found(dead_letters: list[DeadLetter], record: str) -> DeadLetter:
    from steepest.errors import InputError

    for letter in dead_letters:
        if name(letter) == record:
            return letter
    raise InputError(f"there is no dead letter about {record}", hint="see `steepest dead-letters list`")


async def _resend(settings: Settings, records: tuple[str, ...]) -> dict[str, str]:
    """Find all of them before any is sent."""
    from steepest.app.installation import open_log
    from steepest.clock import SystemClock
    from steepest.errors import InputError
    from steepest.log.base import NewRecord, TopicPartition
    from steepest.runtime.dead_letters import DEAD_LETTER_BYTES

    everything = await _all(settings, None)
    found = [_found(everything, record) for record in records]
    if cut := [name(letter) for letter in found if len(letter.value) >= DEAD_LETTER_BYTES]:
        raise InputError(
            f"the letter about {cut[0]} has only the first {DEAD_LETTER_BYTES} bytes of it", code="letter-cut"
        )
    log = open_log(settings, settings.folder.read())
    try:
        now_ms = SystemClock().now_ms()
        again = [
            NewRecord(
                to=TopicPartition(letter.topic, letter.partition),
                key=letter.key,
                value=letter.value,
                at_ms=now_ms,
                headers=letter.headers,
            )
            for letter in found
        ]
        offsets = await log.append(again)
    finally:
        await log.close()
    return {name(letter): f"{one.to}@{offset}" for letter, one, offset in zip(found, again, offsets, strict=True)}
