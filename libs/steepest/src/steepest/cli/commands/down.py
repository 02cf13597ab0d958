"""``steepest down``: stops the system on a state folder and, unless jobs are to be kept, what it runs.

It owns the order: first the system, so that nothing is started again, then the jobs' processes, which save and leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import SPAN, installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings

EPILOG = """\b
Examples:
  steepest down
  steepest down --keep-jobs              the jobs train on, and the next `up` takes them over
  steepest down --grace 2min             for jobs that need long to save

After `down`, nothing of the folder runs any more. Jobs are not cancelled: at the next `steepest up` each of them resumes
from its last checkpoint (from its beginning, where it has none), and it costs them no retry.
"""


@click.command(epilog=EPILOG)
@installation_options
@click.option("--stop-jobs/--keep-jobs", default=True, show_default=True, help="Stop the jobs' processes as well.")
@click.option("--grace", type=SPAN, default="30s", show_default=True, help="Wait so long after SIGTERM before SIGKILL.")
@json_option
def down(settings: Settings, *, stop_jobs: bool, grace: int, as_json: bool) -> None:
    """Stop the running system and its jobs. The jobs save their state and resume at the next start."""
    import asyncio
    import time

    from steepest.cli.system.shutdown import stop_all, stop_system

    folder = settings.folder
    installation = folder.read()
    pools = () if settings.pool is None else (settings.pool,)
    asked_s = time.time()
    process = stop_system(folder)
    stopped = asyncio.run(stop_all(folder, installation, grace / 1000, pools, asked_s)) if stop_jobs else []
    if as_json:
        give({"process": process, "jobs": stopped})
        return
    tell(f"no system runs on {folder.root}" if process is None else f"stopped the system (process {process})")
    for job in stopped:
        tell(str(job))
    if stop_jobs and not stopped:
        tell("no job's process was running")
