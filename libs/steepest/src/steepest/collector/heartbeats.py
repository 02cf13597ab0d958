"""Appends the heartbeats of the cluster's nodes to the log."""

from __future__ import annotations

import msgspec

from steepest.cluster.port import Cluster
from steepest.collector.progress import ProgressBoard
from steepest.policies.monitor.others import usage_of
from steepest.policies.monitor.use import progress_every_ms, usage_every_ms
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView


class HeartbeatSender(Effector):
    """Carries heartbeats from the cluster to the ``heartbeats`` topic."""

    name = "heartbeat-sender"

    def __init__(self, cluster: Cluster, board: ProgressBoard | None = None) -> None:
        """``board``: what is read of the jobs on these nodes; None: nothing is."""
        self._cluster = cluster
        self._board = board or ProgressBoard()
        self._view = ClusterView()

    def caught_up(self, view: ClusterView) -> None:
        """Use the view's parameters, which set how often usage is reported."""
        self._view = view

    def silence_s(self) -> float:
        """See ``Effector.silence_s``: an adapter that hangs sends no heartbeats."""
        return self._cluster.silence_s()

    async def run(self, send: Send) -> None:
        """Send until cancelled."""
        async for measured in self._cluster.heartbeats():
            heartbeat = msgspec.structs.replace(
                self._board.completed(measured),
                usage_every_ms=usage_every_ms(self._view),
                progress_every_ms=progress_every_ms(self._view),
                usage_of=usage_of(self._view),
            )
            await send(heartbeat, topic="heartbeats", key=heartbeat.node, times=(heartbeat.at_ms,))
