"""Which wishes surely have no room, so that nodes are searched for the others only.

It owns this memory and when it is outdated. It must never know who decides, nor which node is best.

Theory. A wish that found no node *has no room*. That stays so until something became free, on a node that joined, came
back, or on which a place was given back; then the wishes that fit what is free on that node are *open* again. A wish that
no node could fulfil, were it empty, stays open, because sooner or later its jobs are rejected; where a node becomes smaller
or goes, all are open, because that may have become so. All of this follows from the view and from the plans under way, so
nothing of it is kept in a snapshot: a memory that begins empty searches more, with the same result.

A gang needs room for several replicas, on any nodes. Each of its roles is *short* as long as all nodes together have fewer
slots for its requests than the fewest replicas that it can start with; the slots are counted as nodes change, so a short
gang costs nothing until its slots are there. A gang that is short of nothing and still found no room (one of several roles,
or one with a first node) is open again as soon as anything becomes free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from sortedcontainers import SortedDict

from steepest.events.common import Resources
from steepest.policies.pending import Pending
from steepest.policies.placement.gangs import GangPlaces, choose, fewest
from steepest.policies.placement.slots import Slots
from steepest.policies.queueing.order import QueueOrder
from steepest.policies.queueing.wish import Wish
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Node


class Seen(msgspec.Struct, frozen=True):
    """A node as it was looked at last; ``free`` is None where no job may come."""

    capacity: Resources
    takes_jobs: bool
    free: Resources | None


class Short(NamedTuple):
    """What a gang is short of: as many slots for replicas with these requests."""

    requests: Resources
    slots: int


class Room:
    """The wishes of one view, looked at with the plans of one decider under way.

    Attributes:
        slots: What is free on the nodes, and how many replicas fit there.
    """

    def __init__(self, view: ClusterView, pending: Pending, order: QueueOrder) -> None:
        self._view = view
        self._pending = pending
        self._order = order
        self._open: dict[Wish, None] = {}
        self._full: dict[Wish, None] = {}
        self._gangs: dict[Wish, Short | None] = {}
        self._short: dict[Resources, SortedDict[int, dict[Wish, None]]] = {}
        self._seen: dict[str, Seen] = {}
        self._returned: dict[str, None] = {}
        self._nodes = self._wishes = 0
        self.slots = Slots({})
        self._capacities = Slots({})
        self._look_at_all()

    def is_of(self, view: ClusterView, pending: Pending) -> bool:
        """Whether this is what it remembers of."""
        return self._view is view and self._pending is pending

    def open(self) -> Iterator[Wish]:
        """The wishes that jobs have which may be placed now, and that may have room."""
        self.look()
        for wish in list(self._open):
            if next(self._order.asking_for(wish), None) is None:
                del self._open[wish]
            else:
                yield wish

    def may_have(self, wish: Wish) -> bool:
        """Whether nodes are worth searching."""
        self.look()
        return wish not in self._full and wish not in self._gangs and self._is_short_of(wish) is None

    def found_none(self, wish: Wish) -> None:
        """There is no room for a wish now."""
        if wish in self._gangs or not self.could_ever(wish):
            return
        self._open.pop(wish, None)
        if not wish.roles:
            self._full[wish] = None
            return
        short = self._gangs[wish] = self._is_short_of(wish)
        if short is not None:
            self._short.setdefault(short.requests, SortedDict()).setdefault(short.slots, {})[wish] = None

    def close(self, wish: Wish) -> None:
        """A wish may not have what room there is, before :meth:`reopen` or another job with this wish opens it again."""
        self._open.pop(wish, None)

    def reopen(self, wishes: Iterable[Wish]) -> None:
        """These wishes may have what room there is."""
        self._open.update((wish, None) for wish in wishes if wish not in self._full and wish not in self._gangs)

    def was_taken(self, nodes: Iterable[Node]) -> None:
        """A plan was made that takes of these nodes."""
        for node in nodes:
            seen = self._seen[node.name] = self._look_at(node)
            self.slots.put(node.name, seen.free)

    def may_be_back(self, nodes: Iterable[str]) -> None:
        """A plan that took of these nodes is no longer under way."""
        self._returned.update(dict.fromkeys(nodes))

    def could_ever(self, wish: Wish) -> bool:
        """Whether the nodes could fulfil a wish, were they empty and there."""
        if not wish.roles:
            return could_ever(self._view, wish)
        if any(
            self._capacities.of(role.requests) < count
            for role, count in zip(wish.roles, fewest(wish.roles), strict=True)
        ):
            return False
        return (len(wish.roles) == 1 and wish.first_node is None) or best_case(self._view, wish) is not None

    def look(self) -> None:
        """Take in what has changed since the last look."""
        self._order.look()
        nodes, wishes = self._view.nodes.changes, self._order.news
        changed, added = nodes.since(self._nodes), wishes.since(self._wishes)
        if changed is None or added is None:
            self._look_at_all()
            return
        self._nodes, self._wishes = nodes.now, wishes.now
        self.reopen(added)
        for name in dict.fromkeys((*changed, *self._returned)):
            self._look_again(name)
        self._returned.clear()

    def _look_at_all(self) -> None:
        nodes = self._view.nodes
        self._nodes, self._wishes = nodes.changes.now, self._order.news.now
        self._open, self._full, self._returned = dict.fromkeys(self._order.wishes()), {}, {}
        self._gangs, self._short = {}, {}
        self._seen = {node.name: self._look_at(node) for node in nodes}
        self.slots = Slots({name: seen.free for name, seen in self._seen.items() if seen.free is not None})
        self._capacities = Slots({name: seen.capacity for name, seen in self._seen.items() if seen.takes_jobs})

    def _look_again(self, name: str) -> None:
        node, before = self._view.nodes.get(name), self._seen.pop(name, None)
        now = None if node is None else self._look_at(node)
        if now is not None:
            self._seen[name] = now
        more = self.slots.put(name, now.free if now else None)
        self._capacities.put(name, now.capacity if now and now.takes_jobs else None)
        if before is not None and (
            now is None or (now.capacity, now.takes_jobs) != (before.capacity, before.takes_jobs)
        ):
            self._reopen([*self._full, *self._gangs])
        elif now is not None and now.free is not None and not (before and before.free and now.free.fits(before.free)):
            free = now.free
            self._reopen([wish for wish in self._full if wish.requests.fits(free) and wish.first_node in {None, name}])
            self._reopen([wish for wish, short in self._gangs.items() if short is None])
            self._reopen([wish for requests in more for wish in self._no_longer_short(requests)])

    def _is_short_of(self, wish: Wish) -> Short | None:
        """The first of a gang's roles that all free slots together are too few for."""
        for role, count in zip(wish.roles, fewest(wish.roles) if wish.roles else (), strict=True):
            if self.slots.of(role.requests) < count:
                return Short(role.requests, count)
        return None

    def _no_longer_short(self, requests: Resources) -> Iterator[Wish]:
        waiting = self._short.get(requests)
        if waiting is not None:
            for count in waiting.irange(maximum=self.slots.of(requests)):
                yield from waiting[count]

    def _reopen(self, wishes: Sequence[Wish]) -> None:
        for wish in wishes:
            if wish.roles:
                self._forget(wish, self._gangs.pop(wish))
            else:
                del self._full[wish]
            self._open[wish] = None

    def _forget(self, wish: Wish, short: Short | None) -> None:
        """A gang is no longer known to be short of something."""
        if short is None:
            return
        waiting = self._short[short.requests]
        del waiting[short.slots][wish]
        if not waiting[short.slots]:
            del waiting[short.slots]
        if not waiting:
            del self._short[short.requests]
            self.slots.forget(short.requests)

    def _look_at(self, node: Node) -> Seen:
        return Seen(node.capacity, node.takes_jobs, self._pending.free(node) if node.is_open else None)


def could_ever(view: ClusterView, wish: Wish) -> bool:
    """Whether some node could take a job of one replica, were it empty and there."""
    if wish.first_node is None:
        return any(node.takes_jobs and wish.requests.fits(node.capacity) for node in view.nodes)
    node = view.nodes.get(wish.first_node)
    return node is not None and node.takes_jobs and wish.requests.fits(node.capacity)


def best_case(view: ClusterView, wish: Wish) -> GangPlaces | None:
    """Where a gang would be, were all nodes empty and there."""
    capacities = {node.name: node.capacity for node in view.nodes if node.takes_jobs}
    return choose(wish.roles, capacities, first_node=wish.first_node)
