"""Every metric of the bridge, what it means, and what to do about it. The docs include this file as it stands."""

from __future__ import annotations

from prometheus_client import Counter, Gauge
from prometheus_client.registry import Collector


class MqttMetrics:
    """The metrics of one bridge; a process's registry takes them in."""

    def __init__(self) -> None:
        # Messages that stand on the log, by channel. Stops rising while devices speak: look at `connected` and at the log.
        self.taken = Counter("steepest_mqtt_taken", "Messages appended to the log.", ["channel"], registry=None)
        # Messages delivered again. Normal after a restart. All the time: acknowledgements do not get through.
        self.repeated = Counter("steepest_mqtt_repeated", "Messages delivered again.", registry=None)
        # Messages refused, by reason. Not zero: a device says what it should not; `steepest dead-letters list --topic mqtt`.
        self.refused = Counter("steepest_mqtt_refused", "Messages refused.", ["reason"], registry=None)
        # Numbers that devices left out. Not zero: messages were lost before us; the broker's queue or a device's was full.
        self.missing = Counter("steepest_mqtt_missing", "Messages that never came.", registry=None)
        # Whether the broker is there. Zero for minutes: look at the broker, and at what the bridge's log says of it.
        self.connected = Gauge("steepest_mqtt_connected", "1 while connected to the broker.", registry=None)

    def collectors(self) -> tuple[Collector, ...]:
        """All of them."""
        return (self.taken, self.repeated, self.refused, self.missing, self.connected)
