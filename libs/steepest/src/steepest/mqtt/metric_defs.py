"""Every metric of the bridge: what it means, and what to do about it. ``docs/metrics.md`` is generated from here."""

from __future__ import annotations

from prometheus_client import Counter, Gauge
from prometheus_client.registry import Collector


class MqttMetrics:
    """The metrics of one bridge; a process's registry takes them in."""

    def __init__(self) -> None:
        self.taken = Counter(
            "steepest_mqtt_taken",
            "Messages appended to the log. Does not rise while devices send: see `steepest_mqtt_connected` and the log.",
            ["channel"],
            registry=None,
        )
        self.repeated = Counter(
            "steepest_mqtt_repeated",
            "Messages delivered again. Normal after a restart. All the time: acknowledgements do not get through.",
            registry=None,
        )
        self.refused = Counter(
            "steepest_mqtt_refused",
            "Messages refused. Not zero: a device sends what it must not; see `steepest dead-letters list --topic mqtt`.",
            ["reason"],
            registry=None,
        )
        self.missing = Counter(
            "steepest_mqtt_missing",
            "Numbers that devices left out. Not zero: messages were lost on the way; the queue of the broker or of a"
            " device was full.",
            registry=None,
        )
        self.connected = Gauge(
            "steepest_mqtt_connected",
            "1 while connected to the broker. Zero for minutes: see the broker, and what the bridge's log says about it.",
            registry=None,
        )

    def collectors(self) -> tuple[Collector, ...]:
        """All of them."""
        return (self.taken, self.repeated, self.refused, self.missing, self.connected)
