"""A node as programs see it: ``steepest nodes --json``, the API and the live page give the same row.

It owns the row's fields. It must never know where a view comes from, or how a row is printed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.events.cluster import FailedGpu, GpuUse
from steepest.events.common import Resources
from steepest.view.cluster_view import ClusterView
from steepest.view.nodes import format_resources
from steepest.view.places.gangs import gpus_on
from steepest.view.state import Node


class Amounts(msgspec.Struct, frozen=True):
    """CPU in millicores and memory in MiB; ``text`` is all of it, GPUs and named resources included."""

    cpu_m: int
    memory_mib: int
    text: str


class NodeGpus(msgspec.Struct, frozen=True, kw_only=True):
    """A node's GPUs.

    Attributes:
        reserved: In GPUs; of shared ones, parts.
        assigned: The ids that jobs' replicas have, by job, where the node's adapter says so.
        failed: Those that are out of use; ``use``: how busy the others are, where a driver says it.
    """

    total: int
    reserved: float
    assigned: Mapping[str, tuple[int, ...]]
    failed: tuple[FailedGpu, ...]
    use: tuple[GpuUse, ...]


class NodeRow(msgspec.Struct, kw_only=True):
    """A node.

    Attributes:
        drained: Whether no more jobs start there; ``slow``: why, if it is because it has become slow.
        limits: The CPU limits in force there, in millicores, by job.
        score: SpeCon's: the lower, the more room for a converged job.
        replicas: How many of each category (``PC``, ``WC``, ``CC``, ``unknown``) are assigned here.
        jobs: Who holds a place here; a job that moves holds two.
    """

    node: str
    lost: bool
    takes_jobs: bool
    drained: bool
    slow: str
    capacity: Amounts
    reserved: Amounts
    used: Amounts
    gpus: NodeGpus
    limits: Mapping[str, int]
    score: float
    replicas: Mapping[str, int]
    jobs: list[str]


def node_row(view: ClusterView, node: Node) -> NodeRow:
    """A node's row."""
    progressing, watched, converged = node.replicas
    return NodeRow(
        node=node.name,
        lost=node.lost,
        takes_jobs=node.takes_jobs,
        drained=node.drained,
        slow=node.slow,
        capacity=_amounts(node.capacity),
        reserved=_amounts(node.allocated),
        used=_amounts(node.used),
        gpus=NodeGpus(
            total=node.capacity.gpus,
            reserved=node.allocated.all_gpus_m / 1000,
            assigned={job: gpus for job in node.jobs if (gpus := gpus_on(view.jobs[job], node.name))},
            failed=node.failed_gpus,
            use=node.gpu_use,
        ),
        limits=limits(view, node),
        score=view.nodes.score(node),
        replicas={"PC": progressing, "WC": watched, "CC": converged, "unknown": node.unknown},
        jobs=list(node.jobs),
    )


def limits(view: ClusterView, node: Node) -> dict[str, int]:
    """The CPU limits in force on a node, in millicores, by job; a job without one is not there."""
    there = ((name, view.jobs[name]) for name in node.jobs)
    return {
        name: job.limit.in_force_m
        for name, job in there
        if job.limit is not None and job.limit.in_force_m is not None and node.name in job.nodes
    }


def _amounts(resources: Resources) -> Amounts:
    return Amounts(resources.cpu_m, resources.memory_mib, format_resources(resources))
