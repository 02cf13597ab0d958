"""The log-collector: heartbeats of a node, and every job's losses, read from what it prints or reports.

Reads: the cluster's heartbeats, each job's output and reports; ``cluster``: which incarnations run where
Writes: ``heartbeats``: ``NodeHeartbeat``; ``loss``: ``JobWatched``, ``LossReported``, ``LossDiverged``,
    ``JobUnwatched``
Scales by: one a node
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.collector.heartbeats import HeartbeatSender
from steepest.collector.losses import LossCollector
from steepest.collector.progress import ProgressBoard
from steepest.errors import InputError
from steepest.runtime.effector import Effector
from steepest.runtime.service import HeldPool, Service


def build(context: ServiceContext) -> Service:
    """The service's parts.

    Raises:
        InputError: Each node is to have a log-collector, and this one is for all of them.
    """
    node = context.settings.agent.node or None
    if node is None and context.installation.has_agents:
        raise InputError("each node has a log-collector, and this one names no node", hint="set STEEPEST_AGENT_NODE")

    def effectors(held: HeldPool) -> Sequence[Effector]:
        cluster, folder = context.cluster_of(held), context.folder_of(held.pool).collector
        board = ProgressBoard()
        sender = HeartbeatSender(cluster, board)
        return sender, LossCollector(cluster, context.clock, held.pool, folder, board, node=node)

    mqtt = context.settings.mqtt
    if not mqtt.broker or mqtt.device is None:
        return Service(name="log-collector", effectors=effectors)
    mqtt.require_client()
    from steepest.mqtt.agent import MqttAgent  # noqa: PLC0415 - its client is not needed where the log can be reached

    def agent(held: HeldPool) -> Sequence[Effector]:
        return (MqttAgent(mqtt, context.clock, effectors(held)),) if held.pool == context.pool else ()

    return Service(name="log-collector", effectors=agent)


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()
