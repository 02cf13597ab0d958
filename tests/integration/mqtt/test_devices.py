"""The device's side of a real broker: the SDK's outbox."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.mqtt.conftest import Mosquitto
from tests.integration.mqtt.edge import Edge

from steepest.events.loss import JobWatched, LossReported

TRAINING = Path(__file__).with_name("training.py")


@pytest.fixture
async def edge(tmp_path: Path, mosquitto: Mosquitto) -> AsyncIterator[Edge]:
    """An installation whose bridge was never connected."""
    edge = Edge(tmp_path / "state", mosquitto.address)
    await edge.open()
    yield edge
    edge.end()


def settings(broker: str, outbox: Path) -> dict[str, str]:
    """A device's environment."""
    return {
        **os.environ,
        "STEEPEST_MQTT": broker,
        "STEEPEST_MQTT_DEVICE": "edge-1",
        "STEEPEST_MQTT_OUTBOX": str(outbox),
        "STEEPEST_JOB": "job",
    }


async def train(env: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Run a training to its end; its exit status and what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(TRAINING), *arguments, env=env, stderr=subprocess.PIPE
    )
    _, printed = await process.communicate()
    return process.returncode or 0, printed.decode()


def steps(events: list[object]) -> list[int | None]:
    """The steps whose loss was reported."""
    return [one.step for one in events if isinstance(one, LossReported) and one.metric == "loss"]


@pytest.mark.slow
async def test_a_training_reports_over_mqtt(edge: Edge, mosquitto: Mosquitto, tmp_path: Path) -> None:
    """Killed before the broker or a bridge was there, it leaves its reports on the disk; the next one sends them first."""
    env = settings(mosquitto.address, tmp_path / "outbox")
    mosquitto.end()
    assert (await train(env, "100", "die"))[0] == -signal.SIGKILL
    mosquitto.start()
    status, printed = await train(env, "3")
    assert status == 0
    assert "they stay in the outbox" in printed  # no bridge was ever connected
    await edge.start()
    assert (await train(env, "2"))[0] == 0
    arrived = await edge.until(1 + 2 * 105, "loss")

    assert isinstance(arrived[0], JobWatched)
    assert arrived[0].metric == "loss"
    assert steps(arrived) == [*range(1, 101), 1, 2, 3, 1, 2]
    assert {one.split for one in arrived[1:] if one.metric == "val_acc"} == {"eval"}
    assert await edge.records("dead-letters") == []
    assert "messages are missing" not in edge.output()


@pytest.mark.slow
async def test_what_a_training_has_left_is_sent_by_hand(edge: Edge, mosquitto: Mosquitto, tmp_path: Path) -> None:
    """Where no training follows, a command sends what is in the outbox."""
    env = settings(mosquitto.address, tmp_path / "outbox")
    await train(env, "5", "die")
    await edge.start()
    sent = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "steepest_sdk.mqtt"], env=env, capture_output=True, check=False
    )

    assert sent.returncode == 0
    assert steps(await edge.until(11, "loss")) == [1, 2, 3, 4, 5]


async def test_a_wrongly_configured_device_still_trains(tmp_path: Path) -> None:
    """Reporting is never the reason why a training stops."""
    env = settings("nowhere", tmp_path / "outbox")
    status, printed = await train(env, "2")

    assert status == 0
    assert "STEEPEST_MQTT is 'nowhere'" in printed
