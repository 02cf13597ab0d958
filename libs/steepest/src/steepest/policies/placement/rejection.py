"""Why a job is not taken: what is wrong with its request, and what no node could ever give it.

It owns the reasons. When they are asked is the placer's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steepest.policies.placement.gangs import fewest
from steepest.policies.placement.room import best_case, could_ever
from steepest.policies.placement.slots import fitting
from steepest.policies.queueing.wish import Wish, wish_of
from steepest.view.cluster_view import ClusterView
from steepest.view.nodes import format_resources
from steepest.view.places.queue_limits import excess, too_many
from steepest.view.refusal import Refusal, first
from steepest.view.spec_rules import what_is_wrong
from steepest.view.state import Job


class Rejection(Refusal):
    """Why a job is not taken."""

    NAME_TAKEN = "name-taken", "a job named {job.name} is there already; choose another name"
    WRONG = "wrong", "{wrong}"
    FIRST_NODE_UNKNOWN = "first-node-unknown", "it must start on node {node}, and there is no such node"
    FIRST_NODE_TAKES_NO_JOBS = (
        "first-node-takes-no-jobs",
        "it must start on node {node}, which only reports and takes no jobs",
    )
    FIRST_NODE_TOO_SMALL = "first-node-too-small", "it asks for {wanted}, and its first node {node} has {capacity}"
    TOO_LARGE = "too-large", "it asks for {wanted}, more than any node has; the largest, {largest}"
    REPLICA_TOO_LARGE = (
        "replica-too-large",
        "each replica of role {role} asks for {wanted}, more than any node has; the largest, {largest}",
    )
    GANG_TOO_LARGE = (
        "gang-too-large",
        "it asks for at least {count} replicas of role {role}, {wanted} each, and all nodes together, empty, hold {places}",
    )
    NO_PACKING = "no-packing", "its roles have no room beside each other, even if all nodes were empty"


REQUEST: Mapping[Rejection, Callable[[ClusterView, Job, str], bool]] = {
    Rejection.NAME_TAKEN: lambda _, job, request: job.request != request,
    Rejection.WRONG: lambda view, job, _: bool(_what_is_wrong(view, job)),
}
"""What is wrong with a request, regardless of the nodes and of what other jobs hold."""


def why_not_taken(view: ClusterView, job: Job, request: str) -> str | None:
    """Why a request for a job of that name is rejected; None where it is admitted."""
    rejection = first(REQUEST, view, job, request)
    return None if rejection is None else rejection.about(job=job, wrong=_what_is_wrong(view, job))


def why_never_placed(view: ClusterView, job: Job) -> str | None:
    """Why no node could ever take a job; None if one could, or if nodes may still be joining."""
    if not len(view.nodes) or view.counted_ms - job.submitted_counted_ms < view.parameters.settle_ms:
        return None
    wish = wish_of(job)
    if wish.roles:
        return _never_as_gang(view, wish)
    if could_ever(view, wish):
        return None
    wanted = format_resources(wish.requests)
    if wish.first_node is not None:
        return _never_on(view, wish.first_node, wanted)
    return Rejection.TOO_LARGE.about(wanted=wanted, largest=_largest(view))


def _what_is_wrong(view: ClusterView, job: Job) -> str:
    """What is wrong with a job's description in its pool; empty where nothing is.

    One that was admitted waits where its limit is lowered later: it may be raised again.
    """
    wrong = next(what_is_wrong(job.spec), "")
    if wrong or job.admitted:
        return wrong
    over = excess(view, job, job.spec.smallest)
    return over.words if over is not None and over.is_alone else too_many(view, job)


def _largest(view: ClusterView) -> str:
    largest = view.nodes.largest()
    return f"{largest.name}, has {format_resources(largest.capacity)}" if largest else "has nothing"


def _never_as_gang(view: ClusterView, wish: Wish) -> str | None:
    if best_case(view, wish) is not None:
        return None
    nodes = [node.capacity for node in view.nodes if node.takes_jobs]
    for role, count in zip(wish.roles, fewest(wish.roles), strict=True):
        places = sum(fitting(role.requests, capacity) for capacity in nodes)
        if not places:
            return Rejection.REPLICA_TOO_LARGE.about(
                role=role.name, wanted=format_resources(role.requests), largest=_largest(view)
            )
        if places < count:
            return Rejection.GANG_TOO_LARGE.about(
                role=role.name, count=count, wanted=format_resources(role.requests), places=places
            )
    if wish.first_node is not None:
        return _never_on(view, wish.first_node, format_resources(wish.requests))
    return Rejection.NO_PACKING.sentence


def _never_on(view: ClusterView, name: str, wanted: str) -> str:
    node = view.nodes.get(name)
    if node is None:
        return Rejection.FIRST_NODE_UNKNOWN.about(node=name)
    if not node.takes_jobs:
        return Rejection.FIRST_NODE_TAKES_NO_JOBS.about(node=name)
    return Rejection.FIRST_NODE_TOO_SMALL.about(node=name, wanted=wanted, capacity=format_resources(node.capacity))
