"""The log-collector: heartbeats of a node, and every job's losses, read from what it prints or reports."""

from __future__ import annotations

import os
from pathlib import Path

from steepest.app.service_main import run_alone
from steepest.clock import Clock
from steepest.cluster.port import Cluster
from steepest.collector.heartbeats import HeartbeatSender
from steepest.collector.losses import LossCollector
from steepest.log.base import Log
from steepest.mqtt.settings import mqtt_settings
from steepest.runtime.service import Service, Settings


def build(settings: Settings, log: Log, cluster: Cluster, clock: Clock) -> Service:  # noqa: ARG001 - every service's form
    """The service's parts."""
    places = Path(settings.state_dir) / "collector"
    effectors = (HeartbeatSender(cluster), LossCollector(cluster, clock, settings.pool, places))
    mqtt = mqtt_settings(os.environ)
    if mqtt is None or mqtt.device is None:
        return Service(name="log-collector", effectors=effectors)
    from steepest.mqtt.agent import MqttAgent  # noqa: PLC0415 - its client is not needed where the log can be reached

    return Service(name="log-collector", effectors=(MqttAgent(mqtt, clock, effectors),))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_alone(build)
