"""``steepest resume``: lets suspended jobs go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.commands.release import released
from steepest.cli.jobs.changes import change_jobs
from steepest.cli.jobs.selection import Selection, selection_options
from steepest.cli.options import installation_options, json_option

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings

EPILOG = """\b
Examples:
  steepest resume mnist-3fa2
  steepest resume 'sweep-*'

A job goes on from the checkpoint that it saved, as soon as there is room for it: it waits in the queue as others do.
"""


@click.command(epilog=EPILOG)
@selection_options
@installation_options
@json_option
def resume(selection: Selection, settings: Settings, *, as_json: bool) -> None:
    """Let JOBS go on that `steepest suspend` has stopped."""
    change_jobs(settings, selection, released, as_json=as_json)
