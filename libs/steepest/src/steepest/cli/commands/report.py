"""``steepest report``: the hours that jobs held, and how much of them without effect, by week, queue and user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.events import cluster as c
    from steepest.events.received import Received
    from steepest.read_models.held_hours import HoldingRow
    from steepest.view.cluster_view import ClusterView

EPILOG = """\b
Examples:
  steepest report
  steepest report --json | jq 'map(select(.user == "alice" and .finding == "hung")) | map(.gpu_hours) | add'

A job holds what it reserves while its processes run (docs/watching.md). The row `all` is what a user's jobs of a week and
queue held in all.
"""

COLUMNS = ("week", "queue", "user", "finding", "#jobs", "#cpu hours", "#gpu hours", "#share")


@click.command(epilog=EPILOG)
@installation_options
@json_option
def report(settings: Settings, *, as_json: bool) -> None:
    """Show the CPU and GPU hours that jobs held while they were hung, idle, diverged or on a plateau, from the log."""
    import asyncio

    rows, pool = asyncio.run(_read(settings))
    if as_json:
        give(rows)
        return
    if rows:
        from steepest.cli.printing.tables import show

        show(COLUMNS, _cells(rows))
    else:
        tell("no job has held anything yet")
    if pool.note:
        tell(pool.note, err=True)


def _cells(rows: list[HoldingRow]) -> list[list[str]]:
    """The share of a finding is that of all GPU hours of its week, queue and user, or of CPU hours where there are none."""
    from steepest.read_models.held_hours import ALL

    held = {(row.week, row.queue, row.user): row for row in rows if row.finding == ALL}
    cells = []
    for row in rows:
        total = held[row.week, row.queue, row.user]
        share = row.gpu_hours / total.gpu_hours if total.gpu_hours else row.cpu_hours / (total.cpu_hours or 1)
        hours = [f"{row.cpu_hours:.2f}", f"{row.gpu_hours:.2f}"]
        said = "" if row is total else f"{100 * share:.1f} %"
        cells.append([row.week, row.queue, row.user or "-", row.finding, str(row.jobs), *hours, said])
    return cells


async def _read(settings: Settings) -> tuple[list[HoldingRow], StoredPool]:
    """The rows, folded from the log's first record."""
    from steepest.cli.pool.stored_pool import fold, reading
    from steepest.read_models.held_hours import HeldHours

    hours, at_ms = HeldHours(), 0

    def hear(view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        nonlocal at_ms
        at_ms = received.at_ms
        name = getattr(received.event, "job", None) if accepted else None
        if name is not None and (job := view.jobs.get(name)) is not None:
            hours.hear(view, job, received.at_ms)

    async with reading(settings) as (installation, log):
        pool = await fold(settings, installation, log, on_record=hear)
    return hours.rows(pool.view, at_ms), pool
