"""A job of several replicas has one loss, the chief's, also where its replicas share a node and claim what they like."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import Rig, events_of
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.loss import LossReported
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.view.state import Phase


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A system on one node."""
    async with contextlib.aclosing(Rig(tmp_path, {"n1": 500})) as rig:
        rig.start("placer", "worker-monitor", "migrator", "categorizer", rig.beats())
        await rig.configure(PoolParameters(specon=SpeConParameters(interval_ms=2_000)))
        yield rig
        assert await rig.broken() == []


async def submit_gang(rig: Rig, steps: int) -> None:
    """Submit a job of two replicas, which do each step together."""
    command = (PROGRAM, "--meet", "--steps", str(steps), "--step-s", "1", "--flat-after", "5")
    spec = c.JobSpec(command=command, replicas=2, requests=Resources(cpu_m=100))
    await rig.append(c.JobSubmitted(job="a", request="submit-a", spec=spec))


async def losses(rig: Rig) -> list[LossReported]:
    """All losses on the log."""
    found = [received.event for at in rig.layout.of_topic("loss") for received in await events_of(rig.log, at)]
    return [event for event in found if isinstance(event, LossReported)]


async def test_a_gang_has_the_losses_of_its_chief(rig: Rig) -> None:
    """Both replicas report every step, on the same node: the log has each step once."""
    process = rig.start("log-collector")
    await submit_gang(rig, steps=8)
    await until(lambda: "a" in process.view.jobs and process.view.jobs["a"].phase is Phase.ENDED, within_s=300)
    await until_all_read(rig, 8)

    assert [loss.step for loss in await losses(rig)] == list(range(1, 9))


async def test_a_replica_cannot_report_for_another_one(rig: Rig) -> None:
    """What a replica writes counts for itself: a line that names the chief's index or the job is one of its own."""
    process = rig.start("log-collector")
    await submit_gang(rig, steps=30)
    second = ReplicaId("a", 1)
    await until(lambda: (found := rig.nodes.newest(second)) is not None and (found.step or 0) >= 2, within_s=300)
    training = rig.nodes.newest(second)
    assert training is not None
    hostile = {"step": 1_000, "at_ms": 1, "metrics": {"loss": 99.0}, "replica": 0, "job": "a", "incarnation": 1}
    files = rig.nodes.witness.files(training)
    with files.reports.open("a") as reports, files.output.open("a") as output:
        reports.write(json.dumps(hostile) + "\n")
        output.write("Train Epoch: 1 [640/60000 (1%)]\tLoss: 99.000000\n" * 20)
    await until(lambda: process.view.jobs["a"].phase is Phase.ENDED, within_s=300)
    await until_all_read(rig, 30)
    found = await losses(rig)

    assert [loss.step for loss in found] == list(range(1, 31))
    assert max(loss.value for loss in found) <= 1.0


async def until_all_read(rig: Rig, count: int) -> None:
    """Wait until so many losses are on the log."""
    while len(await losses(rig)) < count:
        await rig.clock.sleep(0.1)
