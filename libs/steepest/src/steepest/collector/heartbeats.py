"""Heartbeats of the cluster's nodes, appended as they come."""

from __future__ import annotations

from steepest.cluster.port import Cluster
from steepest.runtime.effector import Effector, Send


class HeartbeatSender(Effector):
    """Carries heartbeats from the cluster to the ``heartbeats`` topic."""

    name = "heartbeat-sender"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def run(self, send: Send) -> None:
        """Send until cancelled."""
        async for beat in self._cluster.heartbeats():
            await send(beat, topic="heartbeats", key=beat.node, times=(beat.at_ms,))
