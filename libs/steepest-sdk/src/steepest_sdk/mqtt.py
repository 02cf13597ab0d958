"""Owns reporting over MQTT, for a training on a device without a log-collector; ``docs/mqtt.md`` specifies the messages.

Reports wait in an outbox on the device's disk until the broker has accepted them for a bridge. Each process numbers its
reports under a new generation, so that no number is used twice; reports of an earlier process keep their numbers.

``python -m steepest_sdk.mqtt`` sends the reports that ended trainings left behind.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import sqlite3
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsFloat

from steepest_sdk.delivery.outbox import MessageOutbox, open_first
from steepest_sdk.delivery.sender import BrokerSettings, Sender
from steepest_sdk.notes import OnceWarner

NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")
HELD_OUT = frozenset({"val", "valid", "validation", "eval", "test"})

FLUSH_S = 5.0
"""How long the end of a training waits for its last reports to be sent; the next process sends the rest."""

LONGEST_NAME = 2_000


@dataclass(frozen=True)
class Edge:
    """The settings of a device's training.

    Attributes:
        device: The device's name, usually its user name at the broker.
        outbox: The folder of outboxes.
    """

    broker: BrokerSettings
    prefix: str
    device: str
    job: str
    incarnation: int
    outbox: Path


def read(variables: Mapping[str, str]) -> Edge | None:
    """Reads the variables of ``docs/mqtt.md``; None if no broker is named.

    Raises:
        ValueError: A variable is missing or invalid; the message names it.
    """
    if not variables.get("STEEPEST_MQTT"):
        return None
    incarnation = variables.get("STEEPEST_INCARNATION", "1")
    if not re.fullmatch("[0-9]{1,9}", incarnation):
        raise ValueError(f"STEEPEST_INCARNATION is {incarnation[:20]!r}; it must be a whole number")
    return Edge(
        broker=_broker(variables),
        prefix=variables.get("STEEPEST_MQTT_PREFIX", "steepest"),
        device=_name(variables, "STEEPEST_MQTT_DEVICE"),
        job=_name(variables, "STEEPEST_JOB"),
        incarnation=int(incarnation),
        outbox=Path(variables.get("STEEPEST_MQTT_OUTBOX") or ".steepest/outbox"),
    )


def _broker(variables: Mapping[str, str]) -> BrokerSettings:
    host, _, port = variables["STEEPEST_MQTT"].rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port):
        raise ValueError(f"STEEPEST_MQTT is {variables['STEEPEST_MQTT'][:50]!r}; write it like broker:1883")
    texts = {
        field: variables.get(f"STEEPEST_MQTT_{field.upper()}", "")
        for field in ("username", "password", "ca_file", "cert_file", "key_file")
    }
    tls = variables.get("STEEPEST_MQTT_TLS", "").lower() in {"1", "true"}
    return BrokerSettings(host.strip("[]"), int(port), tls=tls, **texts)


def _name(variables: Mapping[str, str], variable: str) -> str:
    text = variables.get(variable, "")
    if not NAME.fullmatch(text):
        raise ValueError(
            f"{variable} is {text[:70]!r}; it must be 1 to 63 lower-case letters, digits, dots, dashes and underscores"
        )
    return text


class MqttReports:
    """Reports to a broker. Threads may share it, and it never raises into a training."""

    def __init__(self, edge: Edge, outbox: MessageOutbox, sender: Sender) -> None:
        """``sender`` must be running on the outbox."""
        self.total: int | None = None
        self.epochs: int | None = None
        self._edge = edge
        self._outbox = outbox
        self._sender = sender
        self._topic = f"{edge.prefix}/{edge.device}/loss"
        self._generation = secrets.token_hex(8)
        self._number = 0
        self._mutex = threading.Lock()
        self._warner = OnceWarner()

    def append(self, step: int, epoch: int | None, metrics: Mapping[str, SupportsFloat]) -> None:
        """Stores a message for each metric; a failure is logged once, and the metric is skipped."""
        at_ms = time.time_ns() // 1_000_000
        with self._mutex:
            for name, metric in metrics.items():
                try:
                    value = float(metric)
                except Exception as error:  # noqa: BLE001 - a tensor's own conversion may raise anything
                    self._warner.once(name, f"the metric {name!r} is skipped, it is not a number: {error}")
                    continue
                self._keep(self._event(step, epoch, name[:LONGEST_NAME], value), at_ms)
        self._sender.wake()
        if self._outbox.dropped:
            self._warner.once("full", "the outbox is full: its oldest reports are dropped, and the bridge counts them")

    def close(self) -> None:
        """Waits up to ``FLUSH_S`` for the last reports to be sent."""
        self._sender.flush(FLUSH_S)
        self._sender.close()
        self._outbox.close()

    def _keep(self, event: Mapping[str, object], at_ms: int) -> None:
        message = {
            "device": self._edge.device,
            "generation": self._generation,
            "seq": self._number + 1,
            "at_ms": at_ms,
            "event": event,
        }
        try:
            self._outbox.append(self._topic, json.dumps(message, allow_nan=False).encode())
        except sqlite3.Error as error:
            self._warner.once("outbox", f"a report cannot be stored in the outbox: {error}")
        else:
            self._number += 1

    def _event(self, step: int, epoch: int | None, name: str, value: float) -> dict[str, object]:
        event: dict[str, object] = {"job": self._edge.job, "incarnation": self._edge.incarnation, "step": step}
        event["metric"] = name
        if not math.isfinite(value):
            return {**event, "type": "LossDiverged", "value": str(value)}
        if epoch is not None:
            event["epoch"] = epoch
        if self.total is not None:
            event["total"] = self.total
        held_out = HELD_OUT.intersection(re.split(r"[^a-z]", name.lower()))
        return {**event, "type": "LossReported", "value": value, "split": "eval" if held_out else "train"}


def begin(edge: Edge) -> MqttReports:
    """Starts to report to a broker, which may be unreachable at first.

    Raises:
        ImportError: The client is not installed.
        OSError: The outbox or a certificate cannot be opened.
        sqlite3.Error: The outbox is damaged.
    """
    outbox = open_first(edge.outbox, edge.job)
    return MqttReports(edge, outbox, Sender(edge.broker, f"steepest-{edge.device}-{secrets.token_hex(4)}", outbox))


def main() -> int:
    """Sends the messages in all outboxes that no process has open, without a time limit."""
    try:
        broker = _broker(os.environ)
    except (KeyError, ValueError) as error:
        print(f"no broker is named in STEEPEST_MQTT: {error}", file=sys.stderr)  # noqa: T201 - this is a command
        return 2
    folder = Path(os.environ.get("STEEPEST_MQTT_OUTBOX") or ".steepest/outbox")
    for path in sorted(folder.glob("*.db")):
        try:
            outbox = MessageOutbox(path)
        except BlockingIOError:
            continue
        left = len(outbox)
        sender = Sender(broker, f"steepest-outbox-{secrets.token_hex(4)}", outbox)
        sender.flush(None)
        sender.close()
        outbox.close()
        print(f"{path}: {left} messages sent")  # noqa: T201 - as above
    return 0


if __name__ == "__main__":
    sys.exit(main())
