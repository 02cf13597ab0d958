"""Which nodes the replicas of a gang get: all of them at the same time, or none.

The rule, after DRAGON (``scheduling.go`` of NTHU-LSALAB/DRAGON: one node that holds all; else node after node, beginning
with the one that holds most):

1. **One node** that has room for all replicas: of those that have it, the emptiest one.
2. Else the **fewest nodes**: those with room for most replicas of the gang first, between equals the emptiest; each is
   filled with as many as it holds, roles in their order. With several roles this is a greedy packing, which may find no
   room where an exhaustive search would. The emptiest node is the one with most GPUs free, then most CPU, then by name.
3. A role gets all ``replicas`` that it names. Where these have no room and the role is elastic (``min`` below
   ``replicas``), it gets the largest allowed number that has; of several elastic roles, the first named ones come first.

A gang whose user names a first node has its first replica there, and the others next to it if possible.

It owns this rule. It must never know plans, queues or the view.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from steepest.events.common import Resources
from steepest.events.requests import Role
from steepest.policies.placement.slots import Slots, fitting

Sizes = tuple[int, ...]
"""How many replicas of each role."""


class GangPlaces(NamedTuple):
    """The node of each replica, and how many replicas of each role these are."""

    nodes: tuple[str, ...]
    sizes: Sizes

    def amounts(self, roles: Sequence[Role]) -> dict[str, Resources]:
        """What the replicas ask for on each node."""
        amounts: dict[str, Resources] = {}
        requests = (role.requests for role, size in zip(roles, self.sizes, strict=True) for _ in range(size))
        for node, amount in zip(self.nodes, requests, strict=True):
            amounts[node] = amounts.get(node, Resources()) + amount
        return amounts


def choose(
    roles: Sequence[Role],
    slots: Slots,
    *,
    first_node: str | None = None,
    allows: Callable[[Sizes], bool] = lambda _: True,
) -> GangPlaces | None:
    """The nodes of a gang; None where it has no room now.

    Args:
        roles: Its roles.
        slots: The free resources of each node that replicas may use.
        first_node: Where its first replica must be.
        allows: Whether its queue lets it have that many replicas.

    Work: of one role, O(n log n) for n nodes that hold any of its replicas; of several, O(nodes · log nodes · roles) for
    each size that is tried, which are O(log sizes) for each elastic role.
    """
    if len(roles) == 1:
        return _choose_alike(roles[0], slots, first_node, allows)

    def place(sizes: Sizes) -> tuple[str, ...] | None:
        return _place(roles, sizes, slots.free, first_node) if allows(sizes) else None

    wanted = tuple(role.replicas for role in roles)
    nodes = place(wanted)
    if nodes is not None:
        return GangPlaces(nodes, wanted)
    sizes = fewest(roles)
    if sizes == wanted:
        return None
    nodes = place(sizes)
    if nodes is None:
        return None
    for index, role in enumerate(roles):
        allowed = allowed_sizes(role)
        low, high = 0, len(allowed) - 1  # allowed[low] has room
        while low < high:
            middle = (low + high + 1) // 2
            larger = (*sizes[:index], allowed[middle], *sizes[index + 1 :])
            found = place(larger)
            if found is None:
                high = middle - 1
            else:
                low, nodes = middle, found
        sizes = (*sizes[:index], allowed[low], *sizes[index + 1 :])
    return GangPlaces(nodes, sizes)


def _choose_alike(
    role: Role, slots: Slots, first_node: str | None, allows: Callable[[Sizes], bool]
) -> GangPlaces | None:
    """The nodes of replicas that all ask for the same, of which a count says how many have room."""
    holds = slots.holds(role.requests)
    if first_node is not None and first_node not in holds:
        return None
    sizes, there = allowed_sizes(role), slots.of(role.requests)
    possible = bisect_left(sizes, 1, key=lambda size: int(size > there or not allows((size,))))
    if not possible:
        return None
    size = sizes[possible - 1]
    whole = [name for name in ([first_node] if first_node else holds) if holds[name] >= size]
    if whole:
        return GangPlaces((min(whole, key=lambda name: emptiness(name, slots.free[name])),) * size, (size,))
    order = sorted(holds, key=lambda name: (name != first_node, -holds[name], *emptiness(name, slots.free[name])))
    nodes: list[str] = []
    for name in order:
        nodes += [name] * min(holds[name], size - len(nodes))
        if len(nodes) == size:
            break
    return GangPlaces(tuple(nodes), (size,))


def allowed_sizes(role: Role) -> Sequence[int]:
    """The numbers of replicas that a role may be started with, rising: none is above ``replicas``."""
    if role.sizes:
        return sorted(size for size in dict.fromkeys(role.sizes) if role.fewest <= size <= role.replicas)
    return range(role.fewest, role.replicas + 1)


def fewest(roles: Sequence[Role]) -> Sizes:
    """The least numbers of replicas that a gang may be started with."""
    return tuple(allowed_sizes(role)[0] for role in roles)


def asked(roles: Sequence[Role], sizes: Sizes) -> Resources:
    """What a gang of these sizes asks for."""
    return sum((role.requests.times(size) for role, size in zip(roles, sizes, strict=True)), Resources())


def within(roles: Sequence[Role], sizes: Sizes, allows: Callable[[Sizes], bool]) -> Sizes | None:
    """The largest sizes up to these that the roles and the queue allow; the last named elastic role is reduced first."""
    found = [max(size for size in allowed_sizes(role) if size <= most) for role, most in zip(roles, sizes, strict=True)]
    for index in reversed(range(len(roles))):
        if allows(tuple(found)):
            break
        smaller = [size for size in allowed_sizes(roles[index]) if size < found[index]]
        before, after = found[:index], found[index + 1 :]
        possible = bisect_left(smaller, 1, key=lambda size: int(not allows((*before, size, *after))))
        found[index] = smaller[max(possible - 1, 0)] if smaller else found[index]
    return tuple(found) if allows(tuple(found)) else None


def _place(
    roles: Sequence[Role], sizes: Sizes, free: Mapping[str, Resources], first_node: str | None
) -> tuple[str, ...] | None:
    total = asked(roles, sizes)
    if first_node is None:
        whole = [name for name, room in free.items() if total.fits(room)]
    else:
        whole = [first_node] if first_node in free and total.fits(free[first_node]) else []
    if whole:
        return (min(whole, key=lambda name: emptiness(name, free[name])),) * sum(sizes)
    return _spread_over(roles, sizes, free, first_node)


def _spread_over(
    roles: Sequence[Role], sizes: Sizes, free: Mapping[str, Resources], first_node: str | None
) -> tuple[str, ...] | None:
    holds = {name: sum(_filled(roles, sizes, room)) for name, room in free.items()}
    order = sorted(
        (name for name in holds if holds[name]), key=lambda name: (-holds[name], *emptiness(name, free[name]))
    )
    if first_node is not None:
        if first_node not in free or not fitting(roles[0].requests, free[first_node]):
            return None
        order = [first_node, *(name for name in order if name != first_node)]
    left = list(sizes)
    placed: list[list[str]] = [[] for _ in roles]
    for name in order:
        for index, count in enumerate(_filled(roles, left, free[name])):
            placed[index] += [name] * count
            left[index] -= count
        if not any(left):
            return tuple(name for names in placed for name in names)
    return None


def _filled(roles: Sequence[Role], left: Sequence[int], free: Resources) -> Sequence[int]:
    """How many replicas of each role one node holds, roles in their order."""
    counts = []
    for role, size in zip(roles, left, strict=True):
        count = min(fitting(role.requests, free), size)
        counts.append(count)
        if count and len(roles) > 1:
            free -= role.requests.times(count)
    return counts


def emptiness(name: str, free: Resources) -> tuple[int, int, str]:
    """The key by which the emptiest node is first: most GPUs free, then most CPU, then by name."""
    return (-free.all_gpus_m, -free.cpu_m, name)
