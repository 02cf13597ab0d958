"""What a caller asks of a pool: appended to its log, and answered by the system that runs.

It owns appending and waiting for the answer. What is admitted is the system's to say.
"""

from __future__ import annotations

import asyncio
import secrets

from steepest.clock import Clock
from steepest.errors import InputError, LogUnavailableError
from steepest.events import cluster as c
from steepest.events.registry import GANGS_CHOOSE
from steepest.gateway.answers import Answer, Submission
from steepest.gateway.pools import ServedPool
from steepest.policies.submission import refuse_what_never_fits, with_priority
from steepest.runtime.decode import asked_record
from steepest.view.spec_rules import what_is_wrong

ANSWER_S = 10.0
"""A system that runs admits or rejects within a tick or so."""


class Asking:
    """The door to the logs of pools."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def submit(self, pool: ServedPool, submission: Submission, trace: str = "") -> Answer:
        """Append a job's submission and wait for the answer. ``trace``: the caller's ``traceparent``.

        Raises:
            InputError: It can never run here.
            LogUnavailableError: It may not be kept, or the pool has just been made; the same request may be sent again.
        """
        if not pool.feed.view.is_configured:
            raise LogUnavailableError(
                f"no system has configured pool {pool.feed.name} yet", hint="send the request again"
            )
        spec = with_priority(submission.spec, pool.feed.view.parameters)
        if not spec.command:
            raise InputError("the job has no command")
        if wrong := next(what_is_wrong(spec.counted, gangs_choose=pool.feed.view.has(GANGS_CHOOSE)), None):
            raise InputError(wrong)
        refuse_reserved(spec.env)
        if pool.nodes:
            refuse_what_never_fits(spec, pool.nodes, isolated=pool.isolated)
        request = submission.request or secrets.token_hex(8)
        event = c.JobSubmitted(job=submission.job, request=request, spec=spec)
        return await self._ask(pool, event, submission.job, request, trace)

    async def cancel(self, pool: ServedPool, job: str, trace: str = "") -> Answer:
        """Append the request to stop a job for good. ``trace``: the caller's ``traceparent``.

        Raises:
            InputError: There is no such job, or it is over.
            LogUnavailableError: It may not be kept; the same request may be sent again.
        """
        found = pool.feed.job(job)
        if found.outcome is not None:
            raise InputError(f"{job} is over already", code="job-over")
        request = secrets.token_hex(8)
        offset = await self._append(pool, c.JobCancelRequested(job=job, request=request), trace)
        return Answer(job=job, request=request, state="queued", offset=offset)

    async def _ask(self, pool: ServedPool, event: c.JobSubmitted, job: str, request: str, trace: str) -> Answer:
        with pool.feed.expecting(request) as answered:
            offset = await self._append(pool, event, trace)
            if not pool.feed.is_up():
                return Answer(
                    job=job, request=request, state="queued", offset=offset, reason="no system runs on the pool"
                )
            try:
                async with asyncio.timeout(ANSWER_S):
                    rejection = await asyncio.shield(answered)
            except TimeoutError:
                return Answer(job=job, request=request, state="queued", offset=offset)
        state = "admitted" if rejection is None else "rejected"
        return Answer(job=job, request=request, state=state, offset=offset, reason=rejection or "")

    async def _append(self, pool: ServedPool, event: c.JobSubmitted | c.JobCancelRequested, trace: str) -> int:
        record = asked_record(pool.feed.at, pool.feed.name, event, self._clock.now_ms(), trace)
        (offset,) = await pool.log.append([record])
        return offset


def refuse_reserved(env: dict[str, str]) -> None:
    """Return only if all names of variables are names, and none is the cluster's own.

    Raises:
        InputError: One is not.
    """
    for name in env:
        if not name or "=" in name or "\0" in name or name.startswith("STEEPEST_"):
            raise InputError(f"env {name[:80]!r}: this is no name that a job's variable may have")
