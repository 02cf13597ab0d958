"""Why a job is not taken: what is wrong with its request, and what no node could ever give it.

It owns the reasons. When they are asked is the placer's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steepest.policies.placement.room import could_ever
from steepest.view.cluster_view import ClusterView
from steepest.view.nodes import format_resources
from steepest.view.queue import wish_of
from steepest.view.refusal import Refusal, first
from steepest.view.spec_rules import what_is_wrong
from steepest.view.state import Job


class Rejection(Refusal):
    """Why a job is not taken."""

    NAME_TAKEN = "name-taken", "a job named {job.name} is there already; choose another name"
    WRONG = "wrong", "{wrong}"
    SEVERAL_REPLICAS = "several-replicas", "jobs of several replicas need the gang scheduler"
    FIRST_NODE_UNKNOWN = "first-node-unknown", "it must start on node {node}, and there is no such node"
    FIRST_NODE_TAKES_NO_JOBS = (
        "first-node-takes-no-jobs",
        "it must start on node {node}, which only reports and takes no jobs",
    )
    FIRST_NODE_TOO_SMALL = "first-node-too-small", "it asks for {wanted}, and its first node {node} has {capacity}"
    TOO_LARGE = "too-large", "it asks for {wanted}, more than any node has; the largest, {largest}"


REQUEST: Mapping[Rejection, Callable[[Job, str], bool]] = {
    Rejection.NAME_TAKEN: lambda job, request: job.request != request,
    Rejection.WRONG: lambda job, _: next(what_is_wrong(job.spec), None) is not None,
    Rejection.SEVERAL_REPLICAS: lambda job, _: job.spec.is_gang,
}
"""What is wrong with a request, regardless of the nodes."""


def why_not_taken(job: Job, request: str) -> str | None:
    """Why a request for a job of that name is rejected; None where it is admitted."""
    rejection = first(REQUEST, job, request)
    return None if rejection is None else rejection.about(job=job, wrong=next(what_is_wrong(job.spec), ""))


def why_never_placed(view: ClusterView, job: Job) -> str | None:
    """Why no node could ever take a job; None if one could, or if nodes may still be joining."""
    if not len(view.nodes) or view.counted_ms - job.submitted_counted_ms < view.parameters.settle_ms:
        return None
    if could_ever(view, job):
        return None
    wanted, (_, first_node) = format_resources(job.spec.requests), wish_of(job)
    if first_node is not None:
        return _never_on(view, first_node, wanted)
    largest = view.nodes.largest()
    has = f"{largest.name}, has {format_resources(largest.capacity)}" if largest else "has nothing"
    return Rejection.TOO_LARGE.about(wanted=wanted, largest=has)


def _never_on(view: ClusterView, name: str, wanted: str) -> str:
    node = view.nodes.get(name)
    if node is None:
        return Rejection.FIRST_NODE_UNKNOWN.about(node=name)
    if not node.takes_jobs:
        return Rejection.FIRST_NODE_TAKES_NO_JOBS.about(node=name)
    return Rejection.FIRST_NODE_TOO_SMALL.about(node=name, wanted=wanted, capacity=format_resources(node.capacity))
