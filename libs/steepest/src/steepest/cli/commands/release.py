"""``steepest release``: lets jobs go on that are held."""

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
  steepest release mnist-3fa2
  steepest release --array sweep       all of its jobs, also where it has a limit
  steepest release --queue paper

It ends what `hold` and `suspend` began. A job that waits for others (--after, --array N%M) waits no longer for them.
"""


@click.command(epilog=EPILOG)
@selection_options
@installation_options
@json_option
def release(selection: Selection, settings: Settings, *, as_json: bool) -> None:
    """Let JOBS go on that are held or suspended."""
    change_jobs(settings, selection, released, as_json=as_json)


def released(_: StoredPool, job: Job) -> Change | str:
    """The request that a job goes on, or why there is none."""
    if not job.hold:
        return "nothing holds it"
    return "is released", hold(job, held=False)
