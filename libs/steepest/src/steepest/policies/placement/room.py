"""Which wishes surely have no room, so that nodes are searched for the others only.

It owns this memory and when it is outdated. It must never know who decides, nor which node is best.

Theory. A wish that found no node *has no room*. That stays so until something became free, on a node that joined, came
back, or on which a place was given back; then the wishes that fit what is free on that node are *open* again. A wish that
no node could fulfil, were it empty, stays open, because sooner or later its jobs are rejected; where a node becomes smaller
or goes, all are open, because that may have become so. All of this follows from the view and from the plans under way, so
nothing of it is kept in a snapshot: a memory that begins empty searches more, with the same result.

Gangs of one role are *counted*: such a gang has room exactly where all nodes together have slots for the fewest replicas
that it can start with. The slots are kept as nodes change, so that a counted gang is open only after its slots have
become more, and enough. Gangs of several roles, with a first node, or that say which nodes they may use, are open again
as soon as anything becomes free there.

The slots are those of nodes without taints, which every job may use. A wish that says which nodes it may use is judged by
the free resources of these, which is kept for the rules that were asked for last. Which nodes those are changes with their
labels and taints, so it has no part in whether a wish could ever be fulfilled: such a job waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from sortedcontainers import SortedDict

from steepest.events.common import KeeperFacts, NodeRule, Resources, Taint
from steepest.policies.pending import Pending
from steepest.policies.placement.by_rule import ByRule
from steepest.policies.placement.gangs import GangPlaces, choose, fewest
from steepest.policies.placement.slots import Slots
from steepest.policies.queueing.order import QueueOrder
from steepest.policies.queueing.wish import Wish
from steepest.view.cluster_view import ClusterView
from steepest.view.places.node_rules import is_allowed
from steepest.view.state import Node

MORE_THAN_WAIT = 2
"""Counted gangs that are remembered, for each that waits; beyond that, those that left are forgotten."""

FEW = 1_000

RULES_KEPT = 32
"""Rules of jobs for which what is free is kept up to date; each costs a look at every node that changes."""


class Seen(msgspec.Struct, frozen=True):
    """A node as it was looked at last; ``free`` is None where no job may come."""

    capacity: Resources
    takes_jobs: bool
    free: Resources | None
    labels: Mapping[str, str] | None
    taints: tuple[Taint, ...]
    keeper: KeeperFacts | None

    @property
    def slots(self) -> Resources | None:
        """What is free for every job; None where not every one may come."""
        return None if self.taints else self.free

    def is_same(self, other: Seen) -> bool:
        """Whether the same jobs may use it, were it empty."""
        return msgspec.structs.replace(self, free=other.free) == other


class Room:
    """The wishes of one view, looked at with the plans of one decider under way.

    Attributes:
        slots: What is free on the nodes without taints, and how many replicas fit there.
    """

    def __init__(self, view: ClusterView, pending: Pending, order: QueueOrder) -> None:
        self._view = view
        self._pending = pending
        self._order = order
        self._open: dict[Wish, None] = {}
        self._full: dict[Wish, None] = {}
        self._counted: dict[Wish, int] = {}
        self._waiting: dict[Resources, SortedDict[int, dict[Wish, None]]] = {}
        self._risen: dict[Resources, None] = {}
        self._seen: dict[str, Seen] = {}
        self._returned: dict[str, None] = {}
        self._nodes = self._wishes = 0
        self.slots = Slots({})
        self._by_rule: ByRule[Slots] = ByRule(RULES_KEPT)
        self._capacities = Slots({})
        self._look_at_all()

    def open(self) -> Iterator[Wish]:
        """The wishes that may have room; of some of them, the jobs may be gone."""
        self.look()
        for wish in list(self._open):
            if self._order.head(wish) is None:
                del self._open[wish]
            elif self.may_have(wish) or not self.could_ever(wish):
                yield wish
            else:
                del self._open[wish]  # its slots will say when it has room
        risen, self._risen = self._risen, {}
        for requests in risen:
            yield from (wish for wish in self._have_slots(requests) if wish not in self._open)

    def may_have(self, wish: Wish) -> bool:
        """Whether nodes are worth searching."""
        count = self._counted.get(wish)
        return wish not in self._full if count is None else count <= self.slots.of(wish.requests)

    def is_short(self, wish: Wish) -> bool:
        """Whether a counted gang has too few slots now, and would have enough if all nodes were empty."""
        count = self._counted.get(wish)
        return count is not None and self.slots.of(wish.requests) < count <= self._capacities.of(wish.requests)

    def found_none(self, wish: Wish) -> None:
        """There is no room for a wish now."""
        if self.could_ever(wish) and wish not in self._counted:
            self._open.pop(wish, None)
            self._full[wish] = None

    def close(self, wish: Wish) -> None:
        """A wish may not have what room there is, before :meth:`reopen` or another job with this wish opens it again."""
        self._open.pop(wish, None)

    def reopen(self, wishes: Iterable[Wish]) -> None:
        """These wishes may have what room there is."""
        for wish in wishes:
            if wish not in self._full:
                self._open[wish] = None
                self._count(wish)

    def was_taken(self, nodes: Iterable[Node]) -> None:
        """A plan was made that takes of these nodes."""
        for node in nodes:
            seen = self._seen[node.name] = self._look_at(node)
            self._put(node.name, node, seen)

    def free_for(self, rule: NodeRule | None) -> Mapping[str, Resources]:
        """What is free on the nodes where a job with a rule may run."""
        return self._slots_by(rule).free

    def slots_for(self, wish: Wish) -> Slots:
        """The free resources of the nodes that a wish may use. Work: O(1), or O(nodes) where its rule is not kept."""
        return self._slots_by(wish.rule)

    def _slots_by(self, rule: NodeRule | None) -> Slots:
        return self.slots if rule is None else self._by_rule.of(rule, self._slots_where)

    def _slots_where(self, rule: NodeRule) -> Slots:
        nodes = self._view.nodes
        free = {name: seen.free for name, seen in self._seen.items() if seen.free is not None}
        return Slots({name: amount for name, amount in free.items() if is_allowed(rule, nodes[name])})

    def may_be_back(self, nodes: Iterable[str]) -> None:
        """A plan that took of these nodes is no longer under way."""
        self._returned.update(dict.fromkeys(nodes))

    def could_ever(self, wish: Wish) -> bool:
        """Whether the nodes could fulfil a wish, were they empty and there, and had they other labels and taints."""
        if not wish.roles:
            return could_ever(self._view, wish)
        if wish in self._counted:
            return self._counted[wish] <= self._capacities.of(wish.requests)
        if any(
            self._capacities.of(role.requests) < count
            for role, count in zip(wish.roles, fewest(wish.roles), strict=True)
        ):
            return False
        return best_case(self._view, wish) is not None

    def look(self) -> None:
        """Take in what has changed since the last look."""
        self._order.look()
        nodes, wishes = self._view.nodes.changes, self._order.news
        changed, added = nodes.since(self._nodes), wishes.since(self._wishes)
        if changed is None or added is None or len(self._counted) > MORE_THAN_WAIT * len(self._order) + FEW:
            self._look_at_all()
            return
        self._nodes, self._wishes = nodes.now, wishes.now
        self.reopen(added)
        if changed or self._returned:
            for name in dict.fromkeys((*changed, *self._returned)):
                self._look_again(name)
            self._returned.clear()

    def _look_at_all(self) -> None:
        nodes = self._view.nodes
        self._nodes, self._wishes = nodes.changes.now, self._order.news.now
        self._open, self._full, self._returned, self._risen = {}, {}, {}, {}
        self._counted, self._waiting = {}, {}
        self._seen = {node.name: self._look_at(node) for node in nodes}
        self.slots = Slots({name: seen.slots for name, seen in self._seen.items() if seen.slots is not None})
        self._by_rule = ByRule(RULES_KEPT)
        self._capacities = Slots({name: seen.capacity for name, seen in self._seen.items() if seen.takes_jobs})
        self.reopen(self._order.wishes())

    def _look_again(self, name: str) -> None:
        node, before = self._view.nodes.get(name), self._seen.pop(name, None)
        now = None if node is None else self._look_at(node)
        if now is not None:
            self._seen[name] = now
        self._risen.update(dict.fromkeys(self._put(name, node, now)))
        self._capacities.put(name, now.capacity if now and now.takes_jobs else None)
        if before is not None and (now is None or not now.is_same(before)):
            self._reopen(list(self._full))
            self.reopen(self._counted)
        elif now is not None and now.free is not None and not (before and before.free and now.free.fits(before.free)):
            free, there = now.free, self._view.nodes[name]
            self._reopen([wish for wish in self._full if _may_fit(wish, free, there)])

    def _put(self, name: str, node: Node | None, seen: Seen | None) -> Iterable[Resources]:
        """Note what is free on a node; gives the requests of which more replicas fit now on nodes without taints."""
        for rule, slots in self._by_rule.items():
            slots.put(name, seen.free if seen is not None and node is not None and is_allowed(rule, node) else None)
        return self.slots.put(name, None if seen is None else seen.slots)

    def _reopen(self, wishes: Iterable[Wish]) -> None:
        for wish in wishes:
            del self._full[wish]
            self._open[wish] = None

    def _count(self, wish: Wish) -> None:
        """Remember how many slots a gang needs that has one role and may use every node without taints."""
        is_plain = len(wish.roles) == 1 and wish.first_node is None and wish.rule is None
        if is_plain and wish not in self._counted:
            (count,) = fewest(wish.roles)
            self._counted[wish] = count
            self._waiting.setdefault(wish.requests, SortedDict()).setdefault(count, {})[wish] = None

    def _have_slots(self, requests: Resources) -> Iterator[Wish]:
        waiting = self._waiting.get(requests)
        if waiting is not None:
            for count in waiting.irange(maximum=self.slots.of(requests)):
                yield from waiting[count]

    def _look_at(self, node: Node) -> Seen:
        free = self._pending.free(node) if node.is_open else None
        return Seen(node.capacity, node.takes_jobs, free, node.labels, node.taints, node.keeper)


def _may_fit(wish: Wish, free: Resources, node: Node) -> bool:
    if not is_allowed(wish.rule, node):
        return False
    return bool(wish.roles) or (wish.requests.fits(free) and wish.first_node in {None, node.name})


def has_room(wish: Wish, slots: Slots) -> bool:
    """Whether the placer finds a place for it there, as it is."""
    if wish.roles:
        return choose(wish.roles, slots, first_node=wish.first_node) is not None
    if wish.first_node is not None:
        return wish.first_node in slots.free and wish.requests.fits(slots.free[wish.first_node])
    return slots.of(wish.requests) > 0


def would_have_room(view: ClusterView, wish: Wish) -> bool:
    """Whether there is room for a wish on the nodes that it may use now, were they empty. Work: O(nodes)."""
    nodes = [node for node in view.nodes if node.is_open and is_allowed(wish.rule, node)]
    return has_room(wish, Slots({node.name: node.capacity for node in nodes}))


def could_ever(view: ClusterView, wish: Wish) -> bool:
    """Whether some node could take a job of one replica, were it empty and there."""
    if wish.first_node is None:
        return any(node.takes_jobs and wish.requests.fits(node.capacity) for node in view.nodes)
    node = view.nodes.get(wish.first_node)
    return node is not None and node.takes_jobs and wish.requests.fits(node.capacity)


def best_case(view: ClusterView, wish: Wish) -> GangPlaces | None:
    """Where a gang would be, were all nodes empty and there."""
    capacities = {node.name: node.capacity for node in view.nodes if node.takes_jobs}
    return choose(wish.roles, Slots(capacities), first_node=wish.first_node)
