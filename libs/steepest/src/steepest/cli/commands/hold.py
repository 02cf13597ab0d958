"""``steepest hold``: keeps jobs that wait from starting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.jobs.changes import Change, change_jobs
from steepest.cli.jobs.changes import hold as hold_request
from steepest.cli.jobs.selection import Selection, selection_options
from steepest.cli.options import installation_options, json_option

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.view.state import Job

EPILOG = """\b
Examples:
  steepest hold mnist-3fa2
  steepest hold 'sweep-*'
  steepest hold --queue paper

A job that is held keeps its place in the queue, and starts once `steepest release` lets it.
"""


@click.command(epilog=EPILOG)
@selection_options
@installation_options
@json_option
def hold(selection: Selection, settings: Settings, *, as_json: bool) -> None:
    """Keep JOBS that wait from starting."""
    change_jobs(settings, selection, _held, as_json=as_json)


def _held(_: StoredPool, job: Job) -> Change | str:
    if not job.is_queued:
        return f"it has started already; `steepest suspend {job.name}` saves and stops it"
    return "is held", hold_request(job, held=True)
