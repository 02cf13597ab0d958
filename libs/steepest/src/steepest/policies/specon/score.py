"""The score of a worker: S(w) = w_pc·|PC| + w_wc·|WC| + w_cc·|CC| (SpeCon thesis, Algorithm 4 and §6.2)."""

from __future__ import annotations

from steepest.events.cluster import NodeScore
from steepest.events.parameters import SpeConParameters
from steepest.policies.pending import Pending
from steepest.view.state import Node


def score(node: Node, pending: Pending, weights: SpeConParameters) -> float:
    """S(w) of a node, plans under way included."""
    progressing, watched, converged = pending.replicas(node)
    return weights.weight_pc * progressing + weights.weight_wc * watched + weights.weight_cc * converged


def seen(node: Node, pending: Pending, weights: SpeConParameters, rejected: str = "") -> NodeScore:
    """A node as a decision saw it."""
    return NodeScore(
        node=node.name,
        score=score(node, pending, weights),
        used_cpu_m=node.used.cpu_m,
        replicas=pending.count(node),
        rejected=rejected,
    )
