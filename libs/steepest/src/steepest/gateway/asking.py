"""A caller's requests to a pool: appended to its log, and answered by the system that runs.

It owns appending and waiting for the answer. What is admitted is the system's to say.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
from collections.abc import Sequence

import msgspec

from steepest.app.installation import checked
from steepest.clock import Clock
from steepest.errors import InputError, LogUnavailableError, SteepestError
from steepest.events import cluster as c
from steepest.gateway.access import Caller, Grants
from steepest.gateway.answers import Answer, ChangeAnswer, Changed, ChangeRequest, Submission
from steepest.gateway.pools import ServedPool
from steepest.policies.submission import ARRAY_INDEX
from steepest.read_models.changes.job_changes import (
    OF_NODES,
    ChangeKind,
    OfferedChange,
    again,
    change_of_node,
    changes,
    name_of_retry,
)
from steepest.read_models.changes.selection import Selection
from steepest.runtime.decode import asked_record, submission_at
from steepest.view.state import Job

ANSWER_S = 10.0
"""A system that runs admits or rejects within a tick or so."""

SPEC_MOST = 32 * 1024
"""Bytes of a job's description: every process that follows the pool keeps it in memory."""

OPEN_MOST = 10_000
OPEN_BYTES = 32 * 2**20
"""The most unfinished jobs, and bytes of their commands and variables, of a caller and of a queue."""


CHANGES_KEPT = 100
"""The newest changes, whose answers are given again to the same request."""

MOVES_SEEN = 100
"""The newest moves by which it is said how long a pause takes."""

NO_SYSTEM = "as soon as a system runs on the pool"


class Asking:
    """The door to the logs of pools."""

    def __init__(self, clock: Clock, grants: Grants) -> None:
        self._clock = clock
        self._grants = grants
        self._asked: dict[str, dict[tuple[str, str], _Asked]] = {}
        self._changes: dict[tuple[str, str, str], asyncio.Task[Changed]] = {}

    async def submit(self, pool: ServedPool, submission: Submission, caller: Caller, trace: str = "") -> Answer:
        """Append a job's submission and wait for the answer. ``trace``: the caller's ``traceparent``.

        A request that was answered before is answered again, and nothing is appended.

        Raises:
            InputError: It can never run here; with the code ``too-many-jobs``: not before others are over.
            AccessRefusedError: The caller may not ask for its priority.
            LogUnavailableError: It may not be kept, or the pool has just been made; the same request may be sent again.
        """
        if not pool.feed.view.is_configured:
            raise LogUnavailableError(
                f"no system has configured pool {pool.feed.name} yet", hint="send the request again"
            )
        before = pool.feed.view.jobs.get(submission.job)
        if before and before.request == submission.request and (before.admitted or before.outcome is not None):
            return _answered(before)
        spec = checked(pool.installation, pool.feed.name, pool.feed.view, submission.job, submission.spec)
        self._grants.refuse_priority(spec.priority, caller.role)
        refuse_reserved(spec.env)
        if (size := len(msgspec.json.encode(spec))) > SPEC_MOST:
            raise InputError(f"the job is described in {size} bytes, and {SPEC_MOST} are taken", code="too-large")
        request = submission.request or secrets.token_hex(8)
        asked = _Asked(pool, c.JobSubmitted(job=submission.job, request=request, spec=spec, user=caller.user))
        open_ones = self._refuse_more(asked, caller)
        open_ones[pool.feed.name, request] = asked
        try:
            return await self._ask(asked, trace)
        finally:
            if asked.offset is None:
                del open_ones[pool.feed.name, request]

    def _refuse_more(self, asked: _Asked, caller: Caller) -> dict[tuple[str, str], _Asked]:
        """The requests of the caller that are not over.

        Raises:
            InputError: That, or what its queue has, is as much as is taken.
        """
        mine = self._asked.setdefault(caller.name, {})
        for name in [name for name, one in mine.items() if one.is_over]:
            del mine[name]
        spec = asked.event.spec
        queued = [job.spec for job in asked.pool.feed.view.jobs if job.outcome is None and job.spec.queue == spec.queue]
        for whose, specs in (("this token", [one.event.spec for one in mine.values()]), (spec.queue, queued)):
            size = sum(map(_size, specs))
            if len(specs) >= OPEN_MOST or size + _size(spec) > OPEN_BYTES:
                why = f"{whose} has {len(specs)} jobs that are not over, with {size} bytes of commands and variables"
                raise InputError(why, code="too-many-jobs", hint="send the request again once some of them are over")
        return mine

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

    async def change(self, pool: ServedPool, wanted: ChangeRequest, caller: Caller, trace: str = "") -> Changed:
        """Append what asks for a change of jobs or of a node, and wait until it is read. ``trace``: as above.

        A request that was answered before is answered again, and nothing is appended.

        Raises:
            InputError: There is no such job or node; with the code ``not-changed``: none of them can be changed so.
            LogUnavailableError: It may not be kept; the same request may be sent again.
        """
        if wanted.dry:
            return _answers(pool, [(name, one, "") for name, one in _wanted(pool, wanted)])
        key = (caller.name, pool.feed.name, wanted.request or secrets.token_hex(8))
        task = self._changes.get(key)
        if task is None:
            task = self._changes[key] = asyncio.create_task(self._change(pool, wanted, caller, trace))
            if len(self._changes) > CHANGES_KEPT:
                del self._changes[next(iter(self._changes))]
        try:
            return await asyncio.shield(task)
        except SteepestError:
            self._changes.pop(key, None)
            raise

    async def _change(self, pool: ServedPool, wanted: ChangeRequest, caller: Caller, trace: str) -> Changed:
        found = _wanted(pool, wanted)
        asked = [one.ask(request=secrets.token_hex(8)) for _, one in found if one.ask is not None]
        if asked:
            now_ms = self._clock.now_ms()
            records = [asked_record(pool.feed.at, pool.feed.name, event, now_ms, trace) for event in asked]
            await pool.feed.until(max(await pool.log.append(records)), ANSWER_S)
        elif wanted.change is ChangeKind.RETRY:
            return _answers(pool, await self._retried(pool, found, caller, trace))
        return _answers(pool, [(name, one, "") for name, one in found])

    async def _retried(
        self, pool: ServedPool, found: Sequence[tuple[str, OfferedChange]], caller: Caller, trace: str
    ) -> list[tuple[str, OfferedChange, str]]:
        """Each with the name under which it runs again; of several, the error of one is its own answer."""
        answers = []
        for name, one in found:
            try:
                answers.append((name, one, await self._retry(pool, name, caller, trace) if one.done else ""))
            except SteepestError as error:
                if len(found) == 1:
                    raise
                answers.append((name, OfferedChange(said=str(error), done=False), ""))
        return answers

    async def _retry(self, pool: ServedPool, name: str, caller: Caller, trace: str) -> str:
        """The name under which it runs again."""
        job = pool.feed.job(name)
        before = await submission_at(pool.log, pool.feed.at, job.submitted_offset, job.request)
        after = Submission(job=name_of_retry(pool.feed.view, job), spec=again(before.spec))
        answer = await self.submit(pool, after, caller, trace)
        if answer.state == "rejected":
            raise InputError(f"{answer.job} is rejected: {answer.reason}", code="not-changed")
        return answer.job

    async def _ask(self, asked: _Asked, trace: str) -> Answer:
        pool, job, request = asked.pool, asked.event.job, asked.event.request
        with pool.feed.expecting(request) as answered:
            offset = asked.offset = await self._append(pool, asked.event, trace)
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


def _wanted(pool: ServedPool, wanted: ChangeRequest) -> Sequence[tuple[str, OfferedChange]]:
    """The change of each of those that are meant.

    Raises:
        InputError: See :meth:`Asking.change`.
    """
    if wanted.node is not None and wanted.change in OF_NODES:
        return [(wanted.node, change_of_node(pool.feed.view, wanted.change, wanted.node))]
    if not (wanted.jobs or wanted.array or wanted.queue or wanted.node):
        raise InputError("no job is named", hint="name jobs, patterns, an array, a queue, or a node")
    newest = pool.feed.timeline.moves[-MOVES_SEEN:]
    pauses = [move.paused_ms for move in newest if move.paused_ms is not None]
    pause_ms = round(statistics.median(pauses)) if pauses else None
    selection = Selection(tuple(wanted.jobs), wanted.array, wanted.queue, wanted.node or "")
    found = changes(pool.feed, wanted.change, selection, wanted.to, pause_ms)
    if len(found) > OPEN_MOST:
        raise InputError(
            f"{len(found)} jobs are meant, and {OPEN_MOST} are the most that one request changes", code="too-many-jobs"
        )
    return [(job.name, one) for job, one in found]


def _answers(pool: ServedPool, found: Sequence[tuple[str, OfferedChange, str]]) -> Changed:
    def said(one: OfferedChange, after: str) -> str:
        later = f" {NO_SYSTEM}" if one.done and not pool.feed.is_up() else ""
        return f"{one.said}{f' as {after}' if after else ''}{later}"

    answers = [
        ChangeAnswer(name=name, done=one.done, said=said(one, after), price=one.price, again=after)
        for name, one, after in found
    ]
    return Changed(offset=pool.feed.view.position, answers=answers)


class _Asked(msgspec.Struct):
    """A submission of a caller, and its record once it is appended."""

    pool: ServedPool
    event: c.JobSubmitted
    offset: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether it was read, and the job that it made is over or forgotten, or it has made none."""
        view = self.pool.feed.view
        job = view.jobs.get(self.event.job)
        is_open = job is not None and job.request == self.event.request and job.outcome is None
        return self.offset is not None and view.position > self.offset and not is_open


def _size(spec: c.JobSpec) -> int:
    return sum(map(len, spec.command)) + sum(len(name) + len(value) for name, value in spec.env.items())


def _answered(job: Job) -> Answer:
    state = "admitted" if job.outcome is None else "ended" if job.admitted else "rejected"
    return Answer(job=job.name, request=job.request, state=state, offset=job.submitted_offset, reason=job.stop_reason)


def refuse_reserved(env: dict[str, str]) -> None:
    """Return only if all names of variables are names, and none is the cluster's own.

    Raises:
        InputError: One is not.
    """
    for name in env:
        if not name or "=" in name or "\0" in name or (name.startswith("STEEPEST_") and name != ARRAY_INDEX):
            raise InputError(f"env {name[:80]!r}: this is no name that a job's variable may have")
