"""``steepest cancel``: stops jobs for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.jobs.selection import selection_options
from steepest.cli.options import json_option, remote_options
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.cli.pool.user_requests import RequestCursor, RequestOutcome
    from steepest.log.base import Log
    from steepest.read_models.changes.selection import Selection

    Answers = list[tuple[str, RequestOutcome]]

EPILOG = """\b
Examples:
  steepest cancel mnist-3fa2
  steepest cancel mnist-3fa2 --json
  steepest cancel 'sweep-*' other       several; quote a pattern, or the shell may take it for names of files
  steepest cancel --array sweep
  steepest cancel mnist-3fa2 --server kube:     through the gateway in the current kube context

The job's process gets SIGTERM, saves and leaves; it is killed where it does not within its grace. Its output and its
checkpoints stay under the state folder. A step of a move that is under way is finished first.
"""

PATIENCE_S = 45.0
"""A little more than the grace that a process has from SIGTERM to SIGKILL by default."""


@click.command(epilog=EPILOG)
@selection_options
@remote_options
@json_option
def cancel(selection: Selection, settings: Settings, *, as_json: bool) -> None:
    """Stop JOBS for good, and wait until they have stopped."""
    import asyncio

    import msgspec

    answers = _by_gateway(settings, selection) if settings.client.server else asyncio.run(_cancel(settings, selection))
    if as_json:
        found = [{"job": job, **msgspec.to_builtins(answer)} for job, answer in answers]
        give(found[0] if selection.single else found)
        return
    from steepest.describe import ENDED

    for job, answer in answers:
        tell(f"{job} {ENDED[answer.outcome]}" if answer.outcome else f"{job} will be cancelled {answer.reason}")


def _by_gateway(settings: Settings, selection: Selection) -> Answers:
    """Ask a gateway, which does not wait for the end."""
    from steepest.cli.pool.remote import change_of, changed
    from steepest.cli.pool.user_requests import RequestOutcome

    outcome = RequestOutcome(state="queued", reason=f"by {settings.client.server}")
    return [(one.name, outcome) for one in changed(settings, change_of("cancel", selection))]


async def _cancel(settings: Settings, selection: Selection) -> Answers:
    import asyncio

    from steepest.cli.pool.user_requests import append, asking, new_request
    from steepest.describe import ENDED
    from steepest.errors import InputError
    from steepest.events.cluster import JobCancelRequested
    from steepest.read_models.changes.selection import select

    async with asking(settings) as (log, pool):
        places = {}
        jobs = select(pool, selection)
        for job in jobs:
            if job.outcome is not None:
                raise InputError(f"{job.name} is over already: it {ENDED[job.outcome]}", code="job-over")
        for job in jobs:
            places[job.name] = await append(log, pool, JobCancelRequested(job=job.name, request=new_request()))
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        return [(job, await _end(log, pool, place, job, deadline)) for job, place in places.items()]


async def _end(log: Log, pool: StoredPool, place: RequestCursor, job: str, deadline: float) -> RequestOutcome:
    import asyncio

    from steepest.cli.pool.user_requests import RequestOutcome, end_of

    if not pool.folder.is_up:
        return RequestOutcome(state="queued", reason=f"as soon as a system runs on {pool.folder.root}")
    try:
        async with asyncio.timeout_at(deadline):
            async for news in end_of(log, pool, place, job):
                if isinstance(news, RequestOutcome):
                    return news
    except TimeoutError:
        pass
    return RequestOutcome(
        state="queued", reason=f"and has not stopped within {PATIENCE_S:g} s; see `steepest explain {job}`"
    )
