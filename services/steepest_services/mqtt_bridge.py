"""The MQTT bridge: heartbeats and losses of devices, from an MQTT broker to the log.

Reads: MQTT: ``PREFIX/DEVICE/heartbeats``, ``PREFIX/DEVICE/loss``; ``cluster``: which jobs there are
Writes: ``heartbeats``: ``NodeHeartbeat``; ``loss``: ``JobWatched``, ``LossReported``, ``LossDiverged``,
    ``JobUnwatched``; ``dead-letters``
Scales by: one a pool; it is one session at the broker
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.errors import InputError
from steepest.mqtt.metric_defs import MqttMetrics
from steepest.runtime.effector import Effector
from steepest.runtime.service import HeldPool, Service


def build(context: ServiceContext) -> Service:
    """The service's parts.

    Raises:
        InputError: No broker is named: the service has no other work.
    """
    mqtt = context.settings.mqtt
    if not mqtt.broker:
        raise InputError("no MQTT broker is named", hint="set STEEPEST_MQTT to its host:port")
    mqtt.require_client()
    from steepest.mqtt.bridge import MqttBridge  # noqa: PLC0415 - its client is not needed where no broker is named

    metrics = MqttMetrics()
    for collector in metrics.collectors():
        context.metrics.registry.register(collector)

    def bridge(held: HeldPool) -> Sequence[Effector]:
        if held.pool != context.pool:
            return ()
        return (
            MqttBridge(
                mqtt,
                pool=held.pool,
                layout=context.installation.layout,
                nodes=[node.name for node in context.installation.nodes_of(held.pool)],
                log=context.log,
                clock=context.clock,
                folder=context.settings.folder.mqtt_bridge,
                metrics=metrics,
            ),
        )

    return Service(name="mqtt-bridge", effectors=bridge)


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()
