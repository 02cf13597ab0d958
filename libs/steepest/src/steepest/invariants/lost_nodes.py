"""Folds which nodes are silent."""

from __future__ import annotations

from steepest.events import cluster as c


class LostNodes:
    """The nodes that have sent no heartbeat for too long, as the log says."""

    def __init__(self) -> None:
        self._lost: dict[str, None] = {}

    def __contains__(self, node: str) -> bool:
        return node in self._lost

    def feed(self, event: c.ClusterEvent) -> None:
        """Process an event."""
        match event:
            case c.NodeLost():
                self._lost[event.node] = None
            case c.NodeUsage() | c.NodeJoined() | c.NodeGone():
                self._lost.pop(event.node, None)
