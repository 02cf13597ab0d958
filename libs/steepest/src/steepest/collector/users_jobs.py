"""Submits users' Jobs that are opted in, and cancels those that are deleted.

It owns what happens to such an object before and after it is a job of the pool: it is marked as the installation's own while
it is suspended, and only then submitted. The UID is the request, so that a Job is submitted once. A Job that is not opted in
is not read, and one that is not suspended is left alone: it has no gate.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from steepest.cluster.kubernetes.api import MERGE, KubernetesApi
from steepest.cluster.kubernetes.job_events import JobSubject, Notice
from steepest.cluster.kubernetes.manifest import CLUSTER, NAME, JobSettings, labels_of
from steepest.cluster.kubernetes.objects import GATE, SCHEDULE
from steepest.cluster.kubernetes.reflector import Reflector, labelled
from steepest.cluster.kubernetes.users_jobs import UsersJob, is_of, job_name, submission
from steepest.cluster.port import ReplicaId
from steepest.collector.notice_writer import NoticeWriter
from steepest.errors import ClusterError, InputError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.logger import Logger
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView

_log = Logger()
_LOOK_S = 10.0
"""A safety net: what failed is tried again."""


class UsersJobs(Effector):
    """Follows the opted-in Jobs of one namespace.

    Args:
        api: The API server; it is closed at the end.
        settings: What the installation's Jobs have in common.
        is_ours: Whether the jobs of a queue belong to this pool.
        notices: Where the users of Jobs that are left alone read why.
    """

    name = "users-jobs"

    def __init__(
        self, api: KubernetesApi, settings: JobSettings, is_ours: Callable[[str], bool], notices: NoticeWriter
    ) -> None:
        self._api = api
        self._settings = settings
        self._is_ours = is_ours
        self._notices = notices
        self._path = f"/apis/batch/v1/namespaces/{settings.namespace}/jobs"
        self._changed = asyncio.Event()
        self._view = ClusterView()
        self._ready = asyncio.Event()
        self._refused: dict[str, str] = {}

    def caught_up(self, view: ClusterView) -> None:
        """Begin: the view says which Jobs were submitted."""
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
        jobs: Reflector[UsersJob] = Reflector(
            self._api, self._path, UsersJob, labelled({SCHEDULE: "true"}), lambda _: self._changed.set()
        )
        jobs.start()
        try:
            while True:
                self._changed.clear()
                if jobs.is_live and self._view.is_configured:
                    for job in list(jobs.all()):
                        await self._take(job, send)
                    uids = {job.metadata.uid for job in jobs.all()}
                    self._refused = {uid: why for uid, why in self._refused.items() if uid in uids}
                    await self._cancel_deleted(uids, send)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._changed.wait()
        finally:
            await jobs.close()
            await self._api.close()

    async def _take(self, job: UsersJob, send: Send) -> None:
        name = job_name(job.metadata.name, job.metadata.uid)
        if job.is_over or self._view.jobs.get(name) is not None or job.metadata.deletion_timestamp is not None:
            return
        try:
            spec = submission(job)
            if not self._is_ours(spec.queue):
                return
            if job.metadata.labels.get(CLUSTER) != self._settings.label:
                await self._mark(job, name)
        except InputError as error:
            self._refuse(job, f"{error}: {error.hint}")
            return
        except ClusterError as error:
            _log.info("a user's Job could not be marked", job=name, why=str(error))
            return
        await send(c.JobSubmitted(job=name, request=job.metadata.uid, spec=spec))

    def _refuse(self, job: UsersJob, why: str) -> None:
        uid = job.metadata.uid
        if self._refused.get(uid) != why:
            self._refused[uid] = why
            _log.warning("a user's Job is left alone", job=job.metadata.name, why=why)
            # With those that let others go first: any number of Jobs can be wrong.
            notice = Notice(reason="LeftAlone", message=f"Steepest leaves this Job alone: {why}", is_warning=True)
            self._notices.put(JobSubject(job.metadata.name, uid), notice, may_wait=True)

    async def _mark(self, job: UsersJob, name: str) -> None:
        """Make it the installation's own.

        Raises:
            InputError: It may run already, or another installation has taken it.
            ClusterError: The API server refuses, or does not answer.
        """
        if not job.spec.suspend or CLUSTER in job.metadata.labels:
            raise InputError("it is not suspended, or another installation's", hint="see docs/kubernetes.md")
        labels = labels_of(self._settings, ReplicaId(name, 0))
        change: dict[str, Any] = {
            "metadata": {"uid": job.metadata.uid, "labels": labels, "annotations": {NAME: name}},
            "spec": {
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"schedulingGates": [{"name": GATE}]},
                }
            },
        }
        await self._api.request("PATCH", f"{self._path}/{job.metadata.name}", body=change, content=MERGE)

    async def _cancel_deleted(self, uids: set[str], send: Send) -> None:
        for job in list(self._view.jobs):
            if job.outcome is None and not job.cancel and is_of(job.name, job.request) and job.request not in uids:
                await send(c.JobCancelRequested(job=job.name, request=f"{job.request}-deleted"))
