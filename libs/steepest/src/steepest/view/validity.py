"""Which plans are valid where they stand in the log, and why the others are void.

Rules: all that makes a plan void is in these tables, in the order in which it is asked; and a plan is judged by nothing but
the view at its place in the log.

Theory. A plan is valid if the incarnation that it names is the job's current one, no other plan is in flight for the job,
its algorithm has not decided about the job before, and its requests fit what is free at its target. The first in log order
wins. A valid plan holds its target's place from there on; a void one changes nothing, and keeps its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from steepest.events.cluster import MigrationPlanned, MoveKind, PlacementPlanned
from steepest.events.common import Resources
from steepest.view.movable import immovable
from steepest.view.nodes import Nodes, format_resources
from steepest.view.refusal import Refusal, first
from steepest.view.state import Job, Node, Phase

Planned = PlacementPlanned | MigrationPlanned


class Void(Refusal):
    """Why a plan is void, as far as its job and its source go. An unknown job neither waits nor runs."""

    NOT_WAITING = "not-waiting", "the job does not wait for a place"
    NOT_RUNNING = "not-running", "the job does not run"
    OTHER_INCARNATION = (
        "other-incarnation",
        "it names incarnation {event.incarnation}, and the job's is {job.incarnation}",
    )
    CANCELLED = "cancelled", "the job is cancelled"
    PLAN_IN_FLIGHT = "plan-in-flight", "plan {job.plan} is in flight"
    OTHER_REPLICAS = "other-replicas", "it places {placed} replicas of {job.spec.replicas}"
    DECIDED_BEFORE = "decided-before", "Algorithm 4 has decided about it already"
    REBALANCED_BEFORE = "rebalanced-before", "Algorithm 5 has moved it already"
    MOVED_RECENTLY = "moved-recently", "it was moved recently, and stays for a while"
    OTHER_SOURCE = (
        "other-source",
        "the job is on {job.node}, and the plan moves it from {event.source} to {event.target}",
    )
    SOURCE_LOST = "source-lost", "node {event.source} is lost, so the job cannot be saved and stopped there"


class NoRoom(Refusal):
    """Why replicas of a job have no place on a node."""

    UNKNOWN_NODE = "unknown-node", "there is no node {node}"
    NODE_LOST = "node-lost", "node {node} is lost"
    TAKES_NO_JOBS = "takes-no-jobs", "node {node} only reports, and takes no jobs"
    TOO_LITTLE_FREE = "too-little-free", "node {node} has not enough free: {free}, and {wanted} is asked for"
    PLAN_UNDER_WAY = "plan-under-way", "a plan under way takes what is free"  # asked by deciders only


class Refused(NamedTuple):
    """A void plan: the code, and the sentence that it keeps."""

    code: Refusal
    reason: str


OUTDATED: Mapping[Void, Callable[[Planned, Job], bool]] = {
    Void.OTHER_INCARNATION: lambda event, job: event.incarnation != job.incarnation,
    Void.CANCELLED: lambda _, job: bool(job.cancel),
    Void.PLAN_IN_FLIGHT: lambda _, job: bool(job.plan),
}
"""What makes any plan void that was made before the view changed."""

PLACEMENT: Mapping[Void, Callable[[PlacementPlanned, Job], bool]] = {
    Void.NOT_WAITING: lambda _, job: job.phase is not Phase.WAITING,
    **OUTDATED,
    Void.OTHER_REPLICAS: lambda event, job: len(event.nodes) != job.spec.replicas or not event.nodes,
}
"""What makes a placement void; then :data:`NO_ROOM`, for each of its nodes."""

STALE_MOVE: Mapping[Void, Callable[[MigrationPlanned, Job], bool]] = {
    Void.NOT_RUNNING: lambda _, job: job.phase is not Phase.RUNNING,
    **OUTDATED,
}
"""What makes a migration void; then :data:`~steepest.view.movable.IMMOVABLE`, :data:`MOVE`, and :data:`NO_ROOM`."""

MOVE: Mapping[Void, Callable[[MigrationPlanned, Job, Nodes, int], bool]] = {
    Void.DECIDED_BEFORE: lambda event, job, *_: event.kind is MoveKind.REALLOCATION and job.migrated,
    Void.REBALANCED_BEFORE: lambda event, job, *_: event.kind is MoveKind.REBALANCE and job.rebalanced,
    Void.MOVED_RECENTLY: lambda event, job, _, counted_ms: (
        event.kind is MoveKind.STEEPEST and counted_ms < job.dwells_until_counted_ms
    ),
    Void.OTHER_SOURCE: lambda event, job, *_: job.node != event.source or event.source == event.target,
    Void.SOURCE_LOST: lambda event, _, nodes, __: nodes.is_lost(event.source),
}

NO_ROOM: Mapping[NoRoom, Callable[[Resources, Node], bool]] = {
    NoRoom.NODE_LOST: lambda _, node: node.lost,
    NoRoom.TAKES_NO_JOBS: lambda _, node: not node.takes_jobs,
    NoRoom.TOO_LITTLE_FREE: lambda wanted, node: not wanted.fits(node.free),
}


def void_placement(event: PlacementPlanned, job: Job | None, nodes: Nodes) -> Refused | None:
    """Why a placement is void where it stands; None if it is valid."""
    if job is None:
        return Refused(Void.NOT_WAITING, Void.NOT_WAITING.sentence)
    if void := first(PLACEMENT, event, job):
        return Refused(void, void.about(event=event, job=job, placed=len(event.nodes)))
    for name, replicas in Counter(event.nodes).items():
        node, wanted = nodes.get(name), _times(job.spec.requests, replicas)
        if full := no_room(wanted, node):
            return Refused(full, room_sentence(full, wanted, node, name))
    return None


def void_migration(event: MigrationPlanned, job: Job | None, nodes: Nodes, counted_ms: int) -> Refused | None:
    """Why a migration is void where it stands, at that counted time; None if it is valid."""
    if job is None:
        return Refused(Void.NOT_RUNNING, Void.NOT_RUNNING.sentence)
    if void := first(STALE_MOVE, event, job) or immovable(job) or first(MOVE, event, job, nodes, counted_ms):
        return Refused(void, void.about(event=event, job=job))
    target, wanted = nodes.get(event.target), job.spec.requests
    if full := no_room(wanted, target):
        return Refused(full, room_sentence(full, wanted, target, event.target))
    return None


def no_room(wanted: Resources, node: Node | None) -> NoRoom | None:
    """Why a node has no place for that much more; None if it has."""
    return NoRoom.UNKNOWN_NODE if node is None else first(NO_ROOM, wanted, node)


def room_sentence(refusal: NoRoom, wanted: Resources, node: Node | None, name: str) -> str:
    """The sentence of a refusal for want of room on the node of that name."""
    free = "" if node is None else format_resources(node.free)
    return refusal.about(node=name, free=free, wanted=format_resources(wanted))


def _times(requests: Resources, replicas: int) -> Resources:
    total = requests
    for _ in range(replicas - 1):
        total += requests
    return total
