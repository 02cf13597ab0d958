"""How a Kafka cluster is reached: the settings, and what every client is told of them.

It owns names, defaults and what is refused. It must never connect to anything, so that it can be read where no client is
installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from steepest.errors import InputError

REQUEST_TIMEOUT_MS = 15_000
"""A broker that is stopped for a moment answers within this; longer, and the caller begins anew anyway."""

VARIABLE = "STEEPEST_KAFKA"
"""The bootstrap servers; the other settings are named after it (``STEEPEST_KAFKA_SECURITY`` and so on)."""

NOT_OURS = (f"{VARIABLE}_HOME",)
"""Variables of that form which say something else: where a broker of one's own has its jars."""

Bootstrap = Annotated[str, msgspec.Meta(pattern=r"^[^\s:,]+:\d{1,5}(,[^\s:,]+:\d{1,5})*$")]
Prefix = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._-]{0,100}$")]


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach a Kafka cluster.

    Attributes:
        bootstrap: ``host:port``, several with commas.
        prefix: Put before every topic's and group's name, so that installations can share a cluster.
        ca_file: Certificates that the broker's is checked against; empty for the system's.
        cert_file: Our own certificate, where the broker asks for one.
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
        """Arguments of every client.

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
        from aiokafka.helpers import create_ssl_context  # noqa: PLC0415 - only where it is used

        try:
            return create_ssl_context(
                cafile=self.ca_file or None, certfile=self.cert_file or None, keyfile=self.key_file or None
            )
        except OSError as error:
            raise InputError(
                f"Kafka's certificates cannot be read: {error}",
                hint=f"look at {VARIABLE}_CA_FILE, {VARIABLE}_CERT_FILE and {VARIABLE}_KEY_FILE",
            ) from error


def kafka_settings(environ: Mapping[str, str], bootstrap: str | None = None) -> KafkaSettings | None:
    """Settings from ``STEEPEST_KAFKA`` and its like; None where no cluster is named, so that the log is in files.

    Args:
        environ: The variables.
        bootstrap: Named by other means, before the variable.

    Raises:
        InputError: One of them is wrong, or none of ours; the message names it.
    """
    names = {f"{VARIABLE}_{field.upper()}": field for field in KafkaSettings.__struct_fields__ if field != "bootstrap"}
    given = {name: text for name, text in environ.items() if name.startswith(f"{VARIABLE}_") and name not in NOT_OURS}
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
            f"wrong Kafka setting: {error}", hint=f"look at {VARIABLE} (host:port) and {', '.join(names)}"
        ) from error


def as_environment(settings: KafkaSettings) -> dict[str, str]:
    """The variables from which another process reads the same settings."""
    fields = msgspec.to_builtins(settings)
    bootstrap = fields.pop("bootstrap")
    return {VARIABLE: bootstrap} | {f"{VARIABLE}_{name.upper()}": text for name, text in fields.items()}
