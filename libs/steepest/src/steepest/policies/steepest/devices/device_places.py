"""Where gangs have room on the nodes of a pool, and which running ones give way for that.

It owns one decision's picture of what is free. A gang that waits gets what is free; else those give way that come last in
the order, as few as make room, and none that is more urgent. What a running gang keeps is kept whole, where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from steepest.events.common import NodeRule, Resources
from steepest.events.requests import Role
from steepest.policies.pending import Pending
from steepest.policies.placement.gangs import GangPlaces, Sizes, choose
from steepest.policies.placement.preemption import Leaving, fewest_gone, least_needed, places_without
from steepest.policies.placement.slots import Slots
from steepest.policies.queueing.wish import Wish, wish_of
from steepest.policies.steepest.devices.gang_order import WholeGang
from steepest.view.cluster_view import ClusterView
from steepest.view.places.node_rules import is_allowed
from steepest.view.places.queue_limits import excess
from steepest.view.state import Job, Node


class GivesWay(Leaving, frozen=True, kw_only=True):
    """A running gang that may be stopped, and what it leaves."""

    index: int
    priority: int


class DevicePlaces:
    """The room of one decision.

    Attributes:
        starts: The gangs that start, with their places, and those that give way to each.
        stopped: The gangs that give way.
    """

    def __init__(
        self,
        view: ClusterView,
        pending: Pending,
        nodes: Mapping[str, Node],
        gangs: Sequence[WholeGang],
        last_first: Sequence[int],
    ) -> None:
        """Begin with what is free.

        Args:
            view: The pool's.
            pending: Plans that are not read back.
            nodes: Those with the devices.
            gangs: All that wait or run.
            last_first: The running gangs that may be stopped, those first that come last in the order.
        """
        self.starts: dict[int, tuple[GangPlaces, tuple[int, ...]]] = {}
        self.stopped: dict[int, None] = {}
        self._view, self._pending, self._nodes, self._gangs = view, pending, nodes, gangs
        self._free = {name: pending.free(node) for name, node in nodes.items()}
        self._slots: dict[NodeRule | None, Slots] = {}
        self._may_stop = {index: self._gives_way(index) for index in last_first}
        self._hopeless: dict[tuple[Wish, int], None] = {}
        self._devices_free = sum(one.all_gpus_m for one in self._free.values())

    def take(self, index: int) -> bool:
        """Give a gang its devices; False: it has no room, or has given way."""
        gang = self._gangs[index]
        if gang.runs:
            return self._may_stop.pop(index, None) is not None
        job = self._view.jobs[gang.name]
        wish = msgspec.structs.replace(wish_of(job), roles=tuple(map(_whole, job.spec.all_roles)))
        key = (wish, gang.priority)
        if key in self._hopeless or self._limited(job, job.spec.smallest):
            return False
        found = None if self._limited(job, wish.sizes) else self._find(wish, gang.priority)
        found = found or self._smaller(job, wish)
        if found is None:
            self._hopeless[key] = None
            return False
        self.starts[index] = found
        places, victims = found
        for victim in victims:
            self.stopped[victim] = None
            for node, amount in self._may_stop.pop(victim).leaves.items():
                self._change(node, amount)
        for node, amount in places.amounts(wish.roles).items():
            self._change(node, Resources() - amount)
        return True

    def _smaller(self, job: Job, wish: Wish) -> tuple[GangPlaces, tuple[int, ...]] | None:
        """Where a gang has room with fewer replicas than it names, if it may have fewer; no gang gives way for that."""
        roles = job.spec.all_roles
        if job.spec.smallest == wish.sizes:
            return None
        places = choose(
            roles,
            self._slots_by(wish.rule),
            first_node=wish.first_node,
            allows=lambda sizes: not self._limited(job, sizes),
        )
        return None if places is None else (places, ())

    def _gives_way(self, index: int) -> GivesWay:
        job = self._view.jobs[self._gangs[index].name]
        leaves = {node: self._view.nodes.held(job, node) for node in job.holds if node in self._free}
        return GivesWay(index=index, priority=job.spec.priority, leaves=leaves)

    def _find(self, wish: Wish, priority: int) -> tuple[GangPlaces, tuple[int, ...]] | None:
        free = self._slots_by(wish.rule)
        places = choose(wish.roles, free, first_node=wish.first_node)
        if places is not None:
            return places, ()
        candidates = [one for one in self._may_stop.values() if one.priority <= priority]
        count = fewest_gone(wish, free.free, candidates)
        places = None if count is None else places_without(wish, free.free, candidates[:count])
        if count is None or places is None:
            return None
        needed = least_needed(places.amounts(wish.roles), free.free, candidates[:count])
        return None if needed is None else (places, tuple(one.index for one in needed))

    def _limited(self, job: Job, sizes: Sizes) -> bool:
        return excess(self._view, job, sizes, partial(self._pending.coming, self._view)) is not None

    def _slots_by(self, rule: NodeRule | None) -> Slots:
        slots = self._slots.get(rule)
        if slots is None:
            free = {name: free for name, free in self._free.items() if is_allowed(rule, self._nodes[name])}
            slots = self._slots[rule] = Slots(free)
        return slots

    def _change(self, node: str, amount: Resources) -> None:
        free = self._free[node] = self._free[node] + amount
        for slots in self._slots.values():
            if node in slots.free:
                slots.put(node, free)


def _whole(role: Role) -> Role:
    """A role with as many replicas as it names, and no fewer."""
    return msgspec.structs.replace(role, min=None, max=None, sizes=())
