"""Detects nodes that are silent for too long, in counted time, so that nodes do not look lost after an outage of the bus."""

from __future__ import annotations

from collections.abc import Sequence

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.policies.unread import AwaitsDecisions
from steepest.view.cluster_view import ClusterView


class Silence:
    """Answers each ``Tick`` with the nodes that have been silent for ``node_lost_ms``."""

    name = "worker-monitor-silence"
    logic = 1
    reads: frozenset[type] = frozenset({c.Tick})
    state_type = AwaitsDecisions

    def __init__(self, state: AwaitsDecisions | None = None) -> None:
        self.state = state or AwaitsDecisions()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: the next tick checks whether the node is still silent."""

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """Report at most one lost node per tick: the one that is silent for longest."""
        node = view.nodes.longest_silent()
        if not isinstance(received.event, c.Tick) or node is None or self.state.awaits("node", node.name):
            return ()
        silent = view.counted_ms - node.seen_counted_ms
        return (c.NodeLost(node=node.name, silent_ms=silent),) if silent >= view.parameters.node_lost_ms else ()
