"""The bridge's subscription on a real broker: what is acknowledged when, and what a lost connection costs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tests.harness.waiting import until
from tests.integration.mqtt.conftest import Mosquitto

from steepest.clock import SystemClock
from steepest.mqtt import subscription as module
from steepest.mqtt.metric_defs import MqttMetrics
from steepest.mqtt.settings import MqttSettings
from steepest.mqtt.subscription import RECEIVE_MAXIMUM, Subscription

TOPIC = "steepest/edge-1/loss"


class Consumer:
    """A subscription whose handler blocks until the test opens it.

    Attributes:
        handled: The payloads of completed batches.
        begun: The payloads of batches that the handler has received.
    """

    def __init__(self, port: int, *, blocked: bool = False) -> None:
        self.metrics = MqttMetrics()
        self.begun: list[bytes] = []
        self.handled: list[bytes] = []
        self.open = asyncio.Event()
        if not blocked:
            self.open.set()
        settings = MqttSettings(broker=f"127.0.0.1:{port}")
        self._subscription = Subscription(settings, "bridge", self.metrics, SystemClock())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Receive, and end by cancellation: as a crash does, it acknowledges nothing that was not handled."""
        task = asyncio.create_task(self._subscription.run(self._handle))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def connected(self) -> bool:
        """The gauge."""
        return bool(self.metrics.connected._value.get())

    async def _handle(self, batch: Sequence[aiomqtt.Message]) -> None:
        payloads = [bytes(message.payload) for message in batch]
        self.begun += payloads
        await self.open.wait()
        self.handled += payloads


class Proxy:
    """A network between the bridge and the broker that can fail without closing a connection.

    Attributes:
        port: Where it listens.
        accepted: How many connections it has accepted.
    """

    def __init__(self, target: int) -> None:
        self.port = 0
        self.accepted = 0
        self._target = target
        self._passes = asyncio.Event()
        self._passes.set()
        self._frozen = 0
        self._writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Forward until the context ends."""
        server = await asyncio.start_server(self._forward, "127.0.0.1")
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            self.cut()

    def freeze(self) -> None:
        """Drop all data on the present connections from now on, in silence."""
        self._frozen = self.accepted

    def cut(self) -> None:
        """Close the present connections."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        number = self.accepted
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers += [writer, far_writer]
            await asyncio.gather(self._copy(number, reader, far_writer), self._copy(number, far_reader, writer))

    async def _copy(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if number > self._frozen:
                    writer.write(data)
                    await writer.drain()
        if number > self._frozen:
            writer.close()


async def publish(port: int, payloads: Sequence[bytes], qos: int = 1) -> None:
    """Publish in order, and wait for the broker's acknowledgements."""
    async with aiomqtt.Client("127.0.0.1", port, protocol=aiomqtt.ProtocolVersion.V5) as client:
        for payload in payloads:
            await client.publish(TOPIC, payload, qos=qos)


def numbered(first: int, last: int) -> list[bytes]:
    """Payloads."""
    return [b"%d" % number for number in range(first, last + 1)]


async def begin_session(port: int) -> None:
    """Let the broker know the session, so that it keeps messages for it."""
    consumer = Consumer(port)
    async with consumer.running():
        await until(lambda: consumer.connected, "the subscription")


async def test_what_is_not_handled_is_delivered_again(mosquitto: Mosquitto) -> None:
    """A crash in the handler costs no message, not one of those that waited in the session before the connection."""
    await begin_session(mosquitto.port)
    await publish(mosquitto.port, numbered(1, 200))
    for _ in range(3):
        crashed = Consumer(mosquitto.port, blocked=True)
        async with crashed.running():
            await until(lambda one=crashed: one.begun, "a batch")  # type: ignore[misc]
    consumer = Consumer(mosquitto.port)
    async with consumer.running():
        await until(lambda: len(consumer.handled) >= 200, "all messages")

    assert consumer.handled == numbered(1, 200)


async def test_what_is_handled_is_not_delivered_again(mosquitto: Mosquitto) -> None:
    """The acknowledgements are on their way before the connection closes."""
    await begin_session(mosquitto.port)
    await publish(mosquitto.port, numbered(1, 50))
    consumer = Consumer(mosquitto.port)
    async with consumer.running():
        await until(lambda: len(consumer.handled) >= 50, "all messages")
    await publish(mosquitto.port, [b"last"])
    again = Consumer(mosquitto.port)
    async with again.running():
        await until(lambda: b"last" in again.handled, "the last message")

    assert consumer.handled == numbered(1, 50)
    assert again.handled == [b"last"]


async def test_a_late_acknowledgement_reaches_no_message_of_the_next_connection(mosquitto: Mosquitto) -> None:
    """A batch whose connection is lost before it is handled is delivered again, and so is what came after it."""
    await begin_session(mosquitto.port)
    proxy = Proxy(mosquitto.port)
    async with proxy.running():
        consumer = Consumer(proxy.port, blocked=True)
        async with consumer.running():
            await until(lambda: consumer.connected, "the subscription")
            await publish(mosquitto.port, numbered(1, 20))
            await until(lambda: consumer.begun, "a batch")
            proxy.cut()
            await publish(mosquitto.port, numbered(21, 40))
            consumer.open.set()
            await until(lambda: proxy.accepted == 2, "a reconnection")
            await until(lambda: b"40" in consumer.handled, "the last message")

    again = consumer.handled[consumer.handled.index(b"40") - 39 :]
    assert again == numbered(1, 40)


async def test_a_loss_is_noticed_while_a_batch_is_handled(mosquitto: Mosquitto) -> None:
    """The gauge falls although the handler waits for the log, and rises with the next connection."""
    proxy = Proxy(mosquitto.port)
    async with proxy.running():
        consumer = Consumer(proxy.port, blocked=True)
        async with consumer.running():
            await until(lambda: consumer.connected, "the subscription")
            await publish(mosquitto.port, [b"1"])
            await until(lambda: consumer.begun, "a batch")
            proxy.cut()
            await until(lambda: not consumer.connected, "the loss to be noticed")
            assert consumer.handled == []
            consumer.open.set()
            await until(lambda: consumer.connected, "the next connection")


async def test_a_broker_that_vanishes_is_noticed(mosquitto: Mosquitto, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is neither closed nor answered ends by its keep-alive, and the next one delivers what waits."""
    monkeypatch.setattr(module, "KEEPALIVE_S", 1)
    proxy = Proxy(mosquitto.port)
    async with proxy.running():
        consumer = Consumer(proxy.port)
        async with consumer.running():
            await until(lambda: consumer.connected, "the subscription")
            await publish(mosquitto.port, [b"1"])
            await until(lambda: consumer.handled == [b"1"], "the first message")
            proxy.freeze()
            await publish(mosquitto.port, [b"2"])
            await until(lambda: b"2" in consumer.handled, "the second message")

    assert consumer.handled == [b"1", b"2"]
    assert proxy.accepted == 2


async def test_it_ends_where_the_broker_does_not_answer(mosquitto: Mosquitto) -> None:
    """Cancelled on a connection that is half open, and while a broker accepts a connection and does not answer."""
    proxy = Proxy(mosquitto.port)
    async with proxy.running():
        consumer = Consumer(proxy.port)
        async with consumer.running():
            await until(lambda: consumer.connected, "the subscription")
            proxy.freeze()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with Consumer(silent.getsockname()[1]).running():
            accepted, _ = await asyncio.to_thread(silent.accept)
        accepted.close()


async def test_memory_is_bounded_while_the_log_is_away(mosquitto: Mosquitto) -> None:
    """The broker holds back what it would deliver again (QoS 1); what it would not (QoS 0) is dropped and counted."""
    consumer = Consumer(mosquitto.port, blocked=True)
    async with consumer.running():
        await until(lambda: consumer.connected, "the subscription")
        await publish(mosquitto.port, [b"begin"])
        await until(lambda: consumer.begun, "a batch")
        await publish(mosquitto.port, numbered(1, 2 * RECEIVE_MAXIMUM))
        await publish(mosquitto.port, [b"unsure"] * 3 * RECEIVE_MAXIMUM, qos=0)
        dropped = consumer.metrics.refused.labels("qos")._value.get
        await until(lambda: dropped() > RECEIVE_MAXIMUM, "messages to be dropped")
        consumer.open.set()
        await until(lambda: b"%d" % (2 * RECEIVE_MAXIMUM) in consumer.handled, "the last message")

    sure = [one for one in consumer.handled if one not in {b"begin", b"unsure"}]
    assert sure == numbered(1, 2 * RECEIVE_MAXIMUM)
    assert dropped() + consumer.handled.count(b"unsure") <= 3 * RECEIVE_MAXIMUM


@pytest.mark.parametrize("topic", [b"steepest/edge-1/\xff\xfe", b"steepest/edge-1/\x00", b"steepest/#", b""])
async def test_a_topic_that_is_no_text_never_arrives(mosquitto: Mosquitto, topic: bytes) -> None:
    """The broker closes the sender's connection, and the bridge's stays."""
    consumer = Consumer(mosquitto.port)
    async with consumer.running():
        await until(lambda: consumer.connected, "the subscription")
        with contextlib.suppress(OSError):
            await asyncio.to_thread(publish_raw, mosquitto.port, topic)
        await publish(mosquitto.port, [b"good"])
        await until(lambda: consumer.handled, "a message")

    assert consumer.handled == [b"good"]


async def test_properties_of_a_message_do_no_harm(mosquitto: Mosquitto) -> None:
    """A sender may attach hundreds of them."""
    properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = [("name", "value" * 100)] * 300
    properties.ResponseTopic = "steepest/edge-2/loss"
    properties.CorrelationData = b"\xff" * 1_000
    properties.PayloadFormatIndicator = 1
    consumer = Consumer(mosquitto.port)
    async with consumer.running():
        await until(lambda: consumer.connected, "the subscription")
        async with aiomqtt.Client("127.0.0.1", mosquitto.port, protocol=aiomqtt.ProtocolVersion.V5) as client:
            await client.publish(TOPIC, b"text", qos=1, properties=properties)
        await until(lambda: consumer.handled, "a message")

    assert consumer.handled == [b"text"]


def publish_raw(port: int, topic: bytes) -> None:
    """Publish with MQTT 3.1.1 under a topic of any bytes, and wait until the broker closes the connection."""

    def text(data: bytes) -> bytes:
        return struct.pack(">H", len(data)) + data

    def packet(kind: int, body: bytes) -> bytes:
        assert len(body) < 128
        return bytes([kind, len(body)]) + body

    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(packet(0x10, text(b"MQTT") + b"\x04\x02\x00\x1e" + text(b"raw")))
        assert connection.recv(4)[:2] == b"\x20\x02"
        connection.sendall(packet(0x32, text(topic) + b"\x00\x01" + b"bad"))
        while connection.recv(1_024):
            pass
