"""Submits users' objects that are opted in, and cancels those that are deleted.

It owns what happens to such an object before and after it is a job of the pool: it is marked as the installation's own while
it is suspended, and only then submitted. The UID is the request, so that an object is submitted once. An object that is not
opted in is not read, and one that is not suspended is left alone: it has no gate. Once its job has ended, it says so itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec

from steepest.cluster.kubernetes.api import JSON_PATCH, KubernetesApi
from steepest.cluster.kubernetes.job_events import JobSubject, Notice
from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.having_roles import having_roles
from steepest.cluster.kubernetes.kinds.known import referred
from steepest.cluster.kubernetes.kinds.kueue import is_queued
from steepest.cluster.kubernetes.kinds.marks import marks
from steepest.cluster.kubernetes.kinds.users_object import UsersObject, is_suspended
from steepest.cluster.kubernetes.manifest import CLUSTER, JobSettings
from steepest.cluster.kubernetes.objects import SCHEDULE
from steepest.cluster.kubernetes.reflector import Reflector, labelled
from steepest.cluster.kubernetes.users_jobs import ENDED, USERS_JOB, is_of, job_name, queue_of, submission
from steepest.collector.notice_writer import NoticeWriter
from steepest.errors import ClusterError, InputError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.logger import Logger
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job

_log = Logger()
_LOOK_S = 10.0
"""A safety net: what failed is tried again."""


class _Followed(msgspec.Struct, frozen=True):
    """The objects of one kind in one namespace.

    Attributes:
        kind: Their kind.
        namespace: Their namespace; empty: the installation's own.
        objects: The copy of those that are opted in.
    """

    kind: Kind
    namespace: str
    objects: Reflector[UsersObject]


class UsersJobs(Effector):
    """Follows the opted-in objects of the installation's namespaces, of the kinds that it names.

    Each kind is followed in each namespace by itself: what is not there, or refused, stops none of the others.

    Args:
        api: The API server; it is closed at the end.
        settings: What the installation's Jobs have in common.
        is_ours: Whether the jobs of a queue belong to this pool.
        notices: Where the users of objects that are left alone read why.
    """

    name = "users-jobs"

    def __init__(
        self, api: KubernetesApi, settings: JobSettings, is_ours: Callable[[str], bool], notices: NoticeWriter
    ) -> None:
        self._api = api
        self._settings = settings
        self._is_ours = is_ours
        self._notices = notices
        self._changed = asyncio.Event()
        self._view = ClusterView()
        self._ready = asyncio.Event()
        self._refused: dict[str, str] = {}

    def caught_up(self, view: ClusterView) -> None:
        """Begin: the view says which objects were submitted."""
        self._view = view
        self._ready.set()

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Keep the view."""
        del accepted
        self._view = view
        if isinstance(received.event, c.PoolConfigured):
            self._changed.set()

    async def run(self, send: Send) -> None:
        """Submit and cancel until the end."""
        await self._ready.wait()
        namespaces = ("", *self._settings.namespaces)
        followed = [self._followed(kind, namespace) for namespace in namespaces for kind in self._settings.kinds]
        for each in followed:
            each.objects.start()
        try:
            while True:
                self._changed.clear()
                if self._view.is_configured:
                    for each in followed:
                        if each.objects.is_live:
                            await self._follow(each, list(each.objects.all()), send)
                uids = {found.metadata.uid for each in followed for found in each.objects.all()}
                self._refused = {uid: why for uid, why in self._refused.items() if uid in uids}
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._changed.wait()
        finally:
            for each in followed:
                await each.objects.close()
            await self._api.close()

    def _followed(self, kind: Kind, namespace: str) -> _Followed:
        opted_in = labelled({SCHEDULE: "true"})
        path = kind.path(self._settings.place(namespace))
        objects = Reflector(self._api, path, UsersObject, opted_in, lambda _: self._changed.set())
        return _Followed(kind, namespace, objects)

    async def _follow(self, of: _Followed, there: list[UsersObject], send: Send) -> None:
        for found in there:
            if self._is_open(of.kind, found):
                await self._take(of, found, send)
        await self._cancel_deleted(of, {found.metadata.uid for found in there}, send)

    def _is_open(self, kind: Kind, found: UsersObject) -> bool:
        known = found.metadata
        has_ended = found.is_over(kind) or known.annotations.get(ENDED, "").endswith(known.uid)
        return not has_ended and known.deletion_timestamp is None and self._is_ours(queue_of(found))

    async def _take(self, of: _Followed, found: UsersObject, send: Send) -> None:
        kind = of.kind
        name = job_name(found.metadata.name, found.metadata.uid)
        known = self._view.jobs.get(name)
        try:
            if known is not None and _is_job_of(found, known):
                await self._note_end(of, found, known)
                return
            if known is not None:
                self._refuse(of, found, f"the pool has another job named {known.name}: make it again")
                return
            having = await having_roles(self._api, self._settings.place(of.namespace), kind, found)
            if having is None:  # it changes once it has made that
                return
            user = None if of.namespace else self._settings.user
            spec = submission(kind, found, having, namespace=of.namespace, user=user)
            if found.metadata.labels.get(CLUSTER) != self._settings.label:
                await self._mark(of, found, name, having)
            if is_queued(found.metadata) and is_suspended(kind, found.read()):  # it changes once Kueue admits it
                return
        except InputError as error:
            self._refuse(of, found, f"{error}: {error.hint}")
            return
        except ClusterError as error:
            _log.info("a user's object could not be marked", job=name, why=str(error))
            return
        await send(c.JobSubmitted(job=name, request=found.metadata.uid, spec=spec))

    def _refuse(self, of: _Followed, found: UsersObject, why: str) -> None:
        uid, kind = found.metadata.uid, of.kind
        if self._refused.get(uid) != why:
            self._refused[uid] = why
            _log.warning("a user's object is left alone", kind=kind.name, name=found.metadata.name, why=why)
            # With those that let others go first: any number of objects can be wrong.
            message = f"Steepest leaves this {kind.name} alone: {why}"
            notice = Notice(reason="LeftAlone", message=message, is_warning=True)
            self._notices.put(JobSubject(found.metadata.name, uid, kind, of.namespace), notice, may_wait=True)

    async def _mark(self, of: _Followed, found: UsersObject, name: str, having: UsersObject) -> None:
        """Make it the installation's own.

        Raises:
            InputError: It may run already, or another installation has taken it.
            ClusterError: The API server refuses, or does not answer.
        """
        # What Kueue resumes waits behind its gate.
        waits = is_queued(found.metadata) or is_suspended(of.kind, found.read())
        if not waits or CLUSTER in found.metadata.labels:
            raise InputError("it is not suspended, or another installation's", hint="see docs/kubernetes.md")
        change = marks(of.kind, found, self._settings, name, having)
        path = f"{of.kind.path(self._settings.place(of.namespace))}/{found.metadata.name}"
        await self._api.request("PATCH", path, body=change, content=JSON_PATCH)

    async def _note_end(self, of: _Followed, found: UsersObject, job: Job) -> None:
        """Let an object that stays suspended say that its job has ended, which the view forgets."""
        if job.outcome is not None and is_suspended(of.kind, found.read()):
            known, path = found.metadata, of.kind.path(self._settings.place(of.namespace))
            said = {ENDED: f"{job.outcome} {known.uid}"}
            await self._api.merge(f"{path}/{known.name}", {"metadata": {"uid": known.uid, "annotations": said}})

    async def _cancel_deleted(self, of: _Followed, uids: set[str], send: Send) -> None:
        for job in list(self._view.jobs):
            if job.outcome is None and not job.cancel and is_of(job.name, job.request) and job.request not in uids:
                asked = referred((of.kind,), job.spec.env.get(USERS_JOB, ""))
                if asked is not None and asked.namespace == of.namespace:
                    await send(c.JobCancelRequested(job=job.name, request=f"{job.request}-deleted"))


def _is_job_of(found: UsersObject, job: Job) -> bool:
    """Whether a job is that of an object. One that is over has no variables any more."""
    return job.request == found.metadata.uid and (job.outcome is not None or USERS_JOB in job.spec.env)
