"""How an MQTT broker is reached: the settings, and the client that they make.

It owns names, defaults and what is refused. It must never connect to anything, or know what is said over the connection.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec

from steepest.errors import InputError
from steepest.events.common import Name

if TYPE_CHECKING:
    from paho.mqtt.client import Client

VARIABLE = "STEEPEST_MQTT"
"""The broker; the other settings are named after it (``STEEPEST_MQTT_USERNAME`` and so on)."""

FOR_THE_SDK = (f"{VARIABLE}_OUTBOX",)
"""Variables of that form which only training scripts read."""

KEEPALIVE_S = 30
CONNECT_S = 5.0
FIRST_WAIT_S, LONGEST_WAIT_S = 1, 15
"""Between two attempts to connect; the client counts in whole seconds."""

Broker = Annotated[str, msgspec.Meta(pattern=r"^([^\s:/]+|\[[0-9a-fA-F:.]+\]):\d{1,5}$(?!\n)")]
Prefix = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._-]{1,50}(/[a-zA-Z0-9._-]{1,50}){0,5}$(?!\n)")]
Nodes = Annotated[str, msgspec.Meta(pattern=r"^([a-z0-9][a-z0-9._-]{0,62}(,[a-z0-9][a-z0-9._-]{0,62})*)?$(?!\n)")]
ClientId = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._/-]{0,200}$(?!\n)")]


class MqttSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach an MQTT broker.

    Attributes:
        broker: ``host:port``.
        prefix: The first part of every topic, so that installations can share a broker.
        device: Who we are on this side of the broker; empty for the bridge, which is on the other.
        agents: For the bridge: the nodes whose log-collectors write over MQTT, with commas; ``device`` is one of them.
        client_id: The bridge's name at the broker; empty: made of the pool and the prefix.
        tls: Whether the connection is encrypted; so it is where one of the files is named.
        ca_file: Certificates that the broker's is checked against; empty for the system's.
        cert_file: Our own certificate, where the broker asks for one.
        key_file: Its key.
    """

    broker: Broker
    prefix: Prefix = "steepest"
    device: Name | None = None
    agents: Nodes = ""
    client_id: ClientId = ""
    username: str = ""
    password: str = ""
    tls: bool = False
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def __repr__(self) -> str:
        return f"MQTT at {self.broker}"

    @property
    def agent_nodes(self) -> frozenset[str]:
        """The nodes whose log-collectors write over MQTT."""
        return frozenset(name for name in (*self.agents.split(","), self.device) if name)

    @property
    def host(self) -> str:
        """The broker's host, or its address."""
        return self.broker.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The broker's port."""
        return int(self.broker.rpartition(":")[2])

    def client(self, client_id: str, *, manual_ack: bool = False) -> Client:
        """A client of MQTT 5 that is not connected yet, and connects again by itself.

        Raises:
            InputError: The client is not installed, or a certificate cannot be read.
        """
        try:
            from paho.mqtt.client import Client  # noqa: PLC0415 - an extra, which only the edge needs
            from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion  # noqa: PLC0415
        except ImportError as error:
            raise InputError(
                f"there is no client of MQTT: {error}", hint="install it with: pip install 'steepest[mqtt]'"
            ) from error
        client = Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=manual_ack
        )
        client.connect_timeout = CONNECT_S
        client.reconnect_delay_set(FIRST_WAIT_S, LONGEST_WAIT_S)
        if self.username:
            client.username_pw_set(self.username, self.password)
        if self.tls or self.ca_file or self.cert_file or self.key_file:
            client.tls_set_context(self._tls())
        return client

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file or None)
        except OSError as error:
            raise InputError(
                f"MQTT's certificates cannot be read: {error}",
                hint=f"look at {VARIABLE}_CA_FILE, {VARIABLE}_CERT_FILE and {VARIABLE}_KEY_FILE",
            ) from error
        return context


def mqtt_settings(environ: Mapping[str, str]) -> MqttSettings | None:
    """Settings from ``STEEPEST_MQTT`` and its like; None where no broker is named.

    Raises:
        InputError: One of them is wrong, or none of ours; the message names it.
    """
    names = {f"{VARIABLE}_{field.upper()}": field for field in MqttSettings.__struct_fields__ if field != "broker"}
    given = {
        name: text for name, text in environ.items() if name.startswith(f"{VARIABLE}_") and name not in FOR_THE_SDK
    }
    if unknown := sorted(set(given) - set(names)):
        raise InputError(f"there is no setting {', '.join(unknown)}", hint=f"the settings are {', '.join(names)}")
    if not environ.get(VARIABLE):
        return None
    fields = {names[name]: text for name, text in given.items()} | {"broker": environ[VARIABLE]}
    try:
        settings = msgspec.convert(fields, MqttSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(
            f"wrong MQTT setting: {error}", hint=f"look at {VARIABLE} (host:port) and {', '.join(names)}"
        ) from error
    if not 1 <= settings.port <= 65_535:  # noqa: PLR2004 - the numbers of ports
        raise InputError(f"{VARIABLE}: {settings.port} is no port", hint="write it like broker:1883")
    return settings
