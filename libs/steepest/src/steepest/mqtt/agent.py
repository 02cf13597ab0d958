"""The agent of a node that reaches no log: its effectors' events become MQTT messages.

It owns the connection and the device's sequence. It must never know the content of what it sends.

Nothing is buffered here: a call returns once the broker has the message, and the caller waits. Losses wait in the files of
their jobs, from which they are read on; of heartbeats the newest is sent, because it holds all that the older ones held. A
process begins a new generation, so no number is used twice; what it reads from files a second time keeps its number there
(``source``).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from paho.mqtt.client import Client, ConnectFlags
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from steepest.clock import Clock
from steepest.events.cluster import ClusterEvent
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.received import Received
from steepest.events.registry import encode
from steepest.logger import Logger
from steepest.mqtt.payload import Envelope, topic_of
from steepest.mqtt.settings import KEEPALIVE_S, RECONNECT_FIRST_S, RECONNECT_MAX_S, MqttSettings
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView

logger = Logger()

NO_MATCHING_SUBSCRIBERS = 0x10
"""MQTT's reason code for a message that the broker accepted and dropped, because no session subscribes to its topic."""

MAX_IN_FLIGHT = 50
"""Messages sent ahead of their acknowledgement."""

RETRY_S = 5.0
"""Between two attempts to send what the broker did not accept."""


class Publisher:
    """A connection that publishes and reports the broker's acknowledgement of each message.

    It uses paho and not aiomqtt, which drops the acknowledgement's reason code: a refused message looks accepted there
    (docs/decisions/mqtt-clients.md).
    """

    def __init__(self, settings: MqttSettings, clock: Clock) -> None:
        """Not connected yet.

        Raises:
            InputError: A certificate cannot be read.
        """
        self._settings = settings
        self._clock = clock
        self._generation = secrets.token_hex(8)
        self._numbers: dict[str, int] = {}
        self._unacknowledged: dict[int, asyncio.Future[ReasonCode]] = {}
        client_id = f"steepest-agent-{settings.device}-{self._generation}"
        self._client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.reconnect_delay_set(RECONNECT_FIRST_S, RECONNECT_MAX_S)
        self._client.max_inflight_messages_set(MAX_IN_FLIGHT)
        if settings.username:
            self._client.username_pw_set(settings.username, settings.password)
        if (tls := settings.tls_context()) is not None:
            self._client.tls_set_context(tls)
        self._client.on_connect = self._on_connect
        self._client.on_publish = self._on_publish
        self._loop: asyncio.AbstractEventLoop

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Connect, and reconnect after every loss of the connection, for as long as the context lasts."""
        self._loop = asyncio.get_running_loop()
        self._client.connect_async(self._settings.host, self._settings.port, KEEPALIVE_S)
        self._client.loop_start()
        try:
            yield
        finally:
            self._client.disconnect()
            await asyncio.to_thread(self._client.loop_stop)

    async def publish(self, channel: str, unnumbered: Envelope) -> None:
        """Publish under the device's next number, and repeat until the broker keeps the message for a subscriber."""
        while True:
            reason = await self._publish_once(channel, unnumbered)
            if not reason.is_failure and reason.value != NO_MATCHING_SUBSCRIBERS:
                return
            logger.warning("the broker does not keep a message", broker=self._settings.broker, why=str(reason))
            await self._clock.sleep(RETRY_S)

    def _publish_once(self, channel: str, unnumbered: Envelope) -> asyncio.Future[ReasonCode]:
        """Number a message and hand it to the client without waiting in between, so that both orders are the same."""
        device = unnumbered.device
        number = self._numbers[device] = self._numbers.get(device, 0) + 1
        envelope = msgspec.structs.replace(unnumbered, generation=self._generation, seq=number)
        topic = topic_of(self._settings.prefix, device, channel)
        info = self._client.publish(topic, msgspec.json.encode(envelope), qos=1)
        future = self._unacknowledged[info.mid] = self._loop.create_future()
        return future

    # --- called by the client's thread -----------------------------------------------------------------------------------

    def _on_connect(
        self, _client: Client, _data: Any, _flags: ConnectFlags, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        if reason.is_failure:
            logger.error("the broker refuses the connection", broker=self._settings.broker, why=str(reason))

    def _on_publish(
        self, _client: Client, _data: Any, mid: int, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._acknowledged, mid, reason)

    def _acknowledged(self, mid: int, reason: ReasonCode) -> None:
        future = self._unacknowledged.pop(mid, None)
        if future is not None and not future.done():
            future.set_result(reason)


class MqttAgent(Effector):
    """Effectors whose events go to the broker, and not to the log that they follow."""

    name = "mqtt-agent"

    def __init__(self, settings: MqttSettings, clock: Clock, effectors: Sequence[Effector]) -> None:
        """``settings`` name the device.

        Raises:
            InputError: A certificate cannot be read.
        """
        assert settings.device is not None  # noqa: S101 - an installation without a device makes no agent
        self._device = settings.device
        self._clock = clock
        self._effectors = effectors
        self._publisher = Publisher(settings, clock)

    def caught_up(self, view: ClusterView) -> None:
        """Pass it to each effector."""
        for effector in self._effectors:
            effector.caught_up(view)

    def observe(self, view: ClusterView, received: Received[ClusterEvent], *, accepted: bool) -> None:
        """Pass it to each effector."""
        for effector in self._effectors:
            effector.observe(view, received, accepted=accepted)

    async def run(self, send: Send) -> None:  # noqa: ARG002 - the log cannot be reached from here
        """Run the effectors until cancelled."""
        async with self._publisher.connected(), asyncio.TaskGroup() as group:
            for effector in self._effectors:
                group.create_task(effector.run(self._send), name=effector.name)

    async def _send(
        self,
        *events: msgspec.Struct,
        topic: str = "cluster",
        key: str | None = None,  # noqa: ARG002 - the bridge derives it from the event
        times: Sequence[int] = (),
        source: str = "",
        numbers: Sequence[int] = (),
        trace: str = "",  # noqa: ARG002 - only what follows from the log belongs to a trace
    ) -> None:
        """As :class:`~steepest.runtime.effector.Send`, up to the broker."""
        now_ms = self._clock.now_ms()
        envelopes = [
            Envelope(
                device=event.node if isinstance(event, NodeHeartbeat) else self._device,
                generation="",
                seq=0,
                event=msgspec.Raw(encode(event)),
                at_ms=times[index] if times else now_ms,
                source=source or None,
                number=str(numbers[index]) if source else None,
            )
            for index, event in enumerate(events)
        ]
        await asyncio.gather(*(self._publisher.publish(topic, envelope) for envelope in envelopes))
