"""``steepest profiles``: what was measured of jobs that have trained, by the name of what they train."""

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
    from steepest.policies.pickyman.profiles import Profile, ProfileDatabase
    from steepest.view.cluster_view import ClusterView

EPILOG = """\b
Examples:
  steepest profiles
  steepest profiles --json | jq '.[] | {model, job, epoch_ms}'

Epochs are measured from the traffic between the storage and the nodes (docs/pickyman.md). From four profiles of a model
on, a time model predicts its next jobs.
"""

COLUMNS = ("model", "job", "#epoch", "#read", "#epochs", "#measured", "#batch", "#workers", "#load")


@click.command(epilog=EPILOG)
@installation_options
@json_option
def profiles(settings: Settings, *, as_json: bool) -> None:
    """Show the profiled jobs of each model, from the log."""
    import asyncio

    import msgspec

    database, pool = asyncio.run(_read(settings))
    found = [(model, one) for model, known in sorted(database.models.items()) for one in known.profiles]
    if as_json:
        give([{"model": model, **msgspec.to_builtins(one)} for model, one in found])
        return
    if found:
        from steepest.cli.printing.tables import show

        show(COLUMNS, [_row(model, one) for model, one in found])
    else:
        tell("no epoch of a job with a --model was measured yet")
    if pool.note:
        tell(pool.note, err=True)


def _row(model: str, one: Profile) -> list[str]:
    from steepest.describe import span
    from steepest.describe.units import data

    return [
        model,
        one.job,
        span(round(one.epoch_ms)),
        data(one.epoch_bytes),
        "–" if one.epochs is None else f"{one.epochs:g}",
        str(one.measured),
        "–" if one.batch_size is None else str(one.batch_size),
        str(one.workers),
        "–" if one.load_ms is None else span(one.load_ms),
    ]


async def _read(settings: Settings) -> tuple[ProfileDatabase, StoredPool]:
    """The database, folded from the log's first record."""
    from steepest.cli.pool.stored_pool import fold, reading
    from steepest.policies.pickyman.profiles import ProfileDatabase, learn_from

    database = ProfileDatabase()

    def hear(view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        if accepted:
            learn_from(database, view, received.event, received.at_ms, view.parameters.pickyman.profiles)

    async with reading(settings) as (installation, log):
        pool = await fold(settings, installation, log, on_record=hear)
    return database, pool
