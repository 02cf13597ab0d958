"""Sends the outbox to the broker: oldest first, each message until the broker has accepted it for a subscriber."""

from __future__ import annotations

import contextlib
import ssl
import threading
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from steepest_sdk.delivery.outbox import MessageOutbox
from steepest_sdk.notes import OnceWarner

if TYPE_CHECKING:
    from paho.mqtt.client import Client, ConnectFlags
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

ON_THE_WAY = 50
"""Maximum number of unacknowledged messages; fewer than a bridge remembers."""

NO_SUBSCRIBERS = 0x10
"""MQTT reason "no matching subscribers": the broker drops the message, because no bridge has ever subscribed."""

RETRY_S = 2.0
POLL_S = 0.5


@dataclass(frozen=True)
class BrokerSettings:
    """The connection settings of a broker."""

    host: str
    port: int
    tls: bool = False
    username: str = ""
    password: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def client(self, client_id: str) -> Client:
        """A client that is not connected yet, and reconnects by itself.

        Raises:
            ImportError: paho-mqtt is not installed.
            OSError: A certificate cannot be read.
        """
        from paho.mqtt.client import Client  # noqa: PLC0415 - the SDK itself has no dependencies
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion  # noqa: PLC0415

        client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5)
        client.reconnect_delay_set(1, 15)
        client.max_inflight_messages_set(ON_THE_WAY)
        if self.username:
            client.username_pw_set(self.username, self.password)
        if self.tls or self.ca_file or self.cert_file or self.key_file:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file or None)
            client.tls_set_context(context)
        return client


class Sender:
    """A thread that empties an outbox.

    After a message that the broker rejects, it sends one message at a time until one is accepted: this keeps the order of
    the sequence numbers. The client's callbacks only put notifications into a queue, because the client's thread holds locks
    that publishing needs.
    """

    def __init__(self, broker: BrokerSettings, client_id: str, outbox: MessageOutbox) -> None:
        """Starts to connect, and retries until it succeeds.

        Raises:
            ImportError: The client is not installed.
            OSError: A certificate cannot be read.
        """
        self._outbox = outbox
        self._warner = OnceWarner()
        self._notifications: SimpleQueue[tuple[int, ReasonCode] | None] = SimpleQueue()
        self._on_the_way: dict[int, int] = {}
        self._sent = 0
        self._window = 1
        self._wait_until = 0.0
        self._ended = False
        self._emptied = threading.Condition()
        self._client = broker.client(client_id)
        self._client.on_connect = self._on_connect
        self._client.on_publish = self._on_publish
        self._client.connect_async(broker.host, broker.port, keepalive=30)
        self._client.loop_start()
        self._thread = threading.Thread(target=self._run, name="steepest-outbox", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Notifies the thread of a new message in the outbox."""
        self._notifications.put(None)

    def flush(self, seconds: float | None) -> bool:
        """Waits until the outbox is empty, for at most ``seconds``; returns whether it is."""
        with self._emptied:
            return self._emptied.wait_for(lambda: not len(self._outbox), seconds)

    def close(self) -> None:
        """Stops sending."""
        self._ended = True
        self._notifications.put(None)
        self._thread.join()
        self._client.disconnect()
        self._client.loop_stop()

    def _run(self) -> None:
        while not self._ended:
            self._listen()
            if time.monotonic() >= self._wait_until:
                self._send()
            if not len(self._outbox):
                with self._emptied:
                    self._emptied.notify_all()

    def _listen(self) -> None:
        """Waits for a notification, and processes all that are queued."""
        with contextlib.suppress(Empty):
            notification = self._notifications.get(timeout=POLL_S)
            while True:
                if notification is not None:
                    self._acknowledged(*notification)
                notification = self._notifications.get_nowait()

    def _send(self) -> None:
        for waiting in self._outbox.after(self._sent, max(self._window - len(self._on_the_way), 0)):
            info = self._client.publish(waiting.topic, waiting.payload, qos=1)
            self._on_the_way[info.mid] = waiting.place
            self._sent = waiting.place

    def _acknowledged(self, mid: int, reason: ReasonCode) -> None:
        place = self._on_the_way.pop(mid)
        if reason.is_failure or reason.value == NO_SUBSCRIBERS:
            self._warner.once("taken", f"the broker does not accept reports ({reason}); they stay in the outbox")
            self._window, self._wait_until = 1, time.monotonic() + RETRY_S
            self._sent = min(self._sent, place - 1)
            return
        self._outbox.remove(place)
        if self._sent >= place:
            self._window = ON_THE_WAY

    # --- called by the client's thread -----------------------------------------------------------------------------------

    def _on_connect(
        self, _client: Client, _data: Any, _flags: ConnectFlags, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        if reason.is_failure:
            self._warner.once("connect", f"the broker refuses the connection: {reason}")

    def _on_publish(
        self, _client: Client, _data: Any, mid: int, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        self._notifications.put((mid, reason))
