"""A whole system whose node reports only over MQTT: ``steepest up --mqtt``, and its log-collector as a device's agent."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.system.running_system import RunningSystem
from tests.integration.mqtt.conftest import PATIENCE_S, Mosquitto
from tests.integration.mqtt.edge import Device
from tests.unit.mqtt.messages import beat

from steepest.app.installation import open_log
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import StateFolder
from steepest.cli.pool.stored_pool import records_to_end
from steepest.events import cluster as c
from steepest.events.loss import JobUnwatched, LossReported
from steepest.log.base import Record
from steepest.runtime.decode import received

STEPS = 200
REPORTS = f"""
import time, steepest_sdk
run = steepest_sdk.start()
for step in run.steps({STEPS}):
    run.report(step, loss=1 / step)
    time.sleep(0.02)
"""


@pytest.fixture
def system(tmp_path: Path, mosquitto: Mosquitto) -> Iterator[RunningSystem]:
    """A system that runs."""
    options = ("--mqtt", mosquitto.address, "--node", "edge-1=0.5", "--interval", "1s")
    system = RunningSystem(tmp_path / "state", *options, env={"STEEPEST_MQTT_DEVICE": "edge-1"})
    system.start()
    yield system
    system.end()


async def all_of(system: RunningSystem, topic: str) -> list[Record]:
    """A topic's records beside its identity."""
    folder = StateFolder(system.state)
    log = open_log(read_settings({"state_dir": folder.root}), folder.read(), read_only=True)
    try:
        records = [one for at in await log.partitions(topic) async for one in records_to_end(log, at)]
    finally:
        await log.close()
    return [one for one in records if b'"LogOpened"' not in one.value]


def is_joined(event: c.ClusterEvent, node: str) -> c.NodeJoined | None:
    """The event, if it is the join of this node."""
    return event if isinstance(event, c.NodeJoined) and event.node == node else None


@pytest.mark.slow
async def test_a_node_reports_only_over_mqtt(system: RunningSystem, mosquitto: Mosquitto) -> None:
    """Its heartbeats and its jobs' losses come through a broker that is restarted meanwhile, and each report counts once.

    A device beside it that announces a hundred times its capacity draws no job.
    """
    await asyncio.to_thread(system.await_event, lambda found: is_joined(found.event, "edge-1"))  # the bridge is there
    device = Device(mosquitto.port, "big")
    try:
        await device.send(beat("big", capacity={"cpu_m": 50_000}, takes_jobs=True), 1)
        joined = await asyncio.to_thread(system.await_event, lambda found: is_joined(found.event, "big"))
    finally:
        device.close()
    assert joined.takes_jobs is False
    await asyncio.to_thread(system.submit, "one", sys.executable, "-c", REPORTS)
    mosquitto.end()
    mosquitto.start()
    await asyncio.to_thread(system.await_end, "one")
    losses: list[Record] = []
    async with asyncio.timeout(PATIENCE_S):
        while not any(isinstance(received(one).event, JobUnwatched) for one in losses):
            await asyncio.sleep(0.1)
            losses = await all_of(system, "loss")
    reports = {(one.headers["source"], one.headers["seq"]): received(one).event for one in losses}
    beats = [one for one in await all_of(system, "heartbeats") if one.key == "edge-1"]

    assert [one.step for one in reports.values() if isinstance(one, LossReported)] == list(range(1, STEPS + 1))
    assert all(one.headers["mqtt"].startswith("edge-1/") for one in [*beats, *losses])
    assert (await asyncio.to_thread(system.job, "one"))["incarnation"] == 1
    assert await all_of(system, "dead-letters") == []
    assert any(type(one.event).__name__ == "GrowthMeasured" for one in await asyncio.to_thread(system.events))
    assert await asyncio.to_thread(system.breaches) == []
