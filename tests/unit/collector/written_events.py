"""What tests of Events about Jobs share: an API server in memory, and views in which jobs were submitted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from steepest.clock import SystemClock
from steepest.cluster.kubernetes.api import CALL_S, CONFLICT, NOT_FOUND, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.manifest import JobSettings
from steepest.cluster.kubernetes.users_jobs import USERS_JOB
from steepest.collector.notice_writer import NoticeWriter
from steepest.errors import SteepestError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.received import Received
from steepest.view.cluster_view import ClusterView

_T = TypeVar("_T")

UID = "0a1b2c3d-0000-4000-8000-000000000000"
SETTINGS = JobSettings(
    namespace="training",
    label="c0ffee",
    claim="shared",
    below=Path("trial"),
    image="trainer:3",
    user=1,
    most=Resources(),
    namespaces=("team-a",),
)


class ApiServer(KubernetesApi):
    """Keeps Events by name, as the API server does.

    Attributes:
        jobs: The metadata of the Jobs that are there, by name.
        read: The names of the Jobs that were asked for.
        written: The Events, in the order in which they came.
        asked_s: When each Event was to be written, in the loop's time.
        failure: What it answers to every Event; None: it takes them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.read: list[str] = []
        self.written: list[dict[str, Any]] = []
        self.asked_s: list[float] = []
        self.failure: SteepestError | None = None
        self._changed = asyncio.Condition()

    async def get(self, path: str, kind: type[_T], query: Mapping[str, str] | None = None) -> _T:
        """Read a Job."""
        del query
        name = path.rpartition("/")[2]
        self.read.append(name)
        if name not in self.jobs:
            raise AnswerError(path, NOT_FOUND)
        return msgspec.convert({"metadata": self.jobs[name]}, kind)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content: str = "application/json",
        timeout_s: float = CALL_S,
        server: str | None = None,
    ) -> bytes:
        """Write an Event."""
        del query, content, timeout_s, server
        assert (method, path) == ("POST", f"/apis/events.k8s.io/v1/namespaces/{body['metadata']['namespace']}/events")
        self.asked_s.append(asyncio.get_running_loop().time())
        if self.failure is not None:
            raise self.failure
        if any(each["metadata"]["name"] == body["metadata"]["name"] for each in self.written):
            raise AnswerError(path, CONFLICT)
        async with self._changed:
            self.written.append(body)
            self._changed.notify_all()
        return b"{}"

    async def has_written(self, count: int) -> None:
        """Wait until there are as many Events."""
        async with asyncio.timeout(10_000), self._changed:
            await self._changed.wait_for(lambda: len(self.written) >= count)


@contextlib.asynccontextmanager
async def writing(api: ApiServer) -> AsyncIterator[NoticeWriter]:
    """A writer that runs while the block does; it must not end by itself."""
    writer = NoticeWriter(api, SETTINGS, SystemClock())
    task = asyncio.create_task(writer.run())
    yield writer
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def received(event: c.ClusterEvent, at_ms: int = 1_000) -> Received[c.ClusterEvent]:
    """The event as a record."""
    return Received(event=event, topic="cluster", partition=0, offset=7, at_ms=at_ms)


def submitted(job: str, *, users: str = "") -> ClusterView:
    """A view with one job; ``users``: the variable that names a user's Job."""
    spec = c.JobSpec(command=("train",), env={USERS_JOB: users} if users else {})
    view = ClusterView()
    assert view.fold(received(c.JobSubmitted(job=job, request=UID, spec=spec)))
    return view
