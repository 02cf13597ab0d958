"""``spread``: the default rule of Kubernetes for a pod that waits: the node that is least allocated afterwards.

Kubernetes' NodeResourcesFit plugin with its LeastAllocated strategy scores a node by the mean, over its resources, of
the share that would be free with the pod on it; ties go here to the node with fewer replicas, then to the first name,
where Kubernetes chooses at random.
"""

from __future__ import annotations

from steepest.policies.pending import Pending
from steepest.view.cluster_view import ClusterView
from steepest.view.nodes import allocation
from steepest.view.state import Job, Node


def spread(view: ClusterView, job: Job, pending: Pending) -> Node | None:
    """The node for one replica of ``job``; None where it fits nowhere now.

    Within one capacity the nodes are ordered by what is allocated already, which orders them by what is allocated
    afterwards too. So one look per capacity is enough, except at the few nodes that plans under way take from.
    """
    best: tuple[tuple[float, int, str], Node] | None = None
    for nodes in view.nodes.by_allocation():
        for node in nodes:
            if pending.no_room(job, node):
                continue
            key = _key(job, node, pending)
            if best is None or key < best[0]:
                best = (key, node)
            if node.name not in pending.nodes:
                break
    return best[1] if best else None


def _key(job: Job, node: Node, pending: Pending) -> tuple[float, int, str]:
    taken = node.capacity - pending.free(node) + job.spec.chief_requests
    return (allocation(taken, node.capacity), pending.count(node), node.name)
