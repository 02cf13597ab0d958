"""The MQTT bridge: heartbeats and losses of devices, from an MQTT broker to the log."""

from __future__ import annotations

import os
from pathlib import Path

from steepest.app.service_main import run_alone
from steepest.app.state_folder import StateFolder
from steepest.clock import Clock
from steepest.cluster.port import Cluster
from steepest.errors import InputError
from steepest.log.base import Log
from steepest.mqtt.metric_defs import MqttMetrics
from steepest.mqtt.settings import VARIABLE, mqtt_settings
from steepest.runtime.service import Service, Settings


def build(settings: Settings, log: Log, cluster: Cluster, clock: Clock) -> Service:  # noqa: ARG001 - every service's form
    """The service's parts; none where no broker is named."""
    mqtt = mqtt_settings(os.environ)
    if mqtt is None:
        return Service(name="mqtt-bridge")
    from steepest.mqtt.bridge import MqttBridge  # noqa: PLC0415 - its client is not needed where no broker is named

    metrics = MqttMetrics()
    state = StateFolder(Path(settings.state_dir))
    bridge = MqttBridge(
        mqtt,
        pool=settings.pool,
        nodes=[node.name for node in state.read().nodes] if state.exists else [],
        log=log,
        clock=clock,
        folder=state.root / "mqtt-bridge",
        metrics=metrics,
    )
    return Service(name="mqtt-bridge", effectors=(bridge,), collectors=metrics.collectors())


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_alone(_build_with_broker)


def _build_with_broker(settings: Settings, log: Log, cluster: Cluster, clock: Clock) -> Service:
    """As ``build``; a process of its own has no other work.

    Raises:
        InputError: No broker is named, or a setting is wrong.
    """
    if mqtt_settings(os.environ) is None:
        raise InputError("no MQTT broker is named", hint=f"set {VARIABLE} to its host:port")
    return build(settings, log, cluster, clock)
