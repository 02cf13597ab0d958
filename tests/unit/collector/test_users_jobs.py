"""Users' Jobs become submissions, once the pool's flags are in force."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.harness.kubernetes_stub import KubernetesStub, adapter_on, served

from steepest.clock import SystemClock
from steepest.cluster.kubernetes.objects import SCHEDULE
from steepest.collector.notice_writer import NoticeWriter
from steepest.collector.users_jobs import UsersJobs
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.testing.scenarios.folded_pool import FoldedPool

UID = "0a1b2c3d-0000-4000-8000-000000000000"
LONG_ENOUGH_TO_MARK_S = 0.5
PATIENCE_S = 5.0
"""Less than the period of the effector's safety net: what is configured wakes it."""


def users_job(name: str) -> dict[str, object]:
    """A suspended Job that is opted in, as an API server gives it."""
    container = {"name": "train", "image": "trainer:3", "command": ["train"]}
    return {
        "metadata": {"name": name, "uid": UID, "labels": {SCHEDULE: "true"}},
        "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        "status": {},
    }


async def test_a_job_is_submitted_once_the_pool_is_configured(tmp_path: Path) -> None:
    """Before that no flag is in force, and the log would not hold which nodes the job may run on."""
    stub = KubernetesStub()
    stub.put("jobs", users_job("mine"))
    pool = FoldedPool()
    marked, sent = asyncio.Event(), asyncio.Queue[Any]()

    async def send(*events: Any, **_: Any) -> None:
        for event in events:
            sent.put_nowait(event)

    stub.before = lambda *_: marked.set()
    async with served(stub, tmp_path / "kubeconfig"):
        cluster = adapter_on(tmp_path, [("n1", Resources(1_000, 1_024))])
        notices = NoticeWriter(cluster.connect(), cluster.jobs_settings, SystemClock())
        jobs = UsersJobs(cluster.connect(), cluster.jobs_settings, lambda _: True, notices)
        jobs.caught_up(pool.view)
        running = asyncio.create_task(jobs.run(send))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(marked.wait(), LONG_ENOUGH_TO_MARK_S)
        accepted = pool.fold(c.PoolConfigured())
        jobs.observe(pool.view, pool.log[-1], accepted=accepted)
        submitted = await asyncio.wait_for(sent.get(), PATIENCE_S)
        running.cancel()
        await cluster.close()

    assert isinstance(submitted, c.JobSubmitted)
    assert submitted.request == UID
