"""``steepest dead-letters``: what nobody could read, and a second chance for it.

It owns listing, showing and sending again. It must never mend anything: what is sent again is what was sent.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steepest.cli.options import json_option, state_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.state_folder import StateFolder
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
    """Look after what nobody could read."""


@dead_letters.command(name="list")
@state_option
@click.option("--topic", help="Only what stood on this topic.")
@json_option
def list_(state: Path, *, topic: str | None, as_json: bool) -> None:
    """List the letters, a line each: the record, its key, and why it could not be read."""
    import asyncio

    import msgspec

    from steepest.describe import one_line

    letters = asyncio.run(_all(state, topic))
    for letter in letters:
        if as_json:
            give({"record": name(letter), **msgspec.to_builtins(letter)})
        else:
            tell(f"{name(letter)}  {one_line(letter.key) or '(no key)'}  {one_line(letter.reason)}")
    if not letters and not as_json:
        tell("no dead letters")


@dead_letters.command()
@click.argument("record")
@state_option
@json_option
def show(record: str, state: Path, *, as_json: bool) -> None:
    """Show one letter with all that is known of it; its bytes as they are where they are text."""
    import asyncio

    import msgspec

    letter = asyncio.run(_one(state, record))
    if as_json:
        give({"record": record, **msgspec.to_builtins(letter)})
        return
    tell(f"record   {record}\nkey      {letter.key}\nreason   {letter.reason}")
    for header, text in sorted(letter.headers.items()):
        tell(f"header   {header}: {text}")
    tell(f"value    {len(letter.value)} bytes\n{letter.value.decode('utf-8', 'backslashreplace')}")


@dead_letters.command()
@click.argument("records", nargs=-1, required=True)
@state_option
@json_option
def resend(records: tuple[str, ...], state: Path, *, as_json: bool) -> None:
    """Append the records of these letters to their topic again, byte for byte."""
    import asyncio

    sent = asyncio.run(_resend(state, records))
    if as_json:
        give(sent)
        return
    for old, new in sent.items():
        tell(f"{old} is sent again, as {new}")
    sys.exit(0)


def name(letter: DeadLetter) -> str:
    """What a letter is called."""
    return f"{letter.topic}/{letter.partition}@{letter.offset}"


async def _all(state: Path, topic: str | None) -> list[DeadLetter]:
    from steepest.app.state_folder import StateFolder
    from steepest.cli.stored_pool import reading

    async with reading(StateFolder(state)) as (_, log):
        return [letter async for letter in letters_of(log) if topic in {None, letter.topic}]


async def letters_of(log: Log) -> AsyncIterator[DeadLetter]:
    """Every letter once, in the order in which they were written; several readers tell the same."""
    from steepest.cli.stored_pool import records_to_end
    from steepest.errors import UndecodableError
    from steepest.events.dead_letter import DeadLetter
    from steepest.runtime.decode import received

    told: dict[str, None] = {}
    for at in await log.partitions("dead-letters"):
        async for record in records_to_end(log, at):
            try:
                letter = received(record).event
            except UndecodableError:
                continue
            if isinstance(letter, DeadLetter) and name(letter) not in told:
                told[name(letter)] = None
                yield letter


async def _one(state: Path, record: str) -> DeadLetter:
    return _found(await _all(state, None), record)


def _found(letters: list[DeadLetter], record: str) -> DeadLetter:
    from steepest.errors import InputError

    for letter in letters:
        if name(letter) == record:
            return letter
    raise InputError(f"there is no dead letter about {record}", hint="see `steepest dead-letters list`")


async def _resend(state: Path, records: tuple[str, ...]) -> dict[str, str]:
    """Find all of them before any is sent."""
    from steepest.app.installation import open_log
    from steepest.app.state_folder import StateFolder
    from steepest.clock import SystemClock
    from steepest.errors import InputError
    from steepest.log.base import NewRecord, TopicPartition
    from steepest.runtime.dead_letters import LETTER_BYTES

    everything = await _all(state, None)
    letters = [_found(everything, record) for record in records]
    if cut := [name(letter) for letter in letters if len(letter.value) >= LETTER_BYTES]:
        raise InputError(f"the letter about {cut[0]} has only the first {LETTER_BYTES} bytes of it", code="letter-cut")
    folder: StateFolder = StateFolder(state)
    log = open_log(folder, folder.read())
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
            for letter in letters
        ]
        offsets = await log.append(again)
    finally:
        await log.close()
    return {name(letter): f"{one.to}@{offset}" for letter, one, offset in zip(letters, again, offsets, strict=True)}
