"""``steepest retry``: submits jobs again that are over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from steepest.cli.jobs.selection import Selection, selection_options
from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.events.cluster import JobSubmitted
    from steepest.events.received import Received
    from steepest.log.base import Log
    from steepest.view.state import Job

EPILOG = """\b
Examples:
  steepest retry mnist-3fa2            begins again, as mnist-3fa2.2
  steepest retry 'sweep-*'             those that failed or were cancelled

The same command runs again from its beginning, with the options that it was submitted with. A job begins as a new one, with
a name of its own.
"""


@click.command(epilog=EPILOG)
@selection_options
@installation_options
@json_option
def retry(selection: Selection, settings: Settings, *, as_json: bool) -> None:
    """Submit JOBS again that have failed or were cancelled."""
    import asyncio

    names = asyncio.run(_retry(settings, selection))
    if as_json:
        give([{"job": before, "again": after} for before, after in names])
        return
    for before, after in names:
        tell(f"{before} runs again as {after}")


async def _retry(settings: Settings, selection: Selection) -> list[tuple[str, str]]:
    import msgspec

    from steepest.cli.jobs.job_names import free_name
    from steepest.cli.jobs.selection import select
    from steepest.cli.pool.user_requests import append, asking, new_request
    from steepest.errors import InputError
    from steepest.events.cluster import JobSubmitted, Outcome

    names = []
    async with asking(settings) as (log, pool):
        jobs, chosen = pool.view.jobs, select(pool, selection, over=True)
        if running := [job.name for job in chosen if job.outcome is None]:
            raise InputError(f"{running[0]} is not over", hint="`steepest cancel` stops it")
        failed = [job for job in chosen if job.outcome is not Outcome.FINISHED or selection.single]
        for job in failed:
            before = await _submission(log, pool, job)
            name = free_name(job.name, lambda each: None if each not in jobs else jobs[each].outcome is not None)
            spec = msgspec.structs.replace(before.spec, after=(), array="", array_most=None)
            await append(log, pool, JobSubmitted(job=name, request=new_request(), spec=spec))
            names.append((job.name, name))
    return names


async def _submission(log: Log, pool: StoredPool, job: Job) -> JobSubmitted:
    """The request that a job was submitted by: of a job that is over, the view keeps a part of it."""
    from steepest.cli.pool.follow import first
    from steepest.errors import InputError

    def found(received: Received[Any]) -> JobSubmitted | None:
        return received.event if getattr(received.event, "request", "") == job.request else None

    is_kept = await log.begin(pool.at) <= job.submitted_offset
    event = await first(log, {pool.at: job.submitted_offset}, found, 10.0) if is_kept else None
    if event is None:
        raise InputError(f"the log no longer has the submission of {job.name}", hint="submit it again")
    return event
