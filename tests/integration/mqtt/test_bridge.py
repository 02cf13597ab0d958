"""The bridge on a real broker: no message is lost or counts twice, whichever part is stopped or killed."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.harness.waiting import until
from tests.integration.mqtt.conftest import Mosquitto
from tests.integration.mqtt.edge import Device, Edge
from tests.unit.mqtt.messages import beat, envelope, loss

from steepest.events.loss import JobWatched, LossReported

EXITED = {"job": "job", "incarnation": 1, "state": "exited", "exit_status": 0}
"""A replica's report that would end the job."""


@pytest.fixture
async def edge(tmp_path: Path, mosquitto: Mosquitto) -> AsyncIterator[Edge]:
    """An installation whose bridge runs."""
    edge = Edge(tmp_path / "state", mosquitto.address)
    await edge.open()
    await edge.start()
    yield edge
    edge.end()


@pytest.fixture
async def device(mosquitto: Mosquitto, edge: Edge) -> AsyncIterator[Device]:
    """A device called edge-1."""
    del edge  # the bridge must be connected before the device publishes
    device = Device(mosquitto.port)
    yield device
    device.close()


def times(events: list[object]) -> list[int]:
    """When heartbeats were made."""
    return [event.at_ms for event in events]  # type: ignore[attr-defined]


async def test_messages_of_a_device_are_on_the_log(edge: Edge, device: Device) -> None:
    """Heartbeats and losses are on their topics, numbered for their readers; the job is announced once before them."""
    await device.send(beat(at_ms=5), 1)
    await device.send(loss(2.0, step=1), 2, at_ms=7)
    await device.send(loss(1.5, step=2), 3)
    await device.send(loss(1.4, step=3), 4, source="job.1.reports", number="12")
    losses = await edge.until(4, "loss")

    assert times(beats := await edge.until(1, "heartbeats")) == [5]
    assert beats[0].takes_jobs is False
    assert [type(one) for one in losses] == [JobWatched, LossReported, LossReported, LossReported]
    assert [one.step for one in losses[1:]] == [1, 2, 3]
    assert [one.at_ms for one in await edge.records("loss")][:2] == [7, 7]
    headers = [(one.headers.get("source"), one.headers.get("seq")) for one in await edge.records("loss")]
    assert headers == [(None, None), ("edge-1.g1", "2"), ("edge-1.g1", "3"), ("job.1.reports", "12")]
    assert edge.end(signal.SIGTERM) == 0


async def test_a_refused_message_becomes_a_dead_letter_and_the_bridge_goes_on(edge: Edge, device: Device) -> None:
    """One letter each, with the reason, the topic and the bytes; later messages are accepted."""
    bad = {
        "no message for loss": ("steepest/edge-1/loss", b"\xff\xfe"),
        "Input data was truncated": ("steepest/edge-1/loss", b""),
        "more than": ("steepest/edge-1/loss", b"x" * 300_000),
        "the topic is edge-2's": ("steepest/edge-2/heartbeats", envelope(beat())),
        "may report only itself": ("steepest/edge-1/heartbeats", envelope(beat("edge-2"))),
        "Unarrived": ("steepest/edge-1/loss", envelope({"type": "Unarrived"})),
        "unknown topic": ("steepest/edge-1/cluster", envelope(beat())),
        "this bridge works for": ("steepest/edge-1/heartbeats", envelope(beat(pool="other"))),
        "has no job unknown": ("steepest/edge-1/loss", envelope(loss(job="unknown"), 10)),
        "newest of job is 1": ("steepest/edge-1/loss", envelope(loss(incarnation=2), 11)),
        "another is no job of edge-1": ("steepest/edge-1/loss", envelope(loss(job="another"), 1, generation="g2")),
        "w1 is a node with an adapter": ("steepest/w1/heartbeats", envelope(beat("w1"), device="w1")),
        "nothing is started on edge-1": (
            "steepest/edge-1/heartbeats",
            envelope(beat(replicas=[EXITED]), 2, generation="g2"),
        ),
        "more than any machine has": ("steepest/edge-1/heartbeats", envelope(beat(capacity={"cpu_m": 2**63 - 1}))),
        "job is not over": ("steepest/edge-1/loss", envelope({"type": "JobUnwatched", "job": "job"}, 12)),
    }
    for topic, payload in bad.values():
        await device.publish(topic, payload)
    await device.send(loss(step=1), 13)
    await device.send(loss(step=2), 12)
    await device.send(loss(step=3), 14)
    await edge.until(3, "loss")
    letters = await edge.until(len(bad) + 1, "dead-letters")

    for (why, (topic, payload)), letter in zip(bad.items(), letters, strict=False):
        assert why in letter.reason
        assert (letter.topic, letter.key, letter.value) == ("mqtt", topic, payload[:65_536])
    assert "`$.seq` is 12 after 13" in letters[-1].reason
    assert [one.step for one in await edge.events("loss") if isinstance(one, LossReported)] == [1, 3]


async def test_a_repeated_message_counts_once(edge: Edge, device: Device) -> None:
    """A device that did not see the acknowledgement sends a message again; skipped numbers are logged."""
    for number in (1, 2, 1, 2, 3, 3, 6):
        await device.send(beat(at_ms=number), number)

    assert times(await edge.until(4, "heartbeats")) == [1, 2, 3, 6]
    assert len(await edge.records("heartbeats")) == 4
    assert await edge.records("dead-letters") == []
    await until(lambda: '"missing": 2' in edge.output(), "the bridge to log the missing messages")


@pytest.mark.slow
async def test_a_bridge_may_be_killed_at_any_time(edge: Edge, device: Device) -> None:
    """Messages wait at the broker while it is down; what it had not acknowledged is delivered again and counts once."""
    number = 0
    for _ in range(4):
        for _ in range(40):
            number += 1
            await device.send(beat(at_ms=number), number)
            await device.send(loss(step=number), 1_000 + number, generation="g2")
        edge.end(signal.SIGKILL)
        number += 1
        await device.send(beat(at_ms=number), number)
        await device.send(loss(step=number), 1_000 + number, generation="g2")
        await edge.start()
    arrived = await edge.until(number, "heartbeats")
    await edge.until(number + 1, "loss")
    reported = [one.step for one in await edge.events("loss") if isinstance(one, LossReported)]

    assert times(arrived) == list(range(1, number + 1))
    assert reported == list(range(1, number + 1))
    assert len(await edge.records("heartbeats")) == number
    assert await edge.records("dead-letters") == []


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_broker_may_be_restarted(edge: Edge, device: Device, mosquitto: Mosquitto, how: signal.Signals) -> None:
    """Stopped or killed, with the bridge connected or away: all that it had acknowledged arrives once, in order."""
    for number in range(1, 31):
        await device.send(beat(at_ms=number), number)
    edge.end(signal.SIGKILL)
    for number in range(31, 41):
        await device.send(beat(at_ms=number), number)
    if how is signal.SIGKILL:
        await until(lambda: b"g1" in mosquitto.kept(), "the broker to write")
        await until(lambda: envelope(beat(at_ms=40), 40) in mosquitto.kept(), "the broker to write the last message")
    mosquitto.end(how)
    mosquitto.start()
    await edge.start()
    await edge.until(40, "heartbeats")
    mosquitto.end(how)
    mosquitto.start()
    await device.send(beat(at_ms=41), 41)

    assert times(await edge.until(41, "heartbeats")) == list(range(1, 42))
    assert len(await edge.records("heartbeats")) == 41
    assert await edge.records("dead-letters") == []


@pytest.mark.slow
async def test_what_a_killed_broker_loses_is_counted(edge: Edge, device: Device, mosquitto: Mosquitto) -> None:
    """Killed amid traffic it may lose what it has not written; each message arrives once, or is counted as missing."""
    number = 0
    for _ in range(3):
        for _ in range(50):
            number += 1
            await device.send(beat(at_ms=number), number)
        mosquitto.end(signal.SIGKILL)
        mosquitto.start()
    arrived: list[int] = []
    while arrived[-1:] != [number]:  # a broker that has lost the bridge's session keeps nothing until it is back
        number += 1
        await device.send(beat(at_ms=number), number)
        arrived = times(await edge.events("heartbeats"))
    missing = sum(json.loads(line).get("missing", 0) for line in edge.output().splitlines() if '"missing"' in line)
    assert arrived == sorted(set(arrived))
    assert len(arrived) + missing == number
    assert len(await edge.records("heartbeats")) == len(arrived)
    assert await edge.records("dead-letters") == []


async def test_the_cursor_may_be_lost(edge: Edge, device: Device) -> None:
    """Without its file the bridge finds on the log what it has received."""
    await device.send(beat(at_ms=1), 1)
    await device.send(loss(step=1), 2)
    await edge.until(2, "loss")
    edge.end(signal.SIGKILL)
    for file in (edge.folder.root / "mqtt-bridge").glob("*"):
        file.unlink()
    await edge.start()
    await device.send(loss(step=1), 2)
    await device.send(beat(at_ms=3), 3)

    assert times(await edge.until(2, "heartbeats")) == [1, 3]
    assert [one.step for one in (await edge.events("loss"))[1:]] == [1]
    assert len(await edge.records("loss")) == 2
