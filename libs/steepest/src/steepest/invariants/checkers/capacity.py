"""Checker: reservations on a node never exceed its capacity."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.verdict import Checker


class Capacity(Checker):
    """Requests of what may run on a node and of what is on its way there never exceed the node's capacity.

    Each replica of a job holds its requests on a node while its process may run there and while a plan that has begun
    aims there; twice the same replica counts once. The sum is checked wherever a record adds to it. A node that shrinks
    below what it holds is no breach. Replicas are counted too.
    """

    name = "capacity"

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        reservations = self._folds.reservations
        for node in self._folds.fuller:
            if not reservations.fits(node):
                self.breach(f"node {node} would have to hold {reservations.words(node)}", received.offset)
