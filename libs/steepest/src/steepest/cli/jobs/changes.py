"""Requests about jobs that are there: each of those that a call names gets one, and one line says what became of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.jobs.selection import Selection
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.view.state import Job

Change = tuple[str, dict[str, Any]]
"""What becomes of a job, as the rest of a sentence about it, and the fields of ``JobChangeRequested`` that say so."""


def change_jobs(
    settings: Settings, selection: Selection, wanted: Callable[[StoredPool, Job], Change | str], *, as_json: bool
) -> None:
    """Append a request for each job that is named; ``wanted`` gives it, or says why there is none.

    Exits with 1 where a job of several that are named is refused. Of patterns, arrays and queues, those are left out.

    Raises:
        InputError: The one job that is named is refused, or all of those that are meant.
    """
    import asyncio

    answers = asyncio.run(_change(settings, selection, wanted))
    if as_json:
        give([{"job": job, "done": done, "reason": "" if done else said} for job, said, done in answers])
    else:
        for job, said, done in answers:
            tell(f"{job} {said}" if done else f"Error: {job}: {said}", err=not done)
    sys.exit(0 if all(done for *_, done in answers) else 1)


async def _change(
    settings: Settings, selection: Selection, wanted: Callable[[StoredPool, Job], Change | str]
) -> list[tuple[str, str, bool]]:
    from steepest.cli.jobs.selection import select
    from steepest.cli.pool.user_requests import append, asking, new_request
    from steepest.errors import InputError
    from steepest.events.cluster import JobChangeRequested

    answers = []
    async with asking(settings) as (log, pool):
        for job in select(pool, selection):
            change = "it is over" if job.outcome is not None else wanted(pool, job)
            if isinstance(change, str):
                answers.append((job.name, change, False))
                continue
            await append(log, pool, JobChangeRequested(job=job.name, request=new_request(), **change[1]))
            later = "" if pool.folder.is_up else f" as soon as a system runs on {pool.folder.root}"
            answers.append((job.name, f"{change[0]}{later}", True))
    if not any(done for *_, done in answers):
        raise InputError(": ".join(answers[0][:2]), code="not-changed")
    return [answer for answer in answers if answer[2] or answer[0] in selection.names]
