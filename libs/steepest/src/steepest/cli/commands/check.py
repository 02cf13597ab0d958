"""``steepest check``: what must hold of a recorded pool's log, and whether it does.

Owns the command's options and both of its outputs. Must never know what a checker looks at.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steepest.cli.printing.output import console, give

if TYPE_CHECKING:
    from steepest.cli.pool.checked_pool import CheckedPool
    from steepest.invariants.verdict import Verdict

POSITIONS_SHOWN = 6
"""Evidence in the table; JSON has all of it."""

EPILOG = """\b
Examples:
  steepest check .steepest             the recording of a running or stopped system
  steepest check tests/golden/demo     a recording by itself
  steepest check RECORDING --json | jq '.pools[].verdicts[] | select(.status == "broken")'
"""


@click.command(epilog=EPILOG)
@click.argument("recording", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json/--no-json", "as_json", default=False, help="Print one JSON object and nothing else.")
def check(recording: Path, *, as_json: bool) -> None:
    """Check in RECORDING what must hold of every pool's log.

    Each invariant holds, is broken, or is unknown where the log proves nothing (it is cut, or asks for a newer reader).
    Exits with 0 if none is broken, with 1 if one is, and with 2 if RECORDING cannot be read.
    """
    import asyncio

    from steepest.cli.pool.checked_pool import check_pools
    from steepest.invariants.verdict import Status

    pools = asyncio.run(check_pools(recording))
    if as_json:
        give({"recording": str(recording), "pools": pools})
    else:
        _show(pools)
    sys.exit(1 if any(verdict.status is Status.BROKEN for pool in pools for verdict in pool.verdicts) else 0)


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
            style = _STYLES[verdict.status.value]
            table.add_row(
                verdict.checker, Text(verdict.status.value, style), _positions(verdict), Text(verdict.message)
            )
        out.print(table)


_STYLES = {"holds": "green", "broken": "bold red", "unknown": "yellow"}


def _positions(verdict: Verdict) -> str:
    more = len(verdict.evidence) - POSITIONS_SHOWN
    shown = " ".join(map(str, verdict.evidence[:POSITIONS_SHOWN]))
    return f"{shown} and {more} more" if more > 0 else shown
