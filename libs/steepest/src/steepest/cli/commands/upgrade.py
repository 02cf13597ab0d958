"""``steepest upgrade``: puts in force what this version knows and a pool does not use yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.events.cluster import PoolConfigured
    from steepest.view.cluster_view import ClusterView

EPILOG = """\b
Examples:
  steepest upgrade --dry-run
  steepest upgrade

Call it on Kafka once every service is of this version: an older one stops at the record that this appends, and says so.
In one process `steepest up` does the same at its start.
"""


@click.command(epilog=EPILOG)
@installation_options
@click.option("--dry-run/--no-dry-run", default=False, help="Show what would be put in force, and change nothing.")
@json_option
def upgrade(settings: Settings, *, dry_run: bool, as_json: bool) -> None:
    """Put in force every flag that this version knows; parameters stay."""
    import asyncio

    from steepest.events.registry import FLAGS

    view, wanted = asyncio.run(_upgrade(settings, dry_run=dry_run))
    new = [flag for flag in wanted.flags if not view.has(flag)]
    if as_json:
        give({"flags": new, "reads": wanted.reads, "applied": bool(new) and not dry_run})
        return
    for flag in new:
        tell(f"flag {flag}: {FLAGS[flag].says}")
    if not new:
        tell("the pool uses all that this version knows")


async def _upgrade(settings: Settings, *, dry_run: bool) -> tuple[ClusterView, PoolConfigured]:
    """The pool as it was, and its new configuration."""
    from steepest.app.configurator import configuration
    from steepest.cli.pool.user_requests import append, asking

    async with asking(settings) as (log, pool):
        wanted = configuration(pool.view, upgrades=True)
        if wanted.flags != pool.view.state.flags and not dry_run:
            await append(log, pool, wanted)
        return pool.view, wanted
