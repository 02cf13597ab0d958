"""Placement by the remaining work of running jobs, which a simulation knows and no pool's log holds.

It owns what a placement policy learns of simulated trainings beyond the view. What follows is the policy's rule.
"""

from __future__ import annotations

from collections.abc import Callable

from steepest.cluster.port import ReplicaId
from steepest.policies.pending import Pending
from steepest.policies.placement.policies import PlacementPolicy
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Node
from steepest_lab.sim.system.procon import Crowd, IterationProgress, procon
from steepest_lab.simulated.nodes import SimulatedNodes

PROCON = "procon"


def placement_by_progress(nodes: Callable[[], SimulatedNodes]) -> PlacementPolicy:
    """ProCon on some nodes, which need not be there yet."""

    def choose(view: ClusterView, job: Job, pending: Pending) -> Node | None:
        simulated = nodes()
        there = [node for node in view.nodes if node.is_open and not pending.no_room(job, node)]
        chosen = procon([_crowd(view, node, pending, simulated) for node in there])
        return view.nodes[chosen.name] if chosen else None

    return PlacementPolicy(choose, "procon: least left to do by progress, times jobs")


def _crowd(view: ClusterView, node: Node, pending: Pending, nodes: SimulatedNodes) -> Crowd:
    return Crowd(
        name=node.name,
        capacity_m=node.capacity.cpu_m,
        jobs=pending.count(node),
        known=[_progress(view, view.jobs[name], nodes) for name in node.jobs],
    )


def _progress(view: ClusterView, job: Job, nodes: SimulatedNodes) -> IterationProgress:
    """The progress of a job: an iteration is from one report to the next, as ProCon's epochs are."""
    training = nodes.newest(ReplicaId(job.name))
    if training is None or not training.running:
        return IterationProgress()  # on its way, or its end is not known yet
    model = training.model
    every, steps = model.report_every, model.steps or 0
    age_s = (view.counted_ms - job.started_counted_ms) / 1000
    if training.step is None:
        return IterationProgress(iterations=steps / every, age_s=age_s)
    return IterationProgress(
        cpu_m=training.share_m,
        iteration_s=every / training.pace if training.pace else 0.0,  # it saves, and uses no CPU
        left=(steps - training.step) / every,
        iterations=steps / every,
        age_s=age_s,
    )
