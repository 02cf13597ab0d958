"""``JOBS... --array NAME --queue NAME``: how a call names several jobs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click


def selection_options(command: Callable[..., None]) -> Callable[..., None]:
    """``JOBS... --array NAME --queue NAME``, given to the command as ``selection``."""

    @functools.wraps(command)
    def wrapped(*args: Any, jobs: tuple[str, ...], array: str, queue: str, **options: Any) -> None:
        if not (jobs or array or queue):
            raise click.UsageError("name a job, a pattern like 'sweep-*', --array or --queue")
        from steepest.read_models.changes.selection import Selection

        command(*args, selection=Selection(jobs, array, queue), **options)

    arrays = click.option("--array", default="", metavar="NAME", help="Take the jobs of this array.")
    queues = click.option("--queue", default="", metavar="NAME", help="Take the jobs of this queue.")
    return click.argument("jobs", nargs=-1)(arrays(queues(wrapped)))
