"""The settings of a connection to Kafka, and the client arguments that they become.

It owns names, defaults and validation. It must never connect to anything, so that it can be imported where no client is
installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from steepest.errors import InputError

REQUEST_TIMEOUT_MS = 15_000
"""A broker that is suspended briefly answers within this time; after a longer pause, the caller restarts anyway."""

AUTO = "auto"
"""Instead of an address: a broker of the installation's own."""

Bootstrap = Annotated[
    str,
    Meta(pattern=r"^(auto|[^\s:,]+:\d{1,5}(,[^\s:,]+:\d{1,5})*)?$", examples=["kafka:9092", "a:9092,b:9092", AUTO]),
]
Prefix = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9._-]{0,100}$", examples=["team-a."])]


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the log is reached on Kafka."""

    bootstrap: Annotated[
        Bootstrap,
        Meta(
            description="The cluster, or `auto` for a broker of the folder's own; default: the log is in files.",
            extra={"variable": "STEEPEST_KAFKA", "flag": "--kafka"},
        ),
    ] = ""
    prefix: Annotated[
        Prefix,
        Meta(description="Put before the names of topics and groups, so that installations can share a cluster."),
    ] = ""
    security: Annotated[
        Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"], Meta(description="Kafka's security protocol.")
    ] = "PLAINTEXT"
    ca_file: Annotated[
        str, Meta(description="Authorities that the broker's certificate is checked against; default: the system's.")
    ] = ""
    cert_file: Annotated[str, Meta(description="The client's certificate, where the broker asks for one.")] = ""
    key_file: Annotated[str, Meta(description="The key of that certificate.")] = ""
    sasl_mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], Meta(description="How the client proves who it is.")
    ] = "PLAIN"
    username: Annotated[str, Meta(description="The client's name.")] = ""
    password: Annotated[str, Meta(description="The client's password.", extra={"secret": True})] = ""
    home: Annotated[str, Meta(description="Where a broker of one's own has its jars (`make kafka`).")] = ".kafka"

    def __repr__(self) -> str:
        return f"Kafka at {self.bootstrap} ({self.security})"

    @property
    def is_open(self) -> bool:
        """Whether it is on other machines and asks for nothing: who reaches it writes the log, and so runs commands."""
        hosts = [host for one in self.bootstrap.split(",") if (host := one.rpartition(":")[0])]
        return self.security == "PLAINTEXT" and any(host != "localhost" and host[:4] != "127." for host in hosts)

    def client(self) -> dict[str, Any]:
        """The arguments of every client.

        Raises:
            InputError: A certificate cannot be read.
        """
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap.split(","),
            "security_protocol": self.security,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "metadata_max_age_ms": 30_000,
        }
        if self.security.endswith("SSL"):
            arguments["ssl_context"] = self._ssl_context()
        if self.security.startswith("SASL"):
            arguments |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return arguments

    def _ssl_context(self) -> Any:
        from aiokafka.helpers import create_ssl_context  # noqa: PLC0415 - only for TLS

        from steepest.secret_files import refuse_shared  # noqa: PLC0415 - likewise

        try:
            if self.key_file:
                refuse_shared(Path(self.key_file), Path(self.key_file).stat(), "is the key for Kafka")
            return create_ssl_context(
                cafile=self.ca_file or None, certfile=self.cert_file or None, keyfile=self.key_file or None
            )
        except OSError as error:
            raise InputError(
                f"Kafka's certificates cannot be read: {error}",
                hint="look at kafka.ca_file, kafka.cert_file and kafka.key_file in `steepest config show`",
            ) from error
