"""The bridge with a log on Kafka: a Kafka broker that is killed loses and duplicates no message."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.chaos.system import KafkaSystem
from tests.integration.mqtt.conftest import Mosquitto
from tests.integration.mqtt.edge import Device, Edge
from tests.unit.mqtt.messages import beat, loss

from steepest.app.installation import apply_topics
from steepest.app.state_folder import KafkaPlace
from steepest.events.loss import LossReported
from steepest.log.kafka.broker import Broker, missing, running_broker
from steepest.log.kafka.kafka_settings import KafkaSettings

HOME = Path(__file__).parents[3] / ".kafka"


@pytest.fixture
async def kafka(tmp_path: Path) -> AsyncIterator[Broker]:
    """A Kafka broker that a test may kill."""
    if why := missing(HOME):
        pytest.skip(f"{why}; get it with: make kafka")
    with running_broker(tmp_path / "kafka", home=HOME) as started:
        yield started


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_up_on_kafka_runs_the_bridge(tmp_path: Path, mosquitto: Mosquitto, kafka: Broker) -> None:
    """Where a broker of MQTT is named it is one of the services, as a process of its own."""
    options = ("--node", "edge-1=0.5", "--mqtt", mosquitto.address)
    system = KafkaSystem(tmp_path / "state", KafkaSettings(bootstrap=kafka.bootstrap), *options)
    log = tmp_path / "state" / "services" / "mqtt-bridge.log"
    try:
        await system.start()
        await system.until(lambda: log.exists() and "connected" in log.read_text(), "the bridge to connect")
        services = sorted(system.services().values())
        assert system.stop() == 0
    finally:
        system.end()

    assert "steepest_services.mqtt_bridge" in services


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_kafka_may_be_killed(tmp_path: Path, mosquitto: Mosquitto, kafka: Broker) -> None:
    """Messages wait while Kafka is away and the bridge is killed as well; all are on the topics, once."""
    edge = Edge(tmp_path / "state", mosquitto.address)
    settings = KafkaSettings(bootstrap=kafka.bootstrap)
    edge.folder.remember_kafka(KafkaPlace(settings.bootstrap))
    await apply_topics(settings, edge.folder.read().layout)
    await edge.open()
    await edge.start()
    device = Device(mosquitto.port)
    try:
        for number in range(1, 21):
            await device.send(beat(at_ms=number), number)
            await device.send(loss(step=number), 100 + number, generation="g2")
        kafka.stop(signal.SIGKILL)
        for number in range(21, 41):
            await device.send(beat(at_ms=number), number)
            await device.send(loss(step=number), 100 + number, generation="g2")
        edge.end(signal.SIGKILL)
        kafka.start()
        await edge.start()
        for number in range(41, 46):
            await device.send(beat(at_ms=number), number)
            await device.send(loss(step=number), 100 + number, generation="g2")
        arrived = await edge.until(45, "heartbeats")
        await edge.until(46, "loss")
        reported = [one.step for one in await edge.events("loss") if isinstance(one, LossReported)]
        letters = await edge.records("dead-letters")
    finally:
        device.close()
        edge.end()

    assert [one.at_ms for one in arrived] == list(range(1, 46))
    assert reported == list(range(1, 46))
    assert letters == []
