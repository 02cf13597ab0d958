"""``steepest check``: what must hold of a recorded pool's log, and whether it does.

Owns the command's options and both of its outputs. Must never know what a checker looks at.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from steepest.cli.printing.output import console, give
from steepest.errors import InputError, SteepestError, UndecodableError
from steepest.invariants.verdict import Status, Verdict

if TYPE_CHECKING:
    from steepest.invariants import AnnouncedParameters
    from steepest.log.base import TopicPartition
    from steepest.log.files.file_log import FileLog

POSITIONS_SHOWN = 6
"""Evidence in the table; JSON has all of it."""

EPILOG = """\b
Examples:
  steepest check .steepest             the recording of a running or stopped system
  steepest check tests/golden/demo     a recording by itself
  steepest check RECORDING --json | jq '.pools[].verdicts[] | select(.status == "broken")'
"""


class CheckedPool(msgspec.Struct, kw_only=True):
    """What was found in one partition of ``cluster``.

    Attributes:
        pool: The pool's name; empty where no record says it.
        unreadable: Offsets of records that are no events; they were passed over, as every reader does.
    """

    partition: int
    pool: str = ""
    records: int = 0
    unreadable: list[int] = msgspec.field(default_factory=list)
    verdicts: list[Verdict] = msgspec.field(default_factory=list)


@click.command(epilog=EPILOG)
@click.argument("recording", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json/--no-json", "as_json", default=False, help="Print one JSON object and nothing else.")
def check(recording: Path, *, as_json: bool) -> None:
    """Check in RECORDING what must hold of every pool's log.

    Each invariant holds, is broken, or is unknown where the log proves nothing (it is cut, or asks for a newer reader).
    Exits with 0 if none is broken, with 1 if one is, and with 2 if RECORDING cannot be read.
    """
    try:
        pools = asyncio.run(_check(recording))
    except SteepestError as error:
        raise click.UsageError(f"{error}{f' ({error.hint})' if error.hint else ''}") from None
    if as_json:
        give({"recording": str(recording), "pools": pools})
    else:
        _show(pools)
    sys.exit(1 if any(verdict.status is Status.BROKEN for pool in pools for verdict in pool.verdicts) else 0)


async def _check(recording: Path) -> list[CheckedPool]:
    from steepest.cli.commands.replay import log_folder
    from steepest.log.files.file_log import FileLog

    log = FileLog.open(log_folder(recording), read_only=True)
    try:
        pools, watched = await log.partitions("cluster"), await _watched(log)
        return [await _audit(log, at, watched) for at in pools]
    finally:
        await log.close()


async def _watched(log: FileLog) -> AnnouncedParameters:
    """What jobs were judged by; nothing is known of it where a recording has no losses."""
    from steepest.cli.pool.stored_pool import records_to_end
    from steepest.invariants import AnnouncedParameters
    from steepest.runtime.decode import received

    watched = AnnouncedParameters()
    for at in await log.partitions("loss") if "loss" in log.topics else ():
        async for record in records_to_end(log, at):
            with contextlib.suppress(UndecodableError):
                watched.feed(received(record))
    return watched


async def _audit(log: FileLog, at: TopicPartition, watched: AnnouncedParameters) -> CheckedPool:
    """One pool's log from its first record to what is its end now.

    Raises:
        InputError: Its first record is not there.
    """
    from steepest.cli.pool.stored_pool import records_to_end
    from steepest.invariants import Audit, all_with
    from steepest.runtime.decode import received

    if begin := await log.begin(at):
        raise InputError(
            f"the recording of {at} begins at {begin}: what holds from there on depends on what came before",
            code="offset-missing",
            hint="check a recording that was begun before the first records were removed",
        )
    audit, pool = Audit(all_with(watched)), CheckedPool(partition=at.partition)
    async for record in records_to_end(log, at):
        pool.records += 1
        pool.pool = pool.pool or record.key
        try:
            audit.feed(received(record))
        except UndecodableError:
            pool.unreadable.append(record.offset)
            audit.skip(record.offset)
    pool.verdicts = audit.verdicts()
    return pool


def _show(pools: list[CheckedPool]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    for pool in pools:
        unreadable = f", {len(pool.unreadable)} of them unreadable" if pool.unreadable else ""
        title = f"pool {pool.pool or '(no name)'}: cluster/{pool.partition}, {pool.records} records{unreadable}"
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for column in ("invariant", "verdict", "records", "what the log says"):
            table.add_column(column, overflow="fold")
        for verdict in pool.verdicts:
            style = _STYLES[verdict.status]
            table.add_row(
                verdict.checker, Text(verdict.status.value, style), _positions(verdict), Text(verdict.message)
            )
        out.print(table)


_STYLES = {Status.HOLDS: "green", Status.BROKEN: "bold red", Status.UNKNOWN: "yellow"}


def _positions(verdict: Verdict) -> str:
    more = len(verdict.evidence) - POSITIONS_SHOWN
    shown = " ".join(map(str, verdict.evidence[:POSITIONS_SHOWN]))
    return f"{shown} and {more} more" if more > 0 else shown
