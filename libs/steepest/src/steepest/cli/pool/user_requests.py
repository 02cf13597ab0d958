"""A user's requests to a pool: appended to its log, where the system reads them now or when it runs again.

It owns appending and waiting for the answer. It must never decide whether a request is good.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from steepest.app.installation import login_name, open_log
from steepest.app.settings.tree import Settings
from steepest.cli.pool.follow import first, what_counts
from steepest.cli.pool.stored_pool import StoredPool, fold
from steepest.clock import SystemClock
from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.dead_letter import DeadLetter
from steepest.events.received import Received
from steepest.log.base import Log, TopicPartition
from steepest.runtime.decode import asked_record
from steepest.runtime.layout import DEAD_LETTERS
from steepest.view.state import Job

ANSWER_S = 10.0
"""A system that runs admits or rejects within a tick or so."""

READY_S = 5.0
"""A system that has just been started for the first time opens its log within this time."""

CONFIGURED_S = 30.0
"""A system that runs opens its log and configures a new pool within this time, also where its services learn of it from
Kafka."""


class RequestOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a request.

    Attributes:
        state: ``admitted``, ``rejected``, ``ended``; or ``queued``: no system has answered yet.
    """

    state: str
    reason: str = ""
    outcome: c.Outcome | None = None
    exit_status: int | None = None


def new_request() -> str:
    """A name for a request, so that sending it twice asks once."""
    return os.urandom(8).hex()


def submission(job: str, spec: c.JobSpec) -> c.JobSubmitted:
    """The request for a job of the person who runs this process: a process that may write the log is believed."""
    return c.JobSubmitted(job=job, request=new_request(), spec=spec, user=login_name())


@asynccontextmanager
async def asking(settings: Settings) -> AsyncIterator[tuple[Log, StoredPool]]:
    """A pool's log, to be appended to, and the pool as it stands.

    Raises:
        InputError: There is no installation in the folder, or no system ever ran on it.
    """
    installation = settings.folder.read()
    log = open_log(settings, installation)
    try:
        at = installation.layout.of_pool(settings.pool or installation.pool)
        starts = settings.folder.is_up
        if not await log.end(at) and await first(log, {at: 0}, _opened, CONFIGURED_S if starts else READY_S) is None:
            # The first record of a partition is its identity, and only a system gives it one.
            root = settings.folder.root
            if starts:
                raise InputError(f"the system on {root} has not opened its log yet", hint="try again in a moment")
            raise InputError(f"no system ever ran on {root}", hint="start one with `steepest up`")
        yield log, await fold(settings, installation, log)
    finally:
        await log.close()


async def until_configured(settings: Settings, log: Log, pool: StoredPool) -> StoredPool:
    """The pool once it is configured.

    Raises:
        InputError: No system has configured it in time.
    """
    if pool.view.is_configured:
        return pool
    if await first(log, {pool.at: pool.view.position}, _configured, CONFIGURED_S) is None:
        raise InputError(
            f"no system has configured pool {pool.name} yet", hint="start one with `steepest up`, or try again"
        )
    return await fold(settings, pool.installation, log)


async def elsewhere(settings: Settings, pool: StoredPool, log: Log) -> list[StoredPool]:
    """The other pools of an installation as they stand: those on which a system ever ran."""
    names = [name for name in pool.installation.layout.pools if name != pool.name]
    ran = [name for name in names if await log.end(pool.installation.layout.of_pool(name))]
    return [await fold(msgspec.structs.replace(settings, pool=name), pool.installation, log) for name in ran]


def _opened(received: Received[c.ClusterEvent]) -> str | None:
    return received.event.epoch if isinstance(received.event, c.LogOpened) else None


def _configured(received: Received[c.ClusterEvent]) -> bool | None:
    return isinstance(received.event, c.PoolConfigured) or None


Request = (
    c.JobSubmitted
    | c.JobCancelRequested
    | c.JobChangeRequested
    | c.MigrationPlanned
    | c.NodeDrainRequested
    | c.PoolConfigured
    | c.NodeGone
)


class RequestCursor(msgspec.Struct, frozen=True):
    """Where a request stands.

    Attributes:
        offset: In the pool's partition.
        dead_letters: Where the dead dead_letters ended before: one about it is not before this.
        request: What it is called.
    """

    offset: int
    dead_letters: int
    request: str


async def append(log: Log, pool: StoredPool, event: Request) -> RequestCursor:
    """Append a request and give its place.

    Raises:
        InputError: No reader could read it.
        LogUnavailableError: It may not be kept; the same request may be sent again.
    """
    record = asked_record(pool.at, pool.name, event, SystemClock().now_ms())
    dead_letters = await log.end(DEAD_LETTERS)
    (offset,) = await log.append([record])
    return RequestCursor(offset, dead_letters, getattr(event, "request", ""))


async def admission(log: Log, pool: StoredPool, place: RequestCursor) -> RequestOutcome:
    """Whether a submission was admitted."""

    def answers(received: Received[Any]) -> RequestOutcome | None:
        match received.event:
            case c.JobAdmitted(request=about) if about == place.request:
                return RequestOutcome(state="admitted")
        return _rejection(pool, place, received.event)

    since = {pool.at: place.offset, DEAD_LETTERS: place.dead_letters}
    return await first(log, since, answers, ANSWER_S) or RequestOutcome(state="queued")


def _rejection(pool: StoredPool, place: RequestCursor, event: Any) -> RequestOutcome | None:
    """The answer in an event that rejects a request, or in the dead letter of a system that cannot read it."""
    match event:
        case c.JobRejected(request=about, reason=reason) if about == place.request:
            return RequestOutcome(state="rejected", reason=reason)
        case DeadLetter(topic=topic, partition=partition, offset=offset, reason=reason) if (
            TopicPartition(topic, partition),
            offset,
        ) == (pool.at, place.offset):
            return RequestOutcome(state="rejected", reason=f"the system that runs cannot read it: {reason}")
    return None


def _is_of_a_namesake(event: Any, job: Job | None) -> bool:
    return isinstance(event, c.JobRejected) and job is not None and event.request != job.request


async def end_of(
    log: Log, pool: StoredPool, place: RequestCursor, job: str
) -> AsyncIterator[Received[c.ClusterEvent] | RequestOutcome | None]:
    """What happens to a job until it is over, and how it ended; None now and then while nothing happens.

    That the request is rejected, or that it cannot be read, is an end as well.
    """
    if end := _end(pool, job):  # while another job was waited for
        yield end
        return
    async for event in what_counts(log, pool, {DEAD_LETTERS: place.dead_letters}):
        if event is None:
            yield None
            continue
        if answer := _rejection(pool, place, event.event):
            yield answer
            return
        if getattr(event.event, "job", None) != job or _is_of_a_namesake(event.event, pool.view.jobs.get(job)):
            continue
        yield event
        if end := _end(pool, job):
            yield end
            return


def _end(pool: StoredPool, job: str) -> RequestOutcome | None:
    found = pool.view.jobs.get(job)
    if found is None or found.outcome is None:
        return None
    return RequestOutcome(state="ended", outcome=found.outcome, exit_status=found.exit_status, reason=found.stop_reason)
