"""The bridge's subscription at the broker: messages in order of arrival, acknowledged after they are handled.

It owns the connections. It must never know the content of a message.

The session is the broker's: it outlives a connection and this process, and the broker keeps in it what is not acknowledged.
After a reconnect it delivers that again under message ids of its choice. So each connection has a client of its own, and a
message is acknowledged through the client that received it: an acknowledgement that comes too late reaches no other message,
and its message is delivered again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aiomqtt import Client, Message, MqttError, ProtocolVersion
from aiomqtt.exceptions import MqttConnectError
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from steepest.clock import Clock
from steepest.logger import Logger
from steepest.mqtt.metric_defs import MqttMetrics
from steepest.mqtt.settings import KEEPALIVE_S, RECONNECT_FIRST_S, RECONNECT_MAX_S, MqttSettings

logger = Logger()

RECEIVE_MAXIMUM = 500
"""Messages that the broker sends ahead of their acknowledgement, so at most this many wait in memory."""

MAX_BATCH = RECEIVE_MAXIMUM
"""Messages that are handled together."""

MAX_PACKET_BYTES = 2**20
"""The broker itself drops larger messages. A smaller one that is still too large becomes a dead letter."""

SESSION_NEVER_EXPIRES = 0xFFFF_FFFF

Handler = Callable[[Sequence[Message]], Awaitable[None]]


class Subscription:
    """A persistent subscription to all topics below the prefix."""

    def __init__(self, settings: MqttSettings, client_id: str, metrics: MqttMetrics, clock: Clock) -> None:
        """Not connected yet.

        Raises:
            InputError: A certificate cannot be read.
        """
        self._settings = settings
        self._client_id = client_id
        self._metrics = metrics
        self._clock = clock
        self._tls = settings.tls_context()
        self._filter = f"{settings.prefix}/#"

    async def run(self, handle: Handler) -> None:
        """Receive until cancelled, and reconnect after every loss of the connection.

        Args:
            handle: Is called with each batch, one after the other. When it returns, the batch is acknowledged.
        """
        wait_s = RECONNECT_FIRST_S
        while True:
            try:
                async with self._client() as client:
                    await self._subscribe(client)
                    wait_s = RECONNECT_FIRST_S
                    await _receive(client, handle)
            except MqttError as error:
                what = "the broker refuses the connection" if isinstance(error, MqttConnectError) else "no connection"
                logger.warning(what, broker=self._settings.broker, why=str(error.__cause__ or error))
            finally:
                self._metrics.connected.set(0)
            await self._clock.sleep(wait_s)
            wait_s = min(2 * wait_s, RECONNECT_MAX_S)

    def _client(self) -> Client:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = SESSION_NEVER_EXPIRES
        properties.ReceiveMaximum = RECEIVE_MAXIMUM
        properties.MaximumPacketSize = MAX_PACKET_BYTES
        client = Client(
            self._settings.host,
            self._settings.port,
            username=self._settings.username or None,
            password=self._settings.password,
            identifier=self._client_id,
            protocol=ProtocolVersion.V5,
            clean_start=False,
            keepalive=KEEPALIVE_S,
            properties=properties,
            tls_context=self._tls,
            queue_type=_inbox(self._metrics),
        )
        # aiomqtt has no setting for this. It must precede the connection: the broker delivers what waits
        # in the session directly after it accepts the client.
        client._client.manual_ack_set(True)  # noqa: FBT003, SLF001
        return client

    async def _subscribe(self, client: Client) -> None:
        # Retained messages were sent with the first subscription of the session.
        reasons = await client.subscribe(self._filter, options=SubscribeOptions(qos=1, retainHandling=1))
        if refused := [str(reason) for reason in reasons if getattr(reason, "is_failure", False)]:
            logger.error("the broker refuses the subscription", topics=self._filter, why=", ".join(refused))
            return
        self._metrics.connected.set(1)
        # aiomqtt reports a loss only to those who wait for the next message, and the handler may wait for the log for hours.
        client._disconnected.add_done_callback(lambda _: self._metrics.connected.set(0))  # noqa: SLF001
        logger.info("connected", broker=self._settings.broker, topics=self._filter)


async def _receive(client: Client, handle: Handler) -> None:
    """Handle and acknowledge what one connection delivers.

    Raises:
        MqttError: The connection is lost.
    """
    messages = client.messages
    async for first in messages:
        batch = [first]
        while len(messages) and len(batch) < MAX_BATCH:
            batch.append(await anext(messages))
        await handle(batch)
        for message in batch:
            client._client.ack(message.mid, message.qos)  # noqa: SLF001 - see _client


def _inbox(metrics: MqttMetrics) -> type[asyncio.Queue[Message]]:
    """A queue that is bounded for both levels of delivery.

    The broker itself holds messages of QoS 1 back (Receive Maximum). It never holds back those of QoS 0, so they are dropped
    while the queue is full; a bound of aiomqtt's own would drop those of QoS 1 as well.
    """

    class Inbox(asyncio.Queue[Message]):
        def put_nowait(self, item: Message) -> None:
            if item.qos == 0 and self.qsize() >= RECEIVE_MAXIMUM:
                metrics.refused.labels("qos").inc()
            else:
                super().put_nowait(item)

    return Inbox
