"""``steepest hold``, ``release``, ``suspend``, ``resume``: keep jobs from running for a while, and let them go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from steepest.cli.jobs.changes import Change, change_jobs
from steepest.cli.jobs.selection import Selection, selection_options
from steepest.cli.options import installation_options, json_option

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.view.state import Job

HOLD = """\b
Examples:
  steepest hold mnist-3fa2
  steepest hold 'sweep-*'
  steepest hold --queue paper

A job that is held keeps its place in the queue, and starts once `steepest release` lets it.
"""

RELEASE = """\b
Examples:
  steepest release mnist-3fa2
  steepest release --array sweep       all of its jobs, also where it has a limit
  steepest release --queue paper

It ends what `hold` and `suspend` began. A job that waits for others (--after, --array N%M) waits no longer for them.
"""

SUSPEND = """\b
Examples:
  steepest suspend mnist-3fa2
  steepest suspend --queue night       all that run or wait there

A job saves, stops, and gives its resources back; `steepest resume` lets it go on from there. A job that cannot
save would lose its work, and is refused. One that waits is held.
"""

RESUME = """\b
Examples:
  steepest resume mnist-3fa2
  steepest resume 'sweep-*'

A job goes on from the checkpoint that it saved, as soon as there is room for it: it waits in the queue as others do.
"""


def _held(_: StoredPool, job: Job) -> Change | str:
    if not job.is_queued:
        return f"it has started already; `steepest suspend {job.name}` saves and stops it"
    return "is held", {"held": True}


def _released(_: StoredPool, job: Job) -> Change | str:
    return ("is released", {"held": False}) if job.hold else "nothing holds it"


def _suspended(_: StoredPool, job: Job) -> Change | str:
    from steepest.view.movable import Immovable, immovable

    if job.alive and immovable(job) is Immovable.NO_CHECKPOINT:
        return "it cannot save, and would lose its work; `steepest cancel` stops it for good"
    return "will be suspended" if job.alive else "is held", {"held": True}


def _command(name: str, says: str, examples: str, wanted: Callable[[StoredPool, Job], Change | str]) -> click.Command:
    @click.command(name, help=says, epilog=examples)
    @selection_options
    @installation_options
    @json_option
    def command(selection: Selection, settings: Settings, *, as_json: bool) -> None:
        change_jobs(settings, selection, wanted, as_json=as_json)

    return command


hold = _command("hold", "Keep JOBS that wait from starting.", HOLD, _held)
release = _command("release", "Let JOBS go on that are held or suspended.", RELEASE, _released)
suspend = _command("suspend", "Save and stop JOBS, until they are resumed.", SUSPEND, _suspended)
resume = _command("resume", "Let JOBS go on that `steepest suspend` has stopped.", RESUME, _released)
