"""Which plans are valid at their position in the log, and why the others are void.

Rules: all that makes a plan void is in these tables, in the order in which it is asked; and a plan is judged by nothing but
the view at its place in the log.

Theory. A plan is valid if the incarnation that it names is the job's current one, no other plan is in flight for the job,
its algorithm has not decided about the job before, and its requests fit what is free at its target, or will be once the
plans are over that it waits for. The first in log order wins. A valid plan holds its target's place from there on; a void
one changes nothing, and keeps its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from steepest.events.cluster import MigrationPlanned, MoveKind, PlacementPlanned, Transition, TransitionPlanned
from steepest.events.common import NodeRule, Resources
from steepest.view.movable import immovable
from steepest.view.nodes import Holding, Nodes, format_resources
from steepest.view.places import gangs, promises
from steepest.view.places.node_rules import is_allowed
from steepest.view.places.queue_limits import excess
from steepest.view.projection import Projection
from steepest.view.refusal import Refusal, first
from steepest.view.state import Job, Node, Phase

Planned = PlacementPlanned | MigrationPlanned | TransitionPlanned


class Void(Refusal):
    """Why a plan is void, as far as its job and its source go. An unknown job neither waits nor runs."""

    NOT_WAITING = "not-waiting", "the job does not wait for a place"
    HELD = "held", "the job is held"
    NOT_RUNNING = "not-running", "the job does not run"
    OTHER_INCARNATION = (
        "other-incarnation",
        "it names incarnation {event.incarnation}, and the job's is {job.incarnation}",
    )
    CANCELLED = "cancelled", "the job is cancelled"
    PLAN_IN_FLIGHT = "plan-in-flight", "plan {job.plan} is in flight"
    OTHER_SIZES = "other-sizes", "the job's roles do not allow {event.sizes} replicas"
    OTHER_REPLICAS = "other-replicas", "it places {placed} replicas of {replicas}"
    OVER_LIMIT = "over-limit", "its queue's limit leaves too little"
    NO_ROOM_COMING = "no-room-coming", "plan {missing}, which is to make room for it, is void, failed or unknown"
    IS_GANG = "is-gang", "the job is a gang, which is moved whole"
    DECIDED_BEFORE = "decided-before", "Algorithm 4 has decided about it already"
    REBALANCED_BEFORE = "rebalanced-before", "Algorithm 5 has moved it already"
    MOVED_RECENTLY = "moved-recently", "it was moved recently, and stays for a while"
    OTHER_SOURCE = (
        "other-source",
        "the job is on {job.node}, and the plan moves it from {event.source} to {event.target}",
    )
    SOURCE_LOST = "source-lost", "node {event.source} is lost, so the job cannot be saved and stopped there"
    OTHER_SOURCES = "other-sources", "the job's replicas are on {running}, and not where the plan has them"
    A_SOURCE_LOST = "a-source-lost", "a node of the job is lost, so it cannot be saved and stopped there"
    NOTHING_CHANGES = "nothing-changes", "the job is as the plan would have it"
    OTHER_LEAVING = "other-leaving", "replicas {event.leaving} cannot leave so that those are left which it names"
    OTHER_SCALE = "other-scale", "it moves the job and scales it"
    HAS_TARGETS = "has-targets", "a suspended job has no nodes"
    ROOM_FOR_NONE = "room-for-none", "job {event.room_for}, which room is made for, is over or unknown"
    ROOM_FOR_LIMITED = (
        "room-for-limited",
        "its queue's limit keeps job {event.room_for}, which room is made for, waiting",
    )
    TOO_SOON = "too-soon", "the job was started less than {limits.min_run_ms} ms ago"
    TOO_OFTEN = "too-often", "the job was suspended {job.suspensions} times, and {limits.max_suspensions} are allowed"
    PING_PONG = "ping-pong", "the job made room for {event.room_for} before, and is more urgent"


class NoRoom(Refusal):
    """Why replicas of a job have no place on a node."""

    UNKNOWN_NODE = "unknown-node", "there is no node {node}"
    NODE_LOST = "node-lost", "node {node} is lost"
    TAKES_NO_JOBS = "takes-no-jobs", "node {node} only reports, and takes no jobs"
    NOT_ALLOWED = "not-allowed", "node {node} is none that the job may run on: its taints, or what the job requires"
    TOO_MANY_REPLICAS = "too-many-replicas", "node {node} would have more replicas than it takes"
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
"""Reasons that make any plan void that was made before the view changed."""

PLACEMENT: Mapping[Void, Callable[[PlacementPlanned, Job], bool]] = {
    Void.NOT_WAITING: lambda _, job: not job.is_queued,
    Void.HELD: lambda _, job: bool(job.hold),
    **OUTDATED,
    Void.OTHER_SIZES: lambda event, job: not job.spec.allows(event.sizes),
    Void.OTHER_REPLICAS: lambda event, job: len(event.nodes) != sum(job.spec.counts(event.sizes)) or not event.nodes,
}
"""Reasons that make a placement void; then :data:`NO_ROOM`, for each of its nodes."""

STALE_MOVE: Mapping[Void, Callable[[MigrationPlanned | TransitionPlanned, Job], bool]] = {
    Void.NOT_RUNNING: lambda _, job: job.phase is not Phase.RUNNING,
    **OUTDATED,
}
"""What makes a migration or a transition void; of a migration then
:data:`~steepest.view.movable.IMMOVABLE`, :data:`MOVE`, and :data:`NO_ROOM`."""

MOVE: Mapping[Void, Callable[[MigrationPlanned, Job, Nodes, int], bool]] = {
    Void.IS_GANG: lambda _, job, *__: job.spec.is_gang,
    Void.DECIDED_BEFORE: lambda event, job, *_: event.kind is MoveKind.REALLOCATION and job.migrated,
    Void.REBALANCED_BEFORE: lambda event, job, *_: event.kind is MoveKind.REBALANCE and job.rebalanced,
    Void.MOVED_RECENTLY: lambda event, job, _, counted_ms: (
        event.kind is MoveKind.STEEPEST and counted_ms < job.dwells_until_counted_ms
    ),
    Void.OTHER_SOURCE: lambda event, job, *_: job.node != event.source or event.source == event.target,
    Void.SOURCE_LOST: lambda event, _, nodes, __: nodes.is_lost(event.source),
}

TRANSITION: Mapping[Void, Callable[[TransitionPlanned, Job, Nodes], bool]] = {
    Void.OTHER_SOURCES: lambda event, job, _: event.sources != job.running_on,
    Void.A_SOURCE_LOST: lambda event, _, nodes: any(nodes.is_lost(node) for node in event.sources),
}
"""Reasons that make a transition void, after :data:`STALE_MOVE` and :data:`~steepest.view.movable.IMMOVABLE`."""

SUSPENSION: Mapping[Void, Callable[[TransitionPlanned, Job, Projection], bool]] = {
    Void.HAS_TARGETS: lambda event, _, __: bool(event.nodes or event.sizes),
    Void.ROOM_FOR_NONE: lambda event, _, view: _is_over(view, event.room_for),
    Void.ROOM_FOR_LIMITED: lambda event, _, view: _is_limited(view, event.room_for),
    Void.TOO_SOON: lambda _, job, view: (
        not job.hold and view.counted_ms - job.placed_counted_ms < view.parameters.preemption.min_run_ms
    ),
    Void.TOO_OFTEN: lambda _, job, view: not job.hold and job.suspensions >= view.parameters.preemption.max_suspensions,
    Void.PING_PONG: lambda event, job, view: (
        event.room_for in job.made_room_for and view.jobs[event.room_for].spec.priority < job.spec.priority
    ),
}
"""Reasons that make a suspension void, after :data:`TRANSITION`: rules that protect a job under any policy."""

REARRANGEMENT: Mapping[Void, Callable[[TransitionPlanned, Job], bool]] = {
    Void.OTHER_SIZES: lambda event, job: not job.spec.allows(event.sizes),
    Void.OTHER_REPLICAS: lambda event, job: len(event.nodes) != sum(job.spec.counts(event.sizes)),
    Void.OTHER_SCALE: lambda event, job: event.kind is Transition.MOVE and _is_scaled(event, job),
    Void.OTHER_LEAVING: lambda event, job: (
        not _can_leave(event, job) if event.kind is Transition.SHED else bool(event.leaving)
    ),
    Void.NOTHING_CHANGES: lambda event, job: (
        event.nodes == event.sources if event.kind is Transition.MOVE else not _is_scaled(event, job)
    ),
}
"""What makes scaling or moving a gang void after :data:`TRANSITION`; then :data:`NO_ROOM`, for each of its nodes."""

NO_ROOM: Mapping[NoRoom, Callable[[Resources, Node, bool], bool]] = {
    NoRoom.NODE_LOST: lambda _, node, __: node.lost,
    NoRoom.TAKES_NO_JOBS: lambda _, node, __: not node.takes_jobs,
    NoRoom.NOT_ALLOWED: lambda _, __, allowed: not allowed,
    NoRoom.TOO_MANY_REPLICAS: lambda wanted, node, _: wanted.replicas > node.free.replicas,
    NoRoom.TOO_LITTLE_FREE: lambda wanted, node, _: not wanted.fits(node.free),
}


def void_placement(event: PlacementPlanned, job: Job | None, view: Projection) -> Refused | None:
    """Why a placement is void at its position; None if it is valid."""
    if job is None:
        return Refused(Void.NOT_WAITING, Void.NOT_WAITING.sentence)
    if void := first(PLACEMENT, event, job):
        return Refused(void, void.about(event=event, job=job, **_numbers(event, job)))
    return _no_places(event, job, gangs.places(job, event.nodes, event.sizes), {}, view)


def void_migration(event: MigrationPlanned, job: Job | None, nodes: Nodes, counted_ms: int) -> Refused | None:
    """Why a migration is void at its position, at that counted time; None if it is valid."""
    if job is None:
        return Refused(Void.NOT_RUNNING, Void.NOT_RUNNING.sentence)
    if void := first(STALE_MOVE, event, job) or immovable(job) or first(MOVE, event, job, nodes, counted_ms):
        return Refused(void, void.about(event=event, job=job))
    target, wanted = nodes.get(event.target), job.spec.chief_requests
    if full := no_room(wanted, target, job.node_rule):
        return Refused(full, room_sentence(full, wanted, target, event.target))
    return None


def void_transition(event: TransitionPlanned, job: Job | None, view: Projection) -> Refused | None:
    """Why a transition is void at its position; None if it is valid."""
    if job is None:
        return Refused(Void.NOT_RUNNING, Void.NOT_RUNNING.sentence)
    # Those that stay restore nothing, so that surplus replicas may leave a job which cannot be checkpointed.
    stuck = None if event.kind is Transition.SHED else immovable(job)
    void = first(STALE_MOVE, event, job) or stuck or first(TRANSITION, event, job, view.nodes)
    suspends = event.kind is Transition.SUSPEND
    void = void or (first(SUSPENSION, event, job, view) if suspends else first(REARRANGEMENT, event, job))
    if void:
        facts = {"running": ", ".join(job.running_on) or "no node", "limits": view.parameters.preemption}
        return Refused(void, void.about(event=event, job=job, **facts, **_numbers(event, job)))
    now = gangs.running(job)
    return _no_places(event, job, now if suspends else gangs.together(now, _afterwards(event, job)), now, view)


def _can_leave(event: TransitionPlanned, job: Job) -> bool:
    """Whether the replicas that leave are surplus ones that run, and those that stay are as the plan has them."""
    leaving, roles = dict.fromkeys(event.leaving), job.spec.all_roles
    if not leaving or event.leaving != tuple(sorted(leaving)) or event.leaving[-1] >= len(job.replicas):
        return False
    gone = [job.replicas[index] for index in leaving]
    # Replica 0, the chief, and the one that saves for all are never surplus.
    if 0 in leaving or job.saver in leaving or not all(one.alive and roles[one.role].may_leave for one in gone):
        return False
    staying = [one for index, one in enumerate(job.replicas) if one.alive and index not in leaving]
    counts = tuple(sum(one.role == role for one in staying) for role in range(len(roles)))
    return event.nodes == tuple(one.node for one in staying) and job.spec.counts(event.sizes) == counts


def _numbers(event: PlacementPlanned | TransitionPlanned, job: Job) -> dict[str, int]:
    replicas = sum(job.spec.counts(event.sizes)) if job.spec.allows(event.sizes) else job.spec.world
    return {"placed": len(event.nodes), "replicas": replicas}


def _is_scaled(event: TransitionPlanned, job: Job) -> bool:
    """Whether a plan changes how many replicas of each role there are."""
    return job.spec.counts(event.sizes) != job.spec.counts(job.running_sizes)


def _afterwards(event: TransitionPlanned, job: Job) -> dict[str, Holding]:
    return gangs.places(job, event.nodes, event.sizes)


def _is_over(view: Projection, name: str | None) -> bool:
    """Whether a job that is named is over or unknown."""
    if name is None:
        return False
    job = view.jobs.get(name)
    return job is None or job.phase is Phase.ENDED


def _is_limited(view: Projection, name: str | None) -> bool:
    """Whether its queue's limit keeps a job that is named from starting, also with its fewest replicas."""
    return name is not None and excess(view, view.jobs[name], view.jobs[name].spec.smallest) is not None


def _no_places(
    event: PlacementPlanned | TransitionPlanned,
    job: Job,
    wanted: dict[str, Holding],
    now: dict[str, Holding],
    view: Projection,
) -> Refused | None:
    """Why a job cannot hold what it wants beyond what it holds now, with what other plans will leave to it."""
    # A suspended job gets no nodes; it holds no more than before.
    if event.nodes and (over := excess(view, job, event.sizes)):
        return Refused(Void.OVER_LIMIT, over.words)
    missing = promises.not_coming(view, event.after) if event.after else None
    if missing is not None:
        return Refused(Void.NO_ROOM_COMING, Void.NO_ROOM_COMING.about(missing=missing))
    for name, (_, amount) in wanted.items():
        node = view.nodes.get(name)
        more = amount - now[name][1] if name in now else amount
        if more == Resources() and name in now:
            continue
        is_there = name in now and more.positive == Resources()  # it may stay, or become less
        for part in promises.share(view, event.after, name, more).values() if event.after else ():
            more -= part
        if full := no_room(more, node, job.node_rule, is_there=is_there):
            return Refused(full, room_sentence(full, more, node, name))
    return None


def no_room(wanted: Resources, node: Node | None, rule: NodeRule | None, *, is_there: bool = False) -> NoRoom | None:
    """Why a node has no place for that much more of a job with this rule, which may be there already; None if it has."""
    if node is None:
        return NoRoom.UNKNOWN_NODE
    return first(NO_ROOM, wanted, node, is_there or is_allowed(rule, node))


def room_sentence(refusal: NoRoom, wanted: Resources, node: Node | None, name: str) -> str:
    """The sentence of a refusal for want of room on the node of that name."""
    free = "" if node is None else format_resources(node.free)
    return refusal.about(node=name, free=free, wanted=format_resources(wanted))
