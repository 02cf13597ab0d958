"""Workers as Algorithm 4 compares them: by score, then by resource use, plans under way included."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from steepest.events.cluster import NodeScore
from steepest.policies.pending import Pending
from steepest.view import nodes
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Node


def score(view: ClusterView, node: Node, pending: Pending) -> float:
    """S(w) of a node (SpeCon thesis, Algorithm 4 and §6.2), plans under way included."""
    return nodes.score(*pending.replicas(node), view.parameters.specon, node.unknown)


def by_score(view: ClusterView, pending: Pending) -> Iterator[Node]:
    """Nodes by rising score, then by rising resource use R(w, t), then by name.

    The view keeps this order without plans under way; the few nodes that these concern are sorted in again.
    """

    def key(node: Node) -> tuple[float, int, str]:
        return (score(view, node, pending), nodes.use_per_mille(node), node.name)

    concerned = filter(None, map(view.nodes.get, pending.nodes))
    again = sorted((node for node in concerned if node.is_open), key=key)
    rest = (node for node in view.nodes.by_score() if node.name not in pending.nodes)
    return heapq.merge(again, rest, key=key)


def seen(view: ClusterView, node: Node, pending: Pending, rejected: str = "") -> NodeScore:
    """A node as a decision saw it."""
    return NodeScore(
        node=node.name,
        score=score(view, node, pending),
        used_cpu_m=node.used.cpu_m,
        replicas=pending.count(node),
        rejected=rejected,
    )
