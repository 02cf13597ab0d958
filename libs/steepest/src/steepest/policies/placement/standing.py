"""Where each waiting job stands: its position in the queue, why it waits, and when it may start.

It owns these answers, which are for people and decide nothing. They follow from the view alone.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from steepest.events.common import NodeRule, Resources
from steepest.events.requests import Hold
from steepest.policies.placement.gangs import choose, fewest
from steepest.policies.placement.room import has_room, would_have_room
from steepest.policies.placement.slots import Slots, fitting
from steepest.policies.queueing.ranks import queue_policy, turn
from steepest.policies.queueing.wish import Wish, wish_of
from steepest.view.cluster_view import ClusterView
from steepest.view.nodes import format_resources
from steepest.view.places.node_rules import is_allowed, why_not_allowed
from steepest.view.places.queue_limits import Excess, excess
from steepest.view.progress import time_left
from steepest.view.state import Job, Phase

ONCE_RAISED = "; it starts only once that limit is raised"

ESTIMATED = 100
"""Jobs at the head of the queue of which a start is estimated."""


class Waits(enum.StrEnum):
    """What a job waits for."""

    ADMISSION = "admission"
    HOLD = "hold"  # its user, or jobs that it comes after
    RETRY = "retry"  # the hold after a failure
    NODES = "nodes"  # no node has joined, or none that it may run on
    LIMIT = "limit"  # of its queue or user
    BLOCKED = "blocked"  # a job before it has no room, and the queue blocks
    ROOM = "room"
    PLACER = "placer"  # it has room, and is placed when the queue is gone through next


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a waiting job stands.

    Attributes:
        position: Its place in the queue, from 1.
        waiting: How many jobs wait.
        start_ms: Counted time until it may start, if running jobs end as estimated and no other job comes; None: nothing
            is known of that.
    """

    position: int
    waiting: int
    waits_for: Waits
    reason: str
    start_ms: int | None = None


def standings(view: ClusterView) -> Mapping[str, Standing]:
    """How each waiting job stands, by name. Work: O(jobs · nodes)."""
    rules = view.parameters.queueing
    rank = queue_policy(rules.policy).rank
    queued = sorted(view.jobs.queue, key=lambda job: (turn(view, job.accounts), rank(job, rules), job.submitted_offset))
    slots_by_rule: dict[NodeRule | None, Slots] = {}
    starts = _starts(view, queued[:ESTIMATED]) if queued else {}
    found: dict[str, Standing] = {}
    before: dict[str | None, str] = {}  # by account; None: in all queues
    for place, job in enumerate(queued, start=1):
        rule = wish_of(job).rule
        if (slots := slots_by_rule.get(rule)) is None:
            slots = slots_by_rule[rule] = Slots(
                {node.name: node.free for node in view.nodes if node.is_open and is_allowed(rule, node)}
            )
        over = excess(view, job, job.spec.smallest)
        waits_for, reason = _why(view, job, slots, over, before)
        if rules.blocking and waits_for is Waits.LIMIT and over is not None and not over.is_alone:
            before.setdefault(over.account, f"job {job.name} is before it, and {over.account} has reached its limit")
        elif rules.blocking and waits_for is Waits.ROOM and would_have_room(view, wish_of(job)):
            before.setdefault(None, f"job {job.name} is before it and has no room")
        start_ms = starts.get(job.name) if waits_for in {Waits.ROOM, Waits.BLOCKED} else None
        found[job.name] = Standing(
            position=place, waiting=len(queued), waits_for=waits_for, reason=reason, start_ms=start_ms
        )
    return found


def _why(
    view: ClusterView, job: Job, slots: Slots, over: Excess | None, before: Mapping[str | None, str]
) -> tuple[Waits, str]:
    hold = job.not_before_counted_ms - view.counted_ms
    blocked = next((before[one] for one in (None, *job.accounts) if one in before), None)
    for applies, waits_for, reason in (
        (not job.admitted, Waits.ADMISSION, "it is not admitted yet: the system does that once it runs"),
        (job.hold is not Hold.NONE, Waits.HOLD, _why_held(view, job)),
        (hold > 0, Waits.RETRY, f"its next try is held back, after: {job.stop_reason or 'a failure'}"),
        (not slots.free, Waits.NODES, _why_no_node(view, wish_of(job).rule)),
        (over is not None, Waits.LIMIT, f"{over.words}{ONCE_RAISED if over.is_alone else ''}" if over else ""),
        (blocked is not None, Waits.BLOCKED, f"{blocked}"),
    ):
        if applies:
            return waits_for, reason
    wish = wish_of(job)
    if has_room(wish, slots):
        return Waits.PLACER, "the placer considers it at the next record that may have made room"
    return Waits.ROOM, _no_room_for(wish, slots)


def _why_held(view: ClusterView, job: Job) -> str:
    if job.hold is Hold.USER:
        return f"its user holds it: `steepest release {job.name}` lets it go on"
    if job.hold is Hold.FINDING:
        return f"it was suspended because of a finding: `steepest resume {job.name}` lets it go on"
    if job.hold is Hold.RUNG:
        return (
            f"it waits at its rung, which it reached as {job.trial.judged}; `steepest release {job.name}` lets it go on"
        )
    before = [name for name in job.spec.after if (one := view.jobs.get(name)) is not None and one.outcome is None]
    if before:
        return f"it comes after {', '.join(before)}"
    return f"{job.spec.array_most} jobs of its array run or wait for a place"


def _why_no_node(view: ClusterView, rule: NodeRule | None) -> str:
    """Why there is no node that a job may run on, were it empty; of several reasons the most frequent one."""
    counts: dict[str, int] = {}
    for node in view.nodes:
        if node.is_open and not node.drained and (why := why_not_allowed(rule, node)):
            counts[why] = counts.get(why, 0) + 1
    if not counts:
        drained = next((f": `steepest nodes undrain {node.name}` opens one" for node in view.nodes if node.drained), "")
        return f"no node takes jobs now{drained}"
    nodes, why = sum(counts.values()), max(counts, key=lambda why: (counts[why], why))
    which = "the only node that takes jobs" if nodes == 1 else f"any of the {nodes} nodes that take jobs"
    here = "" if counts[why] == nodes else f" ({counts[why]} of them)"
    return f"it may not run on {which}: {why}{here}"


def _no_room_for(wish: Wish, slots: Slots) -> str:
    for role, count in zip(wish.roles, fewest(wish.roles) if wish.roles else (), strict=True):
        there = slots.of(role.requests)
        if there < count:
            each = format_resources(role.requests)
            short = _short(role.requests, slots)
            where = "nodes have" if wish.rule is None else "the nodes that it may run on have"
            return f"{where} room for {there} of the {count} replicas that it needs, {each} each{short}"
    if wish.roles:
        where = "" if wish.rule is None else " on the nodes that it may run on"
        return f"its replicas have no room beside each other{where}"
    where = "no node has" if wish.rule is None else "no node that it may run on has"
    where = where if wish.first_node is None else f"its first node {wish.first_node} has not"
    return f"{where} {format_resources(wish.requests)} free{_short(wish.requests, slots)}"


def _short(requests: Resources, slots: Slots) -> str:
    """The resources that no node has enough of, in words; empty where each is there by itself."""
    parts = {
        "room for more replicas": Resources(replicas=requests.replicas),
        "CPU": Resources(cpu_m=requests.cpu_m),
        "memory": Resources(memory_mib=requests.memory_mib),
        "GPUs": Resources(gpus=requests.gpus, gpu_m=requests.gpu_m),
        **{name: Resources(extended=((name, amount),)) for name, amount in requests.extended},
    }
    short = [name for name, part in parts.items() if not any(fitting(part, free) for free in slots.free.values())]
    if not short:
        return ""
    most = max((free.all_gpus_m for free in slots.free.values()), default=0) / 1000
    gpus = f" (at most {most:g} are free on a node)" if "GPUs" in short else ""
    return f": {' and '.join(short)} {'are' if short[1:] or gpus else 'is'} short{gpus}"


def _starts(view: ClusterView, queued: Sequence[Job]) -> Mapping[str, int]:
    """When jobs may start, if running ones end as estimated; a job that starts is taken to run on for long."""
    left, found = {node.name: node.free for node in view.nodes if node.is_open}, dict[str, int]()
    ends = list(_ends(view))
    heapq.heapify(ends)
    while ends and len(found) < len(queued):
        at_ms, name = heapq.heappop(ends)
        for node in view.jobs[name].holds:
            if node in left:
                left[node] += view.nodes.held(view.jobs[name], node)
        for job in queued:
            if job.name not in found and not _take(view, wish_of(job), left):
                if view.parameters.queueing.blocking:
                    break
            elif job.name not in found:
                found[job.name] = at_ms
    return found


def _ends(view: ClusterView) -> Iterator[tuple[int, str]]:
    for job in view.jobs:
        remaining = time_left(job) if job.phase is Phase.RUNNING else None
        if remaining is not None:
            yield remaining.p50, job.name


def _take(view: ClusterView, wish: Wish, left: dict[str, Resources]) -> bool:
    """Let a job have its places, if there is room."""
    allowed = {node: free for node, free in left.items() if is_allowed(wish.rule, view.nodes[node])}
    if wish.roles:
        places = choose(wish.roles, Slots(allowed), first_node=wish.first_node)
        if places is None:
            return False
        for node, amount in places.amounts(wish.roles).items():
            left[node] -= amount
        return True
    for node in sorted(allowed):
        if wish.first_node in {None, node} and wish.requests.fits(left[node]):
            left[node] -= wish.requests
            return True
    return False
