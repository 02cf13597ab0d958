"""What the choice of MQTT clients rests on: docs/decisions/mqtt-clients.md."""

from __future__ import annotations

import asyncio

import aiomqtt
import msgspec
import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from tests.harness.waiting import until
from tests.integration.mqtt.conftest import Mosquitto

from steepest.clock import SystemClock
from steepest.mqtt import agent
from steepest.mqtt.agent import NO_MATCHING_SUBSCRIBERS, Publisher
from steepest.mqtt.payload import Envelope
from steepest.mqtt.settings import MqttSettings

TOPIC = "steepest/edge-1/loss"


def test_paho_reports_that_the_broker_dropped_a_message(mosquitto: Mosquitto) -> None:
    """Mosquitto answers a message without a subscriber with a reason code of its own."""
    reasons = []
    client = Client(CallbackAPIVersion.VERSION2, "paho", protocol=MQTTProtocolVersion.MQTTv5)
    client.on_publish = lambda _client, _data, _mid, reason, _properties: reasons.append(reason.value)
    client.connect("127.0.0.1", mosquitto.port)
    client.loop_start()
    client.publish(TOPIC, b"1", qos=1).wait_for_publish(30)
    client.disconnect()
    client.loop_stop()

    assert reasons == [NO_MATCHING_SUBSCRIBERS]


@pytest.mark.xfail(strict=True, reason="aiomqtt drops the reason code, so the agent publishes with paho")
async def test_aiomqtt_reports_that_the_broker_dropped_a_message(mosquitto: Mosquitto) -> None:
    """``publish`` returns the reason, or raises an error."""
    version = aiomqtt.ProtocolVersion.V5
    async with aiomqtt.Client("127.0.0.1", mosquitto.port, identifier="aiomqtt", protocol=version) as client:
        try:
            answer: object = await client.publish(TOPIC, b"1", qos=1)  # type: ignore[func-returns-value]
        except aiomqtt.MqttError as error:
            answer = error

    assert answer is not None


async def test_the_agent_repeats_a_message_until_a_session_keeps_it(
    mosquitto: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a subscriber the broker drops it; each repetition has the next number."""
    monkeypatch.setattr(agent, "RETRY_S", 0.01)
    settings = MqttSettings(broker=mosquitto.address, device="edge-1")
    publisher = Publisher(settings, SystemClock())
    envelope = Envelope(device="edge-1", generation="", seq=0, event=msgspec.Raw(b"{}"))
    async with publisher.connected():
        sending = asyncio.create_task(publisher.publish("loss", envelope))
        await until(lambda: publisher._numbers.get("edge-1", 0) > 2, "a repetition")
        assert not sending.done()
        async with aiomqtt.Client("127.0.0.1", mosquitto.port, identifier="bridge") as client:
            await client.subscribe("steepest/#", qos=1)
            received = await anext(client.messages)
            await sending

    assert msgspec.json.decode(bytes(received.payload), type=Envelope).seq == publisher._numbers["edge-1"]
