"""On which nodes DRAGON puts the replicas of a gang, and how many it starts with.

The rule (``Place`` of ``pkg/controller.v1/DRAGON/scheduling/scheduling.go``, NTHU-LSALAB/DRAGON):

1. **One node** that holds all parameter servers and all workers that the job names: the first by name, or the emptiest.
2. Else **node after node**, beginning with the one that holds most of them; on each the parameter servers first, then as
   many workers as fit. The next nodes come by name, or those first that hold most.
3. All servers and at least ``min`` workers must have found a place; where fewer workers than named did, the gang starts
   with the largest number that its role allows.

The paper's era tries the named number on one node and on several, then the least number likewise, and nothing between.

It owns this rule. It must never know plans, queues or the view.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from steepest.events.common import Resources
from steepest.events.dragon_parameters import DragonGeneration, DragonParameters
from steepest.events.requests import Role
from steepest.policies.placement.gangs import GangPlaces, Sizes, asked, choose, emptiness, fewest, within
from steepest.policies.placement.slots import Slots, fitting

Allows = Callable[[Sizes], bool]


def pack(
    roles: Sequence[Role],
    slots: Slots,
    rules: DragonParameters,
    *,
    first_node: str | None = None,
    allows: Allows = lambda _: True,
) -> GangPlaces | None:
    """The nodes of a gang; None where it has no room now.

    Args:
        roles: Its roles.
        slots: What is free on each node.
        rules: Which generation, and its switches.
        first_node: Where its first replica must be.
        allows: Whether its queue lets it have that many replicas.

    Work: O(roles) where all nodes together have too few slots; else O(n log n) for n nodes.
    """
    least = fewest(roles)
    if any(slots.of(role.requests) < count for role, count in zip(roles, least, strict=True)) or not allows(least):
        return None
    named = tuple(role.replicas for role in roles)
    if not rules.locality:
        return _spread(roles, slots.free, first_node, allows, least)
    for wanted in (named, least) if rules.generation is DragonGeneration.PAPER_ERA else (named,):
        if (node := _one_node(roles, wanted, slots, rules, first_node)) is not None and allows(wanted):
            return GangPlaces((node,) * sum(wanted), wanted)
        found = _node_after_node(roles, wanted, slots, rules, first_node)
        if rules.generation is DragonGeneration.PAPER_ERA and found is not None and found.sizes != wanted:
            found = None
        if found is not None and (found := _trimmed(roles, found, allows)) is not None:
            return found
    # A greedy packing of several roles may fail where the other one, by which a job is rejected, does not.
    return choose(roles, slots, first_node=first_node, allows=allows) if len(roles) > 1 or first_node else None


def _one_node(
    roles: Sequence[Role], sizes: Sizes, slots: Slots, rules: DragonParameters, first_node: str | None
) -> str | None:
    """The node that holds a whole gang of these sizes."""
    total = asked(roles, sizes)
    free, holds = slots.free, slots.holds(roles[0].requests)
    names = [name for name in holds if total.fits(free[name])]
    if first_node is not None:
        return first_node if first_node in names else None
    return min(names, key=lambda name: _first(name, free[name], rules), default=None)


def _node_after_node(
    roles: Sequence[Role], sizes: Sizes, slots: Slots, rules: DragonParameters, first_node: str | None
) -> GangPlaces | None:
    """As many replicas as fit, node after node; None where a role gets fewer than it needs."""
    free = slots.free
    order = sorted(range(len(roles)), key=lambda index: not roles[index].is_server)
    holds = {
        name: sum(min(slots.holds(role.requests).get(name, 0), size) for role, size in zip(roles, sizes, strict=True))
        for name in dict.fromkeys(name for role in roles for name in slots.holds(role.requests))
    }
    names = sorted(holds, key=lambda name: (-holds[name], _first(name, free[name], rules)))
    if rules.nodes_by_name and names:
        names = [names[0], *sorted(names[1:])]
    if first_node is not None:
        names = [first_node, *(name for name in names if name != first_node)] if first_node in holds else []
    left, placed = list(sizes), [[] for _ in roles]  # type: list[int], list[list[str]]
    for name in names:
        room = free[name]
        for index in order:
            if left[index] and (count := min(fitting(roles[index].requests, room), left[index])):
                room -= roles[index].requests.times(count)
                placed[index] += [name] * count
                left[index] -= count
        if not any(left):
            break
    if any(len(nodes) < least for nodes, least in zip(placed, fewest(roles), strict=True)):
        return None
    if first_node is not None and placed[0][0] != first_node:
        return None
    return GangPlaces(tuple(name for nodes in placed for name in nodes), tuple(map(len, placed)))


def _trimmed(roles: Sequence[Role], found: GangPlaces, allows: Allows) -> GangPlaces | None:
    """The places of the largest sizes that the roles and the queue allow."""
    sizes = within(roles, found.sizes, allows)
    if sizes is None:
        return None
    nodes: list[str] = []
    begin = 0
    for count, size in zip(found.sizes, sizes, strict=True):
        nodes += found.nodes[begin : begin + size]
        begin += count
    return GangPlaces(tuple(nodes), sizes)


def _spread(
    roles: Sequence[Role], free: Mapping[str, Resources], first_node: str | None, allows: Allows, least: Sizes
) -> GangPlaces | None:
    """Without locality: each replica on the emptiest node, as if it came alone, and at least ``least`` of them or none."""
    room = dict(free)
    emptiest = [(emptiness(name, amount), name) for name, amount in room.items()]
    heapq.heapify(emptiest)
    placed: list[list[str]] = []
    for index, role in enumerate(roles):
        mine: list[str] = []
        if first_node is not None and not index:
            if first_node not in room or not fitting(role.requests, room[first_node]):
                return None
            mine.append(first_node)
            room[first_node] -= role.requests
        full: list[str] = []
        while len(mine) < role.replicas and emptiest:
            seen, name = heapq.heappop(emptiest)
            now = emptiness(name, room[name])
            if seen == now and fitting(role.requests, room[name]):
                mine.append(name)
                room[name] -= role.requests
                now = emptiness(name, room[name])
            elif seen == now:
                full.append(name)
                continue
            heapq.heappush(emptiest, (now, name))
        for name in full:
            heapq.heappush(emptiest, (emptiness(name, room[name]), name))
        if len(mine) < least[index]:
            return None
        placed.append(mine)
    places = GangPlaces(tuple(name for nodes in placed for name in nodes), tuple(map(len, placed)))
    return _trimmed(roles, places, allows)


def _first(name: str, free: Resources, rules: DragonParameters) -> tuple[int, int, str]:
    return (0, 0, name) if rules.nodes_by_name else emptiness(name, free)
