"""A node's agent that has no way to the log but the broker: its events become messages.

It owns the connection and the device's sequence. It must never know what is sent.

Nothing is buffered here: a call returns once the broker has the message, and whoever calls waits. Losses wait in the files
of their jobs, from which they are read on; of heartbeats the newest is sent, because each says all that the older ones
said. A process begins a new generation, so no number is used twice, and what it reads from files a second time has its old
number there (``source``).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import structlog
from paho.mqtt.client import Client, ConnectFlags
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from steepest.clock import Clock
from steepest.events.cluster import ClusterEvent
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.received import Received
from steepest.events.registry import encode
from steepest.mqtt.payload import Said, topic_of
from steepest.mqtt.settings import KEEPALIVE_S, MqttSettings
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView

logger = structlog.get_logger(__name__)

NOBODY_LISTENS = 0x10
"""The broker has the message and nobody to give it to, so it is gone: no bridge has ever been there."""

ON_THE_WAY = 50
"""Messages sent ahead of their acknowledgement."""

AGAIN_S = 5.0
"""Between two attempts to send what the broker did not take."""


class Publisher:
    """A connection that publishes, and says when the broker has what was published."""

    def __init__(self, settings: MqttSettings, clock: Clock) -> None:
        """Not connected yet."""
        self._settings = settings
        self._clock = clock
        self._generation = secrets.token_hex(8)
        self._numbers: dict[str, int] = {}
        self._waiting: dict[int, asyncio.Future[ReasonCode]] = {}
        self._client = settings.client(f"steepest-agent-{settings.device}-{self._generation}")
        self._client.max_inflight_messages_set(ON_THE_WAY)
        self._client.on_connect = self._on_connect
        self._client.on_publish = self._on_publish
        self._loop: asyncio.AbstractEventLoop

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Connect, and again whenever the connection is lost, for as long as the context lasts."""
        self._loop = asyncio.get_running_loop()
        self._client.connect_async(self._settings.host, self._settings.port, KEEPALIVE_S)
        self._client.loop_start()
        try:
            yield
        finally:
            self._client.disconnect()
            await asyncio.to_thread(self._client.loop_stop)

    async def publish(self, channel: str, unnumbered: Said) -> None:
        """Say something under the device's next number, again and again until the broker has it for somebody."""
        while True:
            reason = await self._once(channel, unnumbered)
            if not reason.is_failure and reason.value != NOBODY_LISTENS:
                return
            logger.warning("the broker does not take a message", broker=self._settings.broker, why=str(reason))
            await self._clock.sleep(AGAIN_S)

    def _once(self, channel: str, unnumbered: Said) -> asyncio.Future[ReasonCode]:
        """Number it and hand it to the client in one go: both orders are the same."""
        device = unnumbered.device
        number = self._numbers[device] = self._numbers.get(device, 0) + 1
        said = msgspec.structs.replace(unnumbered, generation=self._generation, seq=number)
        info = self._client.publish(topic_of(self._settings.prefix, device, channel), msgspec.json.encode(said), qos=1)
        future = self._waiting[info.mid] = self._loop.create_future()
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
        future = self._waiting.pop(mid, None)
        if future is not None and not future.done():
            future.set_result(reason)


class OverMqtt(Effector):
    """Some effectors whose events go to the broker, and not to the log that they follow."""

    name = "mqtt-agent"

    def __init__(self, settings: MqttSettings, clock: Clock, effectors: Sequence[Effector]) -> None:
        """``settings`` name the device."""
        assert settings.device is not None  # noqa: S101 - whoever has no name is no device, and not made one
        self._device = settings.device
        self._clock = clock
        self._effectors = effectors
        self._publisher = Publisher(settings, clock)

    def caught_up(self, view: ClusterView) -> None:
        """Hand it on."""
        for effector in self._effectors:
            effector.caught_up(view)

    def observe(self, view: ClusterView, received: Received[ClusterEvent], *, accepted: bool) -> None:
        """Hand it on."""
        for effector in self._effectors:
            effector.observe(view, received, accepted=accepted)

    async def run(self, send: Send) -> None:  # noqa: ARG002 - the log is not reached from here
        """Run them until cancelled."""
        async with self._publisher.connected(), asyncio.TaskGroup() as group:
            for effector in self._effectors:
                group.create_task(effector.run(self._send), name=effector.name)

    async def _send(
        self,
        *events: msgspec.Struct,
        topic: str = "cluster",
        key: str | None = None,  # noqa: ARG002 - the bridge finds it in the event
        times: Sequence[int] = (),
        source: str = "",
        numbers: Sequence[int] = (),
    ) -> None:
        """As :class:`~steepest.runtime.effector.Send`, up to the broker."""
        now_ms = self._clock.now_ms()
        said = [
            Said(
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
        await asyncio.gather(*(self._publisher.publish(topic, one) for one in said))
