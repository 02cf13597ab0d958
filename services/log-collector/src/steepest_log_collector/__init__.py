"""The log-collector: heartbeats of a node, and every job's losses, read from what it prints or reports."""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.collector.heartbeats import HeartbeatSender
from steepest.collector.losses import LossCollector
from steepest.runtime.service import Service


def build(context: ServiceContext) -> Service:
    """The service's parts."""
    folder, pool = context.settings.folder.collector, context.installation.pool
    effectors = (HeartbeatSender(context.cluster), LossCollector(context.cluster, context.clock, pool, folder))
    mqtt = context.settings.mqtt
    if not mqtt.broker or mqtt.device is None:
        return Service(name="log-collector", effectors=effectors)
    mqtt.require_client()
    from steepest.mqtt.agent import MqttAgent  # noqa: PLC0415 - its client is not needed where the log can be reached

    return Service(name="log-collector", effectors=(MqttAgent(mqtt, context.clock, effectors),))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)
