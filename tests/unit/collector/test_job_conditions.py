"""A finding is a condition of the Job that it is about, for as long as it lasts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.kubernetes_stub import KubernetesStub, adapter_on, served
from tests.unit.collector.written_events import UID, ApiServer, received, writing

from steepest.clock import SystemClock
from steepest.cluster.kubernetes.job_events import JobSubject, Notice
from steepest.cluster.kubernetes.manifest import CLUSTER, name_of
from steepest.cluster.port import ReplicaId
from steepest.collector.job_notices import JobNotices
from steepest.collector.notice_writer import NoticeWriter
from steepest.errors import RefusedError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.growth import FindingKind
from steepest.view.cluster_view import ClusterView

COMPLETE = {"type": "Suspended", "status": "False"}
"""A condition that the Job controller has set."""

ENDS: dict[str, c.ClusterEvent] = {
    "recovers": c.FindingEnded(job="mine", incarnation=1, kind=FindingKind.HUNG, why="it makes steps again"),
    "starts again": c.JobPlaced(plan="p", attempt=1, job="mine", incarnation=2, node="n1"),
    "ends": c.JobEnded(job="mine", outcome=c.Outcome.FAILED),
}


def found(kind: FindingKind) -> c.FindingOpened:
    """Something is wrong with the job."""
    return c.FindingOpened(job="mine", incarnation=1, kind=kind, why="no step for 70 s\n\x1b[2J" + "ö" * 600)


class Watched:
    """The conditions of the Job of one job, over an API server in memory."""

    def __init__(self, stub: KubernetesStub, notices: JobNotices, job: str) -> None:
        self._stub, self._notices, self._job = stub, notices, job
        self._patched = asyncio.Event()
        self.view = ClusterView()
        self.view.fold(received(c.JobSubmitted(job="mine", request=UID, spec=c.JobSpec(command=("train",)))))
        stub.before = lambda method, *_: self._patched.set() if method == "PATCH" else None

    async def after(self, event: c.ClusterEvent) -> dict[str, dict[str, Any]]:
        """The conditions once this is in the log."""
        self._patched.clear()
        self._notices.observe(self.view, received(event), accepted=True)
        await self._patched.wait()
        return {one["type"]: one for one in self._stub.objects["jobs"][self._job]["status"]["conditions"]}


@contextlib.asynccontextmanager
async def watching(folder: Path) -> AsyncIterator[Watched]:
    """Conditions are written while the block runs."""
    stub = KubernetesStub()
    async with served(stub, folder / "kubeconfig"):
        cluster = adapter_on(folder, [("n1", Resources(1_000, 1_024))])
        settings = cluster.jobs_settings
        name = name_of(settings, ReplicaId("mine", 0))
        labels = {CLUSTER: settings.label}
        stub.put(
            "jobs", {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"conditions": [COMPLETE]}}
        )
        writer = NoticeWriter(cluster.connect(), settings, SystemClock())
        running = asyncio.create_task(writer.run())
        try:
            yield Watched(stub, JobNotices(writer, settings), name)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await cluster.close()


@pytest.mark.parametrize("end", ENDS)
async def test_a_finding_is_a_condition_until_it_or_its_process_ends(tmp_path: Path, end: str) -> None:
    """Conditions of others stay as they are, and what is said is one line."""
    async with watching(tmp_path) as watched:
        conditions = await watched.after(found(FindingKind.HUNG))
        assert conditions["Suspended"] == COMPLETE
        hung = conditions["steepest.dev/Hung"]
        assert (hung["status"], hung["reason"]) == ("True", "FindingOpened")
        assert hung["lastTransitionTime"] == "1970-01-01T00:00:01Z"
        assert hung["message"].startswith("no step for 70 s [2Jö")
        assert len(hung["message"].encode()) <= 1_024
        assert list(await watched.after(ENDS[end])) == ["Suspended"]


async def test_each_finding_has_its_own_condition(tmp_path: Path) -> None:
    """One ends, the other stays."""
    async with watching(tmp_path) as watched:
        await watched.after(found(FindingKind.HUNG))
        assert len(await watched.after(found(FindingKind.IDLE))) == 3
        assert list(await watched.after(ENDS["recovers"])) == ["Suspended", "steepest.dev/Idle"]


async def test_without_the_right_there_are_only_events() -> None:
    """It is asked for once; no Event waits for it."""
    api, settings_of = ApiServer(), JobSubject("mine", UID)
    refused: list[str] = []

    async def refuses(method: str, path: str, **more: Any) -> bytes:
        if method == "PATCH":
            refused.append(path)
            raise RefusedError("no right")
        return await ApiServer.request(api, method, path, **more)

    api.request = refuses  # type: ignore[method-assign]
    async with writing(api) as writer:
        for number in range(3):
            writer.put_conditions(
                settings_of, {"steepest.dev/Hung": Notice(reason="FindingOpened", message="it hangs")}
            )
            writer.put(settings_of, Notice(reason="FindingOpened", message=f"{number}", at_ms=1))
            await api.has_written(number + 1)
            await asyncio.sleep(1)
    assert refused == ["/apis/batch/v1/namespaces/training/jobs/mine/status"]
