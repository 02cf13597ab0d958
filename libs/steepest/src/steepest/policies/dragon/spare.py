"""What would be free on each node if every running gang were as small as it may be for jobs with one rule of nodes.

It owns this sum, and keeps it up to date. It must never know the queue, nor which gangs may be scaled. All of it follows
from the view, so nothing of it is kept in a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable

from steepest.events.common import NodeRule, Resources
from steepest.policies.dragon.scaling import Helps, Shape
from steepest.policies.placement.slots import Slots
from steepest.view.cluster_view import ClusterView
from steepest.view.places.node_rules import is_allowed
from steepest.view.state import Job


class SpareRoom:
    """What gangs could give up to jobs with one rule.

    Attributes:
        most: What would be free on each node where such a job may run, and how many replicas fit there.
    """

    def __init__(self, view: ClusterView, rule: NodeRule | None) -> None:
        """Begin without gangs; :meth:`count_all` is called once they are there."""
        self.most = Slots({})
        self._view = view
        self._rule = rule
        self._spare: dict[str, dict[str, Resources]] = {}
        self._gangs: dict[str, dict[str, None]] = {}
        self._stale: dict[str, None] = {}

    def put(self, gang: Job) -> None:
        """A gang may be scaled, as it runs now. Work: O(its replicas)."""
        self.drop(gang.name)
        helps: Helps | None = None
        if self._rule is not None:
            helps = {name: self.helps(name) for name in dict.fromkeys(one.node for one in gang.replicas)}.__getitem__
        spare: dict[str, Resources] = {}
        for freed in Shape.of(gang).shrink(helps):
            for node, amount in freed:
                spare[node] = spare.get(node, Resources()) + amount
        self._spare[gang.name] = spare
        for node in spare:
            self._gangs.setdefault(node, {})[gang.name] = None
            self._stale[node] = None

    def drop(self, gang: str) -> None:
        """A gang may not be scaled, as far as is known."""
        for node in self._spare.pop(gang, ()):
            self._gangs[node].pop(gang, None)
            self._stale[node] = None

    def count(self, nodes: Iterable[str] = ()) -> None:
        """Take in what has changed on these nodes, and of the gangs."""
        for name in dict.fromkeys((*nodes, *self._stale)):
            self._count(name)
        self._stale.clear()

    def count_all(self) -> None:
        """Look at every node. Work: O(nodes)."""
        self._stale.clear()
        self.most = Slots({})
        for node in self._view.nodes:
            self._count(node.name)

    def helps(self, name: str) -> bool:
        """Whether a job with this rule may run on a node."""
        node = self._view.nodes.get(name)
        return node is not None and node.is_open and is_allowed(self._rule, node)

    def _count(self, name: str) -> None:
        if not self.helps(name):
            self.most.put(name, None)
            return
        amount = self._view.nodes[name].free
        for gang in self._gangs.get(name, ()):
            amount += self._spare[gang][name]
        self.most.put(name, amount)
