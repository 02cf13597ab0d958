"""The settings of a connection to Kafka, and the client arguments that they become.

It owns names, defaults and validation. It must never connect to anything, so that it can be imported where no client is
installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from steepest.errors import InputError

REQUEST_TIMEOUT_MS = 15_000
"""A broker that is suspended briefly answers within this time; after a longer pause, the caller restarts anyway."""

VARIABLE = "STEEPEST_KAFKA"
"""The bootstrap servers; the other settings are named after it (``STEEPEST_KAFKA_SECURITY`` and so on)."""

UNRELATED = (f"{VARIABLE}_HOME",)
"""Variables of that form with another meaning: the folder of a private broker's jars."""

Bootstrap = Annotated[str, msgspec.Meta(pattern=r"^[^\s:,]+:\d{1,5}(,[^\s:,]+:\d{1,5})*$")]
Prefix = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._-]{0,100}$")]


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach a Kafka cluster.

    Attributes:
        bootstrap: ``host:port``; several are separated by commas.
        prefix: Prefix of every topic's and group's name, so that installations can share a cluster.
        ca_file: Certificates that verify the broker's; empty for the system's.
        cert_file: The client's own certificate, if the broker asks for one.
        key_file: Its key.
    """

    bootstrap: Bootstrap
    prefix: Prefix = ""
    security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    username: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Kafka at {self.bootstrap} ({self.security})"

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

        try:
            return create_ssl_context(
                cafile=self.ca_file or None, certfile=self.cert_file or None, keyfile=self.key_file or None
            )
        except OSError as error:
            raise InputError(
                f"Kafka's certificates cannot be read: {error}",
                hint=f"check {VARIABLE}_CA_FILE, {VARIABLE}_CERT_FILE and {VARIABLE}_KEY_FILE",
            ) from error


def kafka_settings(environ: Mapping[str, str], bootstrap: str | None = None) -> KafkaSettings | None:
    """Settings from ``STEEPEST_KAFKA`` and its variants; None if no cluster is named: then the log is in files.

    Args:
        environ: The environment variables.
        bootstrap: Overrides the variable.

    Raises:
        InputError: A variable is invalid or unknown; the message names it.
    """
    names = {f"{VARIABLE}_{field.upper()}": field for field in KafkaSettings.__struct_fields__ if field != "bootstrap"}
    given = {name: text for name, text in environ.items() if name.startswith(f"{VARIABLE}_") and name not in UNRELATED}
    if unknown := sorted(set(given) - set(names)):
        raise InputError(f"there is no setting {', '.join(unknown)}", hint=f"the settings are {', '.join(names)}")
    bootstrap = bootstrap or environ.get(VARIABLE, "")
    if not bootstrap:
        return None
    fields = {names[name]: text for name, text in given.items()} | {"bootstrap": bootstrap}
    try:
        return msgspec.convert(fields, KafkaSettings)
    except msgspec.ValidationError as error:
        raise InputError(
            f"invalid Kafka setting: {error}", hint=f"check {VARIABLE} (host:port) and {', '.join(names)}"
        ) from error


def as_environment(settings: KafkaSettings) -> dict[str, str]:
    """The environment variables that pass these settings to another process."""
    fields = msgspec.to_builtins(settings)
    bootstrap = fields.pop("bootstrap")
    return {VARIABLE: bootstrap} | {f"{VARIABLE}_{name.upper()}": text for name, text in fields.items()}
