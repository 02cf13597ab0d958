"""Detects nodes that are silent for too long, in counted time, so that nodes do not look lost after an outage of the bus."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.policies.unread import AwaitsDecisions
from steepest.view.cluster_view import ClusterView


class SilenceState(AwaitsDecisions):
    """The nodes that were reported as lost and not read back yet."""

    reported: dict[str, None] = msgspec.field(default_factory=dict)


class Silence:
    """Answers each ``Tick`` with the nodes that have been silent for ``node_lost_ms``."""

    name = "worker-monitor-silence"
    logic = 1
    reads: frozenset[type] = frozenset({c.NodeLost, c.Tick})
    state_type = SilenceState

    def __init__(self, state: SilenceState | None = None) -> None:
        self.state = state or SilenceState()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: the next tick checks whether the node is still silent."""
        if isinstance(event, c.NodeLost):
            self.state.reported.pop(event.node, None)

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """Report at most one lost node per tick: the one that is silent for longest."""
        match received.event:
            case c.NodeLost(node=name):
                self.state.reported.pop(name, None)
            case c.Tick():
                node = view.nodes.longest_silent()
                if node is None or node.name in self.state.reported:
                    return ()
                silent = view.counted_ms - node.seen_counted_ms
                if silent >= view.parameters.node_lost_ms:
                    self.state.reported[node.name] = None
                    return (c.NodeLost(node=node.name, silent_ms=silent),)
        return ()
