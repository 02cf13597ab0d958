"""Writes Events of Kubernetes about Jobs, and their conditions, as many as the API server has time for.

It owns the budget: how many wait, which of them are dropped, and the pauses between requests. It is a courtesy: ``put``
never waits, what cannot be written is dropped, and no failure reaches those who act on jobs. It must never know the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

import msgspec

from steepest.clock import Clock
from steepest.cluster.kubernetes.api import NOT_FOUND, TOO_MANY, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.job_events import JobSubject, Notice, post_event, set_conditions
from steepest.cluster.kubernetes.manifest import CLUSTER, JobSettings
from steepest.cluster.kubernetes.objects import ClusterObject
from steepest.describe import one_line
from steepest.errors import RefusedError, SteepestError, UncertainError
from steepest.logger import Logger

_log = Logger()

WAITING = 256
"""Notices of each kind that wait; when there are more, the oldest is dropped: a cluster keeps Events for an hour anyway."""

PAUSE_S = 0.25
"""After each Event: at most four a second, each of one request, or of two where the UID must be looked up."""

PAUSES_S = (1.0, 4.0, 16.0, 60.0)
"""After each failure that may pass, before the same Event is tried again; after the last one it is dropped."""


ABSENT_S = 5.0
"""After this time a Job is looked up once more that was not there: a placement is planned before its first Job is made."""


class _Waiting(msgspec.Struct, frozen=True, kw_only=True):
    job: JobSubject
    notice: Notice
    may_wait: bool
    is_again: bool = False


class NoticeWriter:
    """The queue of one pool.

    Args:
        api: The API server; it is closed at the end.
        settings: What the installation's Jobs have in common.
        clock: The wall clock.
    """

    def __init__(self, api: KubernetesApi, settings: JobSettings, clock: Clock) -> None:
        self._api = api
        self._settings = settings
        self._clock = clock
        self._first: deque[_Waiting] = deque(maxlen=WAITING)
        self._later: deque[_Waiting] = deque(maxlen=WAITING)
        self._conditions: dict[JobSubject, dict[str, Notice | None]] = {}
        self._may_set = True
        self._more = asyncio.Event()

    def put(self, job: JobSubject, notice: Notice, *, may_wait: bool = False) -> None:
        """Write a notice when its turn comes.

        Args:
            job: The Job; an empty UID is looked up, in a Job of the installation's own.
            notice: What to say; line ends and control characters are taken out.
            may_wait: Whether all others go first, and are never dropped for it.
        """
        said = msgspec.structs.replace(notice, message=one_line(notice.message))
        self._enqueue(_Waiting(job=job, notice=said, may_wait=may_wait))

    def put_conditions(self, job: JobSubject, changes: Mapping[str, Notice | None]) -> None:
        """Set conditions of a Job by their types, or remove those that are None. Only the newest of each is written."""
        if not self._may_set or (job not in self._conditions and len(self._conditions) >= WAITING):
            return
        self._conditions[job] = {**self._conditions.get(job, {}), **changes}
        self._more.set()

    def _enqueue(self, one: _Waiting) -> None:
        (self._later if one.may_wait else self._first).append(one)
        self._more.set()

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            while True:
                while not (self._first or self._conditions or self._later):
                    self._more.clear()
                    await self._more.wait()
                if self._conditions and not self._first:
                    await self._set(job := next(iter(self._conditions)), self._conditions.pop(job))
                else:
                    await self._write((self._first or self._later).popleft())
                await asyncio.sleep(PAUSE_S)
        finally:
            await self._api.close()

    async def _write(self, one: _Waiting) -> None:
        """Write one, or drop it."""
        for pause_s in PAUSES_S:
            failed = await self._failure(one)
            if failed is None:
                return
            why = str(failed)
            if not _may_pass(failed):
                # A refusal of the object is about this one; a missing right, or no cluster at all, is so for all of them.
                await asyncio.sleep(0 if isinstance(failed, AnswerError) else PAUSES_S[-1])
                break
            await asyncio.sleep(pause_s)
        _log.info("an Event was not written", job=one.job.name, reason=one.notice.reason, why=why)

    async def _set(self, job: JobSubject, changes: dict[str, Notice | None]) -> None:
        """Set conditions, or drop them; without the right to it, all of them from now on."""
        try:
            if (found := job if job.uid else await self._own(job.name)) is not None:
                await set_conditions(self._api, self._settings, found, changes)
        except SteepestError as error:
            _log.info("conditions of a Job were not set", job=job.name, why=str(error))
            self._may_set = not isinstance(error, RefusedError)
            if _may_pass(error):
                self.put_conditions(job, {**changes, **self._conditions.get(job, {})})
                await asyncio.sleep(PAUSES_S[1])

    async def _failure(self, one: _Waiting) -> SteepestError | None:
        """Try to write one; None: it is written, or there is no Job yet, or no longer, that it could be about."""
        try:
            job = one.job if one.job.uid else await self._own(one.job.name)
            if job is not None:
                await post_event(self._api, self._settings, job, one.notice, self._clock.now_ms())
            elif not one.is_again:
                again = msgspec.structs.replace(one, is_again=True)
                asyncio.get_running_loop().call_later(ABSENT_S, self._enqueue, again)
        except SteepestError as error:
            return error
        return None

    async def _own(self, name: str) -> JobSubject | None:
        """The Job of that name, if there is one and it is the installation's own."""
        path = f"/apis/batch/v1/namespaces/{self._settings.namespace}/jobs/{name}"
        try:
            found = (await self._api.get(path, ClusterObject)).metadata
        except AnswerError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return JobSubject(name, found.uid) if found.labels.get(CLUSTER) == self._settings.label else None


def _may_pass(error: SteepestError) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, AnswerError):
        return error.status == TOO_MANY
    return isinstance(error, UncertainError) or error.code == "no-api-server"
