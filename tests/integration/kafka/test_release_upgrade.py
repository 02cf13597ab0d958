"""A service is upgraded and rolled back while its log is a real broker's: the release after beside this version."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.release_after import AFTER, FLAG, UPGRADED
from tests.harness.system.rig import AT, POOL, events_of
from tests.integration.kafka.replicas import PATIENCE_S, Replicas

from steepest.app.installation import apply_topics, open_log
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import Installation, KafkaPlace, NodeSpec, StateFolder
from steepest.cli.pool.follow import first
from steepest.events.cluster import JobAdmitted, JobSpec, JobSubmitted
from steepest.events.common import Resources
from steepest.events.received import ID, Received
from steepest.log.base import Log
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.runtime.decode import new_record
from steepest.view import cluster_view
from steepest.view.cluster_view import fold_all


@pytest.fixture
async def folder(tmp_path: Path, kafka: KafkaSettings) -> StateFolder:
    """An installation of one pool, as this version makes it."""
    found = StateFolder(tmp_path / "state")
    installation = Installation(nodes=(NodeSpec("n1", Resources(1000)),))
    found.create(installation)
    found.remember_kafka(KafkaPlace(kafka.bootstrap, kafka.prefix))
    await apply_topics(kafka, installation.layout)
    return found


@pytest.fixture
async def log(folder: StateFolder) -> AsyncIterator[Log]:
    """Its log."""
    log = open_log(read_settings({"state_dir": folder.root}), folder.read())
    yield log
    await log.close()


@pytest.fixture
def placers(folder: StateFolder) -> Iterator[Replicas]:
    """No placer runs yet."""
    found = Replicas(folder, "placer")
    yield found
    found.end()


async def admit(log: Log, job: str) -> None:
    """Submit a job, and wait until it is admitted."""
    submitted = JobSubmitted(job=job, request=job, spec=JobSpec(command=("train",)))
    (offset,) = await log.append([new_record(AT, POOL, submitted, 1)])

    def admitted(received: Received[Any]) -> bool | None:
        return True if isinstance(received.event, JobAdmitted) and received.event.job == job else None

    assert await first(log, {AT: offset}, admitted, PATIENCE_S), f"{job} was not admitted"


@pytest.mark.slow
async def test_a_service_is_replaced_rolled_back_and_upgraded(
    placers: Replicas, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both releases work beside each other and after each other; only the upgrade stops the older one, which says why."""
    placers.start()
    await admit(log, "before")
    placers.start(release_after=True)
    await admit(log, "beside")
    await asyncio.to_thread(placers.send, signal.SIGTERM)
    await admit(log, "after")
    placers.start()
    await asyncio.to_thread(placers.send, signal.SIGTERM)
    await admit(log, "rolled-back")
    placers.start(release_after=True)
    await asyncio.to_thread(placers.send, signal.SIGTERM)
    await log.append([new_record(AT, POOL, UPGRADED, 1)])
    await admit(log, "upgraded")
    await asyncio.to_thread(placers.send, signal.SIGTERM)
    placers.start()
    status = await asyncio.to_thread(placers.running.pop().wait, PATIENCE_S)
    placers.start(release_after=True)
    await admit(log, "upgraded-again")
    events = await events_of(log)

    assert status == 2
    assert f"the log asks for flags [{FLAG}]" in placers.output.read_text()
    ids = {one.headers[ID]: one.event.job for one in events if isinstance(one.event, JobAdmitted)}
    assert sorted(ids.values()) == ["after", "before", "beside", "rolled-back", "upgraded", "upgraded-again"]
    for name, known in AFTER.items():
        monkeypatch.setattr(cluster_view, name, known)
    assert fold_all(events).state.gaps == 0
