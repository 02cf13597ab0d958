"""Appends the heartbeats of the cluster's nodes to the log.

It owns what is added to what the cluster measured: what is read of the jobs, how often it becomes a fact, and which jobs a
node takes, where the pool places by that. Labels are said as soon as a job of the pool requires any: until then they would
only make heartbeats longer.
"""

from __future__ import annotations

import msgspec

from steepest.cluster.port import Cluster
from steepest.collector.progress import ProgressBoard
from steepest.events import cluster as c
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.received import Received
from steepest.policies.monitor.others import usage_of
from steepest.policies.monitor.use import PROGRESS_EVERY_MS, SAVED_EVERY_MS, usage_every_ms
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView
from steepest.view.places.node_rules import requires_labels
from steepest.view.state import Phase


class HeartbeatSender(Effector):
    """Carries heartbeats from the cluster to the ``heartbeats`` topic."""

    name = "heartbeat-sender"

    def __init__(self, cluster: Cluster, board: ProgressBoard | None = None) -> None:
        """``board``: what is read of the jobs on these nodes; None: nothing is."""
        self._cluster = cluster
        self._board = board or ProgressBoard()
        self._view = ClusterView()
        self._says_labels = False

    def caught_up(self, view: ClusterView) -> None:
        """Use the view's parameters, which set how often usage is reported, and what its jobs require."""
        self._view = view
        self._says_labels = any(
            requires_labels(job.spec.node_rule) for job in view.jobs if job.phase is not Phase.ENDED
        )

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:  # noqa: ARG002 - its port's
        """Note a job that requires labels."""
        event = received.event
        if accepted and isinstance(event, c.JobSubmitted):
            self._says_labels = self._says_labels or requires_labels(event.spec.node_rule)

    def silence_s(self) -> float:
        """See ``Effector.silence_s``: an adapter that hangs sends no heartbeats."""
        return self._cluster.silence_s()

    async def run(self, send: Send) -> None:
        """Send until cancelled."""
        async for measured in self._cluster.heartbeats():
            heartbeat = msgspec.structs.replace(
                self._with_terms(self._board.completed(measured)),
                usage_every_ms=usage_every_ms(self._view),
                progress_every_ms=PROGRESS_EVERY_MS,
                saved_every_ms=SAVED_EVERY_MS,
                usage_of=usage_of(self._view),
            )
            await send(heartbeat, topic="heartbeats", key=heartbeat.node, times=(heartbeat.at_ms,))

    def _with_terms(self, beat: NodeHeartbeat) -> NodeHeartbeat:
        """With which jobs its node takes."""
        terms = self._cluster.node_terms(beat.node)
        if terms is None:
            return beat
        labels = dict(sorted(terms.labels.items())) if self._says_labels else None
        return msgspec.structs.replace(beat, capacity=terms.capacity, labels=labels, taints=terms.taints)
