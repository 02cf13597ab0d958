"""How an MQTT broker is reached: the settings and their validation.

It owns names, defaults and what is refused. It must never connect to anything, or know what is sent over the connection.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from steepest.errors import InputError
from steepest.events.common import Name

if TYPE_CHECKING:
    import ssl

KEEPALIVE_S = 30
RECONNECT_FIRST_S, RECONNECT_MAX_S = 1, 15
"""Between two attempts to connect, doubled after each; the agent's client takes whole seconds."""


def _port(broker: str) -> int:
    port = int(broker.rpartition(":")[2])
    if not 1 <= port <= 65_535:  # noqa: PLR2004 - the numbers of ports
        raise ValueError(f"{port} is no port; write it like broker:1883")
    return port


Broker = Annotated[
    str,
    Meta(
        pattern=r"^(([^\s:/]+|\[[0-9a-fA-F:.]+\]):\d{1,5})?$(?!\n)",
        examples=["broker:1883", "[::1]:8883"],
        extra={"check": _port},
    ),
]
Prefix = Annotated[
    str,
    Meta(pattern=r"^[a-zA-Z0-9._-]{1,50}(/[a-zA-Z0-9._-]{1,50}){0,5}$(?!\n)", examples=["steepest", "plant/line-1"]),
]
Nodes = Annotated[
    str,
    Meta(
        pattern=r"^([a-z0-9][a-z0-9._-]{0,62}(,[a-z0-9][a-z0-9._-]{0,62})*)?$(?!\n)",
        examples=["edge-1", "edge-1,edge-2"],
    ),
]
ClientId = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9._/-]{0,200}$(?!\n)", examples=["bridge-1"])]


class MqttSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an MQTT broker is reached, over which devices send heartbeats and losses."""

    broker: Annotated[
        Broker,
        Meta(
            description="The broker; default: no device is heard.",
            extra={"variable": "STEEPEST_MQTT", "flag": "--mqtt"},
        ),
    ] = ""
    prefix: Annotated[
        Prefix, Meta(description="The first part of every topic, so that installations can share a broker.")
    ] = "steepest"
    device: Annotated[
        Name | None, Meta(description="The node whose log-collector this is: it writes over MQTT and not to the log.")
    ] = None
    agents: Annotated[
        Nodes, Meta(description="For the bridge: the nodes, with commas, whose log-collectors write over MQTT.")
    ] = ""
    client_id: Annotated[
        ClientId, Meta(description="The bridge's client id; default: made of the pool and the prefix.")
    ] = ""
    username: Annotated[str, Meta(description="The client's name.")] = ""
    password: Annotated[str, Meta(description="The client's password.", extra={"secret": True})] = ""
    tls: Annotated[
        bool, Meta(description="Encrypt the connection; it is encrypted too where one of the files is named.")
    ] = False
    ca_file: Annotated[
        str, Meta(description="Authorities that the broker's certificate is checked against; default: the system's.")
    ] = ""
    cert_file: Annotated[str, Meta(description="The client's certificate, where the broker asks for one.")] = ""
    key_file: Annotated[str, Meta(description="The key of that certificate.")] = ""

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
        return _port(self.broker)

    def require_client(self) -> None:
        """Refuse to begin where no client can be made.

        Raises:
            InputError: The extra ``mqtt`` is not installed.
        """
        if find_spec("aiomqtt") is None:
            raise InputError("there is no client of MQTT", hint="install it with: pip install 'steepest[mqtt]'")

    def tls_context(self) -> ssl.SSLContext | None:
        """How the broker is authenticated; None where the connection is not encrypted.

        Raises:
            InputError: A certificate cannot be read.
        """
        if not (self.tls or self.ca_file or self.cert_file or self.key_file):
            return None
        import ssl  # noqa: PLC0415 - every command reads settings, and few connect

        from steepest.secret_files import refuse_shared  # noqa: PLC0415 - likewise

        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.cert_file:
                if self.key_file:
                    refuse_shared(Path(self.key_file), Path(self.key_file).stat(), "is the key for MQTT")
                context.load_cert_chain(self.cert_file, self.key_file or None)
        except OSError as error:
            raise InputError(
                f"MQTT's certificates cannot be read: {error}",
                hint="look at mqtt.ca_file, mqtt.cert_file and mqtt.key_file in `steepest config show`",
            ) from error
        return context
