"""How an MQTT broker is reached: the settings and their validation.

It owns names, defaults and what is refused. It must never connect to anything, or know what is sent over the connection.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated

import msgspec

from steepest.errors import InputError
from steepest.events.common import Name

VARIABLE = "STEEPEST_MQTT"
"""The broker; the other settings are named after it (``STEEPEST_MQTT_USERNAME`` and so on)."""

SDK_VARIABLES = (f"{VARIABLE}_OUTBOX",)
"""Variables of that form which only training scripts read."""

KEEPALIVE_S = 30
RECONNECT_FIRST_S, RECONNECT_MAX_S = 1, 15
"""Between two attempts to connect, doubled after each; the agent's client takes whole seconds."""

Broker = Annotated[str, msgspec.Meta(pattern=r"^([^\s:/]+|\[[0-9a-fA-F:.]+\]):\d{1,5}$(?!\n)")]
Prefix = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._-]{1,50}(/[a-zA-Z0-9._-]{1,50}){0,5}$(?!\n)")]
Nodes = Annotated[str, msgspec.Meta(pattern=r"^([a-z0-9][a-z0-9._-]{0,62}(,[a-z0-9][a-z0-9._-]{0,62})*)?$(?!\n)")]
ClientId = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._/-]{0,200}$(?!\n)")]


class MqttSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach an MQTT broker.

    Attributes:
        broker: ``host:port``.
        prefix: The first part of every topic, so that installations can share a broker.
        device: The name of this device; empty for the bridge.
        agents: For the bridge: the nodes whose log-collectors write over MQTT, with commas; ``device`` is one of them.
        client_id: The bridge's client id at the broker; empty: made of the pool and the prefix.
        tls: Whether the connection is encrypted. It also is where one of the files is named.
        ca_file: Authorities that the broker's certificate is checked against; empty for the system's.
        cert_file: The client's certificate, where the broker asks for one.
        key_file: The key of that certificate.
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

    def tls_context(self) -> ssl.SSLContext | None:
        """How the broker is authenticated; None where the connection is not encrypted.

        Raises:
            InputError: A certificate cannot be read.
        """
        if not (self.tls or self.ca_file or self.cert_file or self.key_file):
            return None
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
    """Settings from ``STEEPEST_MQTT`` and ``STEEPEST_MQTT_…``; None where no broker is named.

    Raises:
        InputError: A setting is wrong or unknown, and the message names it; or the extra ``mqtt`` is not installed.
    """
    names = {f"{VARIABLE}_{field.upper()}": field for field in MqttSettings.__struct_fields__ if field != "broker"}
    given = {
        name: text for name, text in environ.items() if name.startswith(f"{VARIABLE}_") and name not in SDK_VARIABLES
    }
    if unknown := sorted(set(given) - set(names)):
        raise InputError(f"there is no setting {', '.join(unknown)}", hint=f"the settings are {', '.join(names)}")
    if not environ.get(VARIABLE):
        return None
    if find_spec("aiomqtt") is None:
        raise InputError("there is no client of MQTT", hint="install it with: pip install 'steepest[mqtt]'")
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
