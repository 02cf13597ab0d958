"""What a user asks of a pool: appended to its log, where the system reads it now or when it runs again.

It owns appending and waiting for the answer. It must never decide whether a request is good.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from steepest.cli.follow import first, what_counts
from steepest.cli.pool import Pool, fold
from steepest.cli.quiet import quiet
from steepest.clock import SystemClock
from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.installation import open_log
from steepest.log.base import Log
from steepest.runtime.decode import new_record
from steepest.state_folder import StateFolder

ANSWER_S = 10.0
"""A system that runs admits or rejects within a tick or so."""

READY_S = 5.0
"""A system that has just been started for the first time opens its log within this time."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request.

    Attributes:
        state: ``admitted``, ``rejected``, ``ended``; or ``queued``: nobody has answered yet.
    """

    state: str
    reason: str = ""
    outcome: c.Outcome | None = None
    exit_status: int | None = None


def new_request() -> str:
    """A name for a request, so that sending it twice asks once."""
    return secrets.token_hex(8)


@asynccontextmanager
async def asking(folder: StateFolder) -> AsyncIterator[tuple[Log, Pool]]:
    """A pool's log, to be appended to, and the pool as it stands.

    Raises:
        InputError: There is no installation in the folder, or no system ever ran on it.
    """
    quiet()
    installation = folder.read()
    log = open_log(folder, installation)
    try:
        at = installation.layout.of_pool(installation.pool)
        if not await log.end(at) and await first(log, {at: 0}, _opened, READY_S) is None:
            # The first record of a partition is its identity, and only a system gives it one.
            raise InputError(f"no system ever ran on {folder.root}", mend="start one with `steepest up`")
        yield log, await fold(folder, installation, log)
    finally:
        await log.close()


def _opened(received: Received[c.ClusterEvent]) -> str | None:
    return received.event.epoch if isinstance(received.event, c.LogOpened) else None


Request = c.JobSubmitted | c.JobCancelRequested | c.PoolConfigured


async def append(log: Log, pool: Pool, event: Request) -> int:
    """Append a request and give its offset.

    Raises:
        LogUnavailableError: It may not be kept; the same request may be sent again.
    """
    record = new_record(pool.at, pool.installation.pool, event, SystemClock().now_ms())
    return (await log.append([record]))[0]


async def admission(log: Log, pool: Pool, offset: int, request: str) -> Answer:
    """Whether a submission that stands at ``offset`` was admitted."""

    def answers(received: Received[c.ClusterEvent]) -> Answer | None:
        match received.event:
            case c.JobAdmitted(request=about) if about == request:
                return Answer(state="admitted")
            case c.JobRejected(request=about, reason=reason) if about == request:
                return Answer(state="rejected", reason=reason)
        return None

    return await first(log, {pool.at: offset}, answers, ANSWER_S) or Answer(state="queued")


async def end_of(log: Log, pool: Pool, job: str) -> AsyncIterator[Received[c.ClusterEvent] | Answer | None]:
    """What happens to a job until it is over, and how it ended; None now and then while nothing happens."""
    async for event in what_counts(log, pool):
        if event is None:
            yield None
            continue
        if getattr(event.event, "job", None) != job:
            continue
        yield event
        found = pool.view.jobs.get(job)
        if found is not None and found.outcome is not None:
            yield Answer(state="ended", outcome=found.outcome, exit_status=found.exit_status, reason=found.stop_reason)
            return
