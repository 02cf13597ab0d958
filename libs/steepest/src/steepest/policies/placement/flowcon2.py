"""``flowcon2``: an arrival goes where most of a node can be reclaimed from jobs that hardly grow.

A reconstruction: FlowCon 2.0 (TCC 2023) says that it makes placement decisions elastic as well, and none of its sources
that can be reached gives a rule. Ours follows from Algorithm 1: a job *needs* the whole node while it is new (NL) or
was not looked at yet, its limit while it is watched (WL), and the floor 1/(n+1) once it completes (CL). What can be
reclaimed of a node of capacity C is C·(1 − Σ need); an arrival goes where that is most, then where fewest jobs are,
then to the first name.

Where the needs exceed the node the product would prefer the smaller of two nodes that are equally overcommitted; there
the excess is divided by C instead of multiplied.

Work: O(nodes + jobs on them) at an arrival.
"""

from __future__ import annotations

from steepest.events.cluster import GrowthList
from steepest.policies.flowcon.limits import floor
from steepest.policies.pending import Pending
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Node


def flowcon2(view: ClusterView, job: Job, pending: Pending) -> Node | None:
    """The node for one replica of ``job``; None where it fits nowhere now."""
    there = [node for node in view.nodes if node.is_open and not pending.no_room(job, node)]
    return min(there, key=lambda node: _key(view, node, pending), default=None)


def reclaimable(view: ClusterView, node: Node, pending: Pending) -> float:
    """What can be reclaimed of a node, in millicores; below zero, the excess of needs per millicore."""
    capacity_m = max(node.capacity.cpu_m, 1)
    coming = max(0, pending.count(node) - node.count)
    left = 1 - coming - sum(need(view.jobs[name], node) for name in node.jobs)
    return round(left * capacity_m if left >= 0 else left / capacity_m, 9)


def need(job: Job, node: Node) -> float:
    """The share of a node that a job there needs; one that is on its way needs all of it, as a new one does."""
    limit = job.limit
    if limit is None or node.name not in job.nodes or limit.growth_list is GrowthList.NEW:
        return 1.0
    if limit.growth_list is GrowthList.COMPLETING:
        return floor(len(node.jobs))
    return 1.0 if limit.cpu_m is None else min(limit.cpu_m / max(node.capacity.cpu_m, 1), 1.0)


def _key(view: ClusterView, node: Node, pending: Pending) -> tuple[float, int, str]:
    return (-reclaimable(view, node, pending), pending.count(node), node.name)
