"""``steepest cancel``: stops a job for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import json_option, remote_options
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.user_requests import RequestOutcome

EPILOG = """\b
Examples:
  steepest cancel mnist-3fa2
  steepest cancel mnist-3fa2 --json
  steepest cancel mnist-3fa2 --server kube:     through the gateway in the current kube context

The job's process gets SIGTERM, saves and leaves; it is killed where it does not within its grace. Its output and its
checkpoints stay under the state folder. A step of a move that is under way is finished first.
"""

PATIENCE_S = 45.0
"""A little more than the grace that a process has from SIGTERM to SIGKILL by default."""


@click.command(epilog=EPILOG)
@click.argument("job")
@remote_options
@json_option
def cancel(job: str, settings: Settings, *, as_json: bool) -> None:
    """Stop JOB for good, and wait until it has stopped."""
    import asyncio

    import msgspec

    answer = _by_gateway(settings, job) if settings.client.server else asyncio.run(_cancel(settings, job))
    if as_json:
        give({"job": job, **msgspec.to_builtins(answer)})
        return
    from steepest.describe import ENDED

    tell(f"{job} {ENDED[answer.outcome]}" if answer.outcome else f"{job} will be cancelled {answer.reason}")


def _by_gateway(settings: Settings, job: str) -> RequestOutcome:
    """Ask a gateway, which does not wait for the end."""
    from steepest.cli.pool.remote import client_of, refuse_without_client
    from steepest.cli.pool.user_requests import RequestOutcome

    refuse_without_client(settings)
    with client_of(settings) as gateway:
        answer = gateway.cancel(job, pool=settings.pool)
    return RequestOutcome(state=answer.state, reason=f"by {settings.client.server}")


async def _cancel(settings: Settings, job: str) -> RequestOutcome:
    import asyncio

    from steepest.cli.pool.user_requests import RequestOutcome, append, asking, end_of, new_request
    from steepest.describe import ENDED
    from steepest.errors import InputError
    from steepest.events.cluster import JobCancelRequested

    async with asking(settings) as (log, pool):
        found = pool.job(job)
        if found.outcome is not None:
            raise InputError(f"{job} is over already: it {ENDED[found.outcome]}", code="job-over")
        place = await append(log, pool, JobCancelRequested(job=job, request=new_request()))
        if not pool.folder.is_up:
            return RequestOutcome(state="queued", reason=f"as soon as a system runs on {pool.folder.root}")
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for news in end_of(log, pool, place, job):
                    if isinstance(news, RequestOutcome):
                        return news
        except TimeoutError:
            pass
        return RequestOutcome(
            state="queued", reason=f"and has not stopped within {PATIENCE_S:g} s; see `steepest explain {job}`"
        )
