"""Nodes and their jobs as the search for moves sees them, kept in order as they change, so that no search scans the pool.

It owns which nodes that are, and the orders by how full they are. It must never know which job moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from steepest.policies.steepest.fair.fair_copies import LEAST_DEMAND
from steepest.policies.steepest.node_plan import JobOnNode
from steepest.view.nodes import Nodes
from steepest.view.orders.order import Order
from steepest.view.state import Node


class Residence(msgspec.Struct):
    """A node and its jobs.

    Attributes:
        awaits: Whether a job is on its way here.
    """

    name: str
    cores: float
    jobs: list[JobOnNode]
    awaits: bool = False

    @property
    def fullness(self) -> float:
        """Seconds in which the node could do all that is left."""
        return sum(job.backlog for job in self.jobs) / self.cores


class Residences:
    """The residences of the nodes that are open; one that was never planned and has no job is an empty residence.

    It is derived from the view and from the planner's state, and so is no part of that: a planner that was restored makes it
    again. Between two looks, :meth:`note` is called for each node whose residence was replaced or removed.
    """

    def __init__(self, residences: dict[str, Residence]) -> None:
        """Keep these in order: state of the planner, by node."""
        self._all = residences
        self._seen: int | None = None
        self._noted: dict[str, None] = {}
        self._forget()

    def __getitem__(self, name: str) -> Residence:
        return self._all[name]

    def fullest(self, most: int) -> list[Residence]:
        """Those with the most seconds of work, then by name."""
        return [self._all[name] for name in islice(self._fullest, most)]

    def emptiest(self) -> Iterator[Residence]:
        """All by rising seconds of work, then by name."""
        return map(self._all.__getitem__, self._emptiest)

    def put(self, residence: Residence) -> None:
        """Its jobs are others now, or it opens."""
        name, fullness = residence.name, residence.fullness
        self._fullest.put((-fullness, name))
        self._emptiest.put((fullness, name))

    def note(self, name: str) -> None:
        """A node's residence is another one, or gone."""
        self._noted[name] = None

    def look(self, nodes: Nodes) -> None:
        """Take in what has changed of the pool and of the residences since the last look."""
        changed = None if self._seen is None else nodes.changes.since(self._seen)
        if changed is None:
            self._forget()
            changed = [node.name for node in nodes]
        for name in sorted(dict.fromkeys((*changed, *self._noted))):
            self._look_at(name, nodes.get(name))
        self._seen = nodes.changes.now
        self._noted.clear()

    def _look_at(self, name: str, node: Node | None) -> None:
        is_open = node is not None and node.is_open and not node.taints  # of those few jobs may come to
        if node is not None and is_open and not node.jobs and name not in self._all:
            self._all[name] = Residence(name, max(node.capacity.cpu_m / 1000, LEAST_DEMAND), [])
        if is_open and name in self._all:
            self.put(self._all[name])
        elif name in self._fullest:
            for order in (self._fullest, self._emptiest):
                order.drop(name)

    def _forget(self) -> None:
        self._fullest, self._emptiest = Order(), Order()
