"""Where gangs have room on the nodes of a pool, and which running ones give way for that.

It owns one decision's picture of what is free. A gang that waits gets what is free; else gangs give back the replicas by
which they have grown, and then those give way that come last in the order, as few as make room, and none that is more
urgent. What a running gang keeps is kept where it is. What is free at the end is for gangs that may grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from steepest.events.common import NodeRule, Resources
from steepest.events.dragon_parameters import Growth
from steepest.events.requests import Role
from steepest.policies.dragon.scaling import Shape
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
    """A running gang that may be stopped, and what it leaves; ``stays``: it only gives back what it has grown by.

    Attributes:
        stays: What runs on.
    """

    index: int
    priority: int
    stays: Shape | None = None


Found = tuple[GangPlaces, tuple[GivesWay, ...]]
"""Where a gang starts, and who gives way for that."""


class DevicePlaces:
    """The room of one decision.

    Attributes:
        starts: The gangs that start, with their places, and those that give way to each.
        stopped: The gangs that are stopped.
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
        self.starts: dict[int, Found] = {}
        self.stopped: dict[int, None] = {}
        self._view, self._pending, self._nodes, self._gangs = view, pending, nodes, gangs
        self._free = {name: pending.free(node) for name, node in nodes.items()}
        self._slots: dict[NodeRule | None, Slots] = {}
        self._may_shrink = {index: one for index in last_first if (one := self._gives_back(index)) is not None}
        self._may_stop = {index: self._gives_way(index) for index in last_first}
        self._hopeless: dict[tuple[Wish, int], None] = {}

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
            self._leave(victim)
        for node, amount in places.amounts(wish.roles).items():
            self._change(node, Resources() - amount)
        return True

    def grow(self, job: Job) -> Shape | None:
        """A running gang with as many more replicas as it may have and there is room for; None: with none."""
        roles = job.spec.all_roles
        may_grow = any(size < role.most for size, role in zip(job.running_sizes, roles, strict=False))
        if not may_grow or len(job.running_on) < len(job.replicas):
            return None
        shape, grown = Shape.of(job), None
        free = {name: free for name, free in self._free.items() if is_allowed(job.node_rule, self._nodes[name])}
        for _ in shape.grow(Growth.ANYWHERE, free, list(free), free):
            if self._limited(job, shape.sizes):
                break
            grown = shape.copy()
        return grown

    def keep(self, job: Job, grown: Shape) -> None:
        """Give a running gang what it grows by."""
        held = Shape.of(job).places.amounts(job.spec.all_roles)
        for node, amount in grown.places.amounts(job.spec.all_roles).items():
            self._change(node, held.get(node, Resources()) - amount)

    def _leave(self, victim: GivesWay) -> None:
        """A gang gives way: it is stopped, or gives back what it has grown by, and is left alone then."""
        leaves = [victim]
        if victim.stays is None:
            leaves += [self._may_shrink[victim.index]] if victim.index in self._may_shrink else []
            self.stopped[victim.index] = None
        self._may_stop.pop(victim.index, None)
        self._may_shrink.pop(victim.index, None)
        for one in leaves:
            for node, amount in one.leaves.items():
                self._change(node, amount)

    def _smaller(self, job: Job, wish: Wish) -> Found | None:
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
        job, back = self._view.jobs[self._gangs[index].name], self._may_shrink.get(index)
        leaves = {node: self._view.nodes.held(job, node) for node in job.holds if node in self._free}
        for node, amount in () if back is None else back.leaves.items():
            leaves[node] -= amount
        return GivesWay(index=index, priority=job.spec.priority, leaves=leaves)

    def _gives_back(self, index: int) -> GivesWay | None:
        """What a gang has grown by, beyond the replicas that its roles name."""
        job = self._view.jobs[self._gangs[index].name]
        named = job.spec.counts()
        if all(size <= most for size, most in zip(job.running_sizes, named, strict=False)):
            return None
        shape, leaves = Shape.of(job), dict[str, Resources]()
        for freed in shape.shrink():
            for node, amount in freed:
                leaves[node] = leaves.get(node, Resources()) + amount
            if all(size <= most for size, most in zip(shape.sizes, named, strict=True)):
                break
        if (
            any(size < most for size, most in zip(shape.sizes, named, strict=True))
            or not leaves.keys() <= self._free.keys()
        ):
            return None
        return GivesWay(index=index, priority=job.spec.priority, leaves=leaves, stays=shape)

    def _find(self, wish: Wish, priority: int) -> Found | None:
        free = self._slots_by(wish.rule)
        places = choose(wish.roles, free, first_node=wish.first_node)
        if places is not None:
            return places, ()
        stops = [one for one in self._may_stop.values() if one.priority <= priority]
        for candidates in ([*self._may_shrink.values()], [*self._may_shrink.values(), *stops]):
            count = fewest_gone(wish, free.free, candidates)
            places = None if count is None else places_without(wish, free.free, candidates[:count])
            if count is None or places is None:
                continue
            needed = least_needed(places.amounts(wish.roles), free.free, candidates[:count])
            if needed is not None:
                stopped = {one.index for one in needed if one.stays is None}
                return places, tuple(one for one in needed if one.stays is None or one.index not in stopped)
        return None

    def _limited(self, job: Job, sizes: Sizes) -> bool:
        return excess(self._view, job, sizes, self._pending.coming) is not None

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
