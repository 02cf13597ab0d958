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
    """Put in force every flag that this version knows, in every pool or in that of --pool; parameters stay."""
    import asyncio

    import msgspec

    from steepest.events.registry import FLAGS

    found = []
    for pool in settings.pools:
        one = msgspec.structs.replace(settings, pool=pool)
        view, wanted = asyncio.run(_upgrade(one, dry_run=dry_run))
        new = [flag for flag in wanted.flags if not view.has(flag)]
        found.append({"flags": new, "reads": wanted.reads, "applied": bool(new) and not dry_run})
        if as_json:
            continue
        whose = f"{pool}: " if len(settings.pools) > 1 else ""
        for flag in new:
            tell(f"{whose}flag {flag}: {FLAGS[flag].says}")
        if not new:
            tell(f"{whose}nothing to switch on: the pool uses all that this version knows")
    if as_json:
        give(found[0] if len(found) == 1 else dict(zip(settings.pools, found, strict=True)))


async def _upgrade(settings: Settings, *, dry_run: bool) -> tuple[ClusterView, PoolConfigured]:
    """The pool as it was, and its new configuration."""
    from steepest.app.configurator import configuration
    from steepest.cli.pool.user_requests import append, asking

    async with asking(settings) as (log, pool):
        wanted = configuration(pool.view, upgrades=True)
        if wanted.flags != pool.view.state.flags and not dry_run:
            await append(log, pool, wanted)
        return pool.view, wanted
