"""``steepest retry``: submits jobs again that are over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.jobs.selection import selection_options
from steepest.cli.options import json_option, remote_options
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.read_models.changes.selection import Selection

EPILOG = """\b
Examples:
  steepest retry mnist-3fa2            begins again, as mnist-3fa2.2
  steepest retry 'sweep-*'             those that failed or were cancelled

The same command runs again from its beginning, with the options that it was submitted with. A job begins as a new one, with
a name of its own.
"""


@click.command(epilog=EPILOG)
@selection_options
@remote_options
@json_option
def retry(selection: Selection, settings: Settings, *, as_json: bool) -> None:
    """Submit JOBS again that have failed or were cancelled."""
    import asyncio

    if settings.client.server:
        from steepest.cli.pool.remote import change_of, changed

        names = [(one.name, one.again) for one in changed(settings, change_of("retry", selection)) if one.done]
    else:
        names = asyncio.run(_retry(settings, selection))
    if as_json:
        give([{"job": before, "again": after} for before, after in names])
        return
    for before, after in names:
        tell(f"{before} runs again as {after}")


async def _retry(settings: Settings, selection: Selection) -> list[tuple[str, str]]:
    from steepest.cli.pool.user_requests import append, asking, submission
    from steepest.errors import InputError
    from steepest.read_models.changes.job_changes import ChangeKind, again, changes, name_of_retry
    from steepest.runtime.decode import submission_at

    names = []
    async with asking(settings) as (log, pool):
        found = changes(pool, ChangeKind.RETRY, selection)
        for job, change in found:
            if not change.done:
                raise InputError(f"{job.name}: {change.said}; none runs again", code="not-changed")
        for job, _ in found:
            before = await submission_at(log, pool.at, job.submitted_offset, job.request)
            name = name_of_retry(pool.view, job)
            await append(log, pool, submission(name, again(before.spec)))
            names.append((job.name, name))
    return names
