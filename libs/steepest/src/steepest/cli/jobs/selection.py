"""``JOBS... --array NAME --queue NAME --node NAME``: how a call names several jobs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click


def selection_options(command: Callable[..., None]) -> Callable[..., None]:
    """``JOBS... --array NAME --queue NAME --node NAME``, given to the command as ``selection``."""

    @functools.wraps(command)
    def wrapped(*args: Any, jobs: tuple[str, ...], array: str, queue: str, node: str, **options: Any) -> None:
        if not (jobs or array or queue or node):
            raise click.UsageError("name a job, a pattern like 'sweep-*', --array, --queue or --node")
        from steepest.read_models.changes.selection import Selection

        command(*args, selection=Selection(jobs, array, queue, node), **options)

    arrays = click.option("--array", default="", metavar="NAME", help="Take the jobs of this array.")
    queues = click.option("--queue", default="", metavar="NAME", help="Take the jobs of this queue.")
    nodes = click.option("--node", default="", metavar="NAME", help="Take the jobs that are on this node.")
    return click.argument("jobs", nargs=-1)(arrays(queues(nodes(wrapped))))
