"""The bridge's connection: messages in the order in which the broker delivers them, acknowledged one by one, when we say so.

It owns the client and its thread. It must never know what a message says.

The session is the broker's: it outlives the connection and this process, and the broker keeps in it what was not
acknowledged. After a reconnect it delivers that again, under numbers that it may give to other messages once they are
acknowledged. So an acknowledgement is only sent over the connection that brought the message; one that is late is left out,
and the message comes again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import structlog
from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from steepest.mqtt.metric_defs import MqttMetrics
from steepest.mqtt.settings import KEEPALIVE_S, MqttSettings

logger = structlog.get_logger(__name__)

ON_THE_WAY = 500
"""Messages that the broker may send ahead of their acknowledgement; so many wait in memory at most."""

LARGEST_PACKET = 2**20
"""Bytes. Beyond this a broker keeps a message from us by itself; what is smaller and still too large is told."""

NEVER = 0xFFFF_FFFF
"""Seconds until the broker forgets our session."""


class Arrived(msgspec.Struct, frozen=True):
    """A message that was delivered.

    Attributes:
        connection: By which one, in the order of connections.
        mid: Its number there; 0 where it is not to be acknowledged.
    """

    topic: str
    payload: bytes
    connection: int
    mid: int


class Session:
    """A lasting subscription to everything below the prefix."""

    def __init__(
        self, settings: MqttSettings, client_id: str, metrics: MqttMetrics, take: Callable[[Arrived], None]
    ) -> None:
        """``take`` gets each message, within the event loop that connects."""
        self._take = take
        self._settings = settings
        self._metrics = metrics
        self._filter = f"{settings.prefix}/#"
        self._client = settings.client(client_id, manual_ack=True)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._lock = threading.Lock()
        self._connection = 0
        self._connected = False
        self._loop: asyncio.AbstractEventLoop

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Connect, and again whenever the connection is lost, for as long as the context lasts."""
        self._loop = asyncio.get_running_loop()
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = NEVER
        properties.ReceiveMaximum = ON_THE_WAY
        properties.MaximumPacketSize = LARGEST_PACKET
        self._client.connect_async(
            self._settings.host, self._settings.port, KEEPALIVE_S, clean_start=False, properties=properties
        )
        self._client.loop_start()
        try:
            yield
        finally:
            self._client.disconnect()
            await asyncio.to_thread(self._client.loop_stop)

    def acknowledge(self, message: Arrived) -> None:
        """The broker may forget a message. Acknowledge in the order of arrival."""
        with self._lock:
            if message.mid and self._connected and message.connection == self._connection:
                self._client.ack(message.mid, 1)

    # --- called by the client's thread -----------------------------------------------------------------------------------

    def _on_connect(
        self, client: Client, _data: Any, _flags: ConnectFlags, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        if reason.is_failure:
            logger.error("the broker refuses the connection", broker=self._settings.broker, why=str(reason))
            return
        with self._lock:
            self._connection += 1
            self._connected = True
        self._metrics.connected.set(1)
        logger.info("connected", broker=self._settings.broker, topics=self._filter)
        # What is retained there was sent when we subscribed first.
        client.subscribe(self._filter, options=SubscribeOptions(qos=1, retainHandling=1))

    def _on_subscribe(
        self, _client: Client, _data: Any, _mid: int, reasons: list[ReasonCode], _properties: Properties | None
    ) -> None:
        for reason in reasons:
            if reason.is_failure:
                logger.error("the broker refuses the subscription", topics=self._filter, why=str(reason))

    def _on_disconnect(
        self, _client: Client, _data: Any, _flags: DisconnectFlags, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        with self._lock:
            self._connected = False
        self._metrics.connected.set(0)
        logger.warning("disconnected", broker=self._settings.broker, why=str(reason))

    def _on_message(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        arrived = Arrived(topic, bytes(message.payload), self._connection, message.mid if message.qos else 0)
        self._loop.call_soon_threadsafe(self._take, arrived)
