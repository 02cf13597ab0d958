"""``steepest suspend``: saves running jobs and stops them, until they are resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.jobs.changes import Change, change_jobs, hold
from steepest.cli.jobs.selection import Selection, selection_options
from steepest.cli.options import installation_options, json_option

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.view.state import Job

EPILOG = """\b
Examples:
  steepest suspend mnist-3fa2
  steepest suspend --queue night       all that run or wait there

A job saves, stops, and gives its resources back; `steepest resume` lets it go on from there. A job that cannot
save would lose its work, and is refused. One that waits is held.
"""


@click.command(epilog=EPILOG)
@selection_options
@installation_options
@json_option
def suspend(selection: Selection, settings: Settings, *, as_json: bool) -> None:
    """Save and stop JOBS, until they are resumed."""
    change_jobs(settings, selection, _suspended, as_json=as_json)


def _suspended(_: StoredPool, job: Job) -> Change | str:
    from steepest.view.movable import Immovable, immovable

    if job.alive and immovable(job) is Immovable.NO_CHECKPOINT:
        return "it cannot save, and would lose its work; `steepest cancel` stops it for good"
    return "will be suspended" if job.alive else "is held", hold(job, held=True)
