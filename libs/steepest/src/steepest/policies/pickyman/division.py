"""Whom to preempt: an ordered division of the running jobs, found greedily (PickyMan; a reconstruction).

The paper's abstract: choosing the jobs to preempt is "finding an ordered division of the set of running jobs", solved by a
greedy algorithm. Here the waiting jobs are in order, w1, w2, …, and the running ones are divided into disjoint blocks P1,
P2, … and those that stay: block Pi gives its places to wi. With r, S and R for the predicted remaining time, suspension and
resumption, and T(w) for the time until running jobs have ended and left room for w,

    gain(w, P) = min(κ T(w), max r(v)) − max S(v) − Σ (r(w) + R(v))        maxima and sum over v in P

On the places of P, w would wait until the last of P has ended, and on those that become free anyway for some times T(w):
shorter jobs that come meanwhile are served before it. Now it waits until the last of P is suspended, and each of P waits
until w has ended, and starts once more. A division is worth the sum of its gains.

The greedy algorithm takes the waiting jobs in order. For each it collects running jobs from the front of four orders
(least cost for a unit of resource, longest remaining time, most resources, fewest), and again behind each of the longest
ones, until there is room; it drops those that are superfluous, the dearest first, and keeps the block with the largest
gain, if it is positive. Blocks on one node come before those on several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from steepest.events.common import Resources
from steepest.policies.placement.gangs import GangPlaces, asked
from steepest.policies.placement.preemption import Leaving, fewest_gone, least_needed, places_without
from steepest.policies.queueing.wish import Wish

SERVED_BEFORE = 16
"""κ. Chosen by simulation, on other workloads than those of the reports: 1 makes too few jobs give way where many wait."""


class EndingJob(Leaving, frozen=True, kw_only=True):
    """A job that runs, and leaves its places when it ends.

    Attributes:
        remaining_ms: Until it is trained.
    """

    remaining_ms: float


class Victim(EndingJob, frozen=True, kw_only=True):
    """A running job that may give way.

    Attributes:
        suspension_ms: Until it has saved and is stopped.
        resumption_ms: From its next start to its first step.
    """

    name: str
    suspension_ms: float
    resumption_ms: float

    @property
    def units(self) -> float:
        """GPUs that it holds in thousandths, or CPU in millicores where it holds none."""
        return float(sum(one.all_gpus_m or one.cpu_m or 1 for one in self.leaves.values()))


class Wanted(msgspec.Struct, frozen=True):
    """A waiting job.

    Attributes:
        remaining_ms: How long it runs once it is started.
        wish: What it asks for.
        room_in_ms: Until it has room if none gives way (:func:`room_in_ms`).
    """

    name: str
    remaining_ms: float
    wish: Wish
    room_in_ms: float = math.inf


class VictimBlock(msgspec.Struct, frozen=True):
    """The jobs that give way to a waiting one, and where it goes then."""

    victims: tuple[Victim, ...]
    places: GangPlaces

    @property
    def suspension_ms(self) -> float:
        """Until all of them are suspended."""
        return max(one.suspension_ms for one in self.victims)


Worth = Callable[[Wanted, Sequence[Victim]], float]
"""What it is worth that these give way; more is better, and nothing is done for 0 or less."""


def gain_ms(wanted: Wanted, victims: Sequence[Victim]) -> float:
    """Waiting that is saved, less the waiting that it costs (see above)."""
    saves, costs = saved_and_cost(wanted, victims)
    return saves - costs


def saved_and_cost(wanted: Wanted, victims: Sequence[Victim]) -> tuple[float, float]:
    """The two sides of the gain, in milliseconds."""
    saves = waits_ms(wanted, victims) - max(one.suspension_ms for one in victims)
    return saves, sum(wanted.remaining_ms + one.resumption_ms for one in victims)


def waits_ms(wanted: Wanted, victims: Sequence[Victim]) -> float:
    """How long a job waits if these do not give way, in milliseconds."""
    return min(SERVED_BEFORE * wanted.room_in_ms, max(one.remaining_ms for one in victims))


def room_in_ms(wanted: Wanted, free: Mapping[str, Resources], ending: Sequence[EndingJob]) -> float:
    """T(w): how long until there is room for a job if none gives way, in milliseconds.

    Args:
        wanted: The job that has no room.
        free: The free resources of each node that it may use.
        ending: Running jobs, the one first that ends first. One past its predicted end says nothing, and must not be among
            them.

    Returns:
        Infinity where these do not leave enough room.
    """
    if wanted.wish.roles:
        count = fewest_gone(wanted.wish, free, ending)
        return math.inf if count is None else ending[count - 1].remaining_ms
    left: dict[str, Resources] = {}
    for one in ending:
        for node, amount in one.leaves.items():
            if node not in free or wanted.wish.first_node not in {None, node}:
                continue
            left[node] = left.get(node, free[node]) + amount
            if wanted.wish.requests.fits(left[node]):
                return one.remaining_ms
    return math.inf


ORDERS: Sequence[Callable[[Victim], tuple[Any, ...]]] = (
    lambda one: ((one.suspension_ms + one.resumption_ms) / one.units, one.name),
    lambda one: (-one.remaining_ms, one.name),
    lambda one: (-one.units, one.name),
    lambda one: (one.units, one.suspension_ms + one.resumption_ms, one.name),
)
"""In which candidates are collected."""

BY_REMAINING = 1

ANCHORS = 6
"""Of the candidates on a node, as many of the longest are also tried as the first of a block each: they decide the gain."""


def best_block(
    wanted: Wanted, free: Mapping[str, Resources], on_nodes: Mapping[str, Sequence[Victim]], worth: Worth = gain_ms
) -> VictimBlock | None:
    """The best of the blocks that the greedy algorithm finds; None where none is worth it.

    Args:
        wanted: The job that has no room.
        free: The free resources of each node that it may use.
        on_nodes: The candidates, by each node that they leave something on.
        worth: What a block is worth.

    Work: O(candidates · log candidates · victims).
    """
    best: tuple[float, VictimBlock] | None = None
    for block in _on_one_node(wanted, free, on_nodes):
        value = worth(wanted, block.victims)
        if value > 0 and (best is None or value > best[0]):
            best = (value, block)
    if best is None and wanted.wish.roles:
        for block in _on_several(wanted, free, on_nodes):
            value = worth(wanted, block.victims)
            if value > 0 and (best is None or value > best[0]):
                best = (value, block)
    return None if best is None else best[1]


def _on_one_node(
    wanted: Wanted, free: Mapping[str, Resources], on_nodes: Mapping[str, Sequence[Victim]]
) -> Iterable[VictimBlock]:
    sizes = wanted.wish.sizes
    total = asked(wanted.wish.roles, sizes) if sizes else wanted.wish.requests
    for node, there in on_nodes.items():
        if node not in free or wanted.wish.first_node not in {None, node}:
            continue
        for candidates, kept in _sequences(there):
            victims = _needed({node: total}, free, candidates, kept)
            if victims:
                yield VictimBlock(tuple(victims), GangPlaces((node,) * max(sum(sizes), 1), sizes))


def _sequences(there: Sequence[Victim]) -> Iterator[tuple[Sequence[Victim], Victim | None]]:
    """In which sequences the candidates of a node are collected, and who of each must stay in the block."""
    if len(there) == 1:
        yield there, None
        return
    orders = [sorted(there, key=order) for order in ORDERS]
    for candidates in orders:
        yield candidates, None
    for longest in orders[BY_REMAINING][:ANCHORS]:
        for candidates in orders:
            yield [longest, *(one for one in candidates if one is not longest)], longest


def _on_several(
    wanted: Wanted, free: Mapping[str, Resources], on_nodes: Mapping[str, Sequence[Victim]]
) -> Iterable[VictimBlock]:
    candidates = list({one.name: one for there in on_nodes.values() for one in there}.values())
    for order in ORDERS:
        candidates.sort(key=order)
        count = fewest_gone(wanted.wish, free, candidates)
        places = None if count is None else places_without(wanted.wish, free, candidates[:count])
        if places is not None:
            victims = _needed(places.amounts(wanted.wish.roles), free, candidates[:count])
            if victims:
                yield VictimBlock(tuple(victims), places)


def _needed(
    amounts: Mapping[str, Resources],
    free: Mapping[str, Resources],
    candidates: Sequence[Victim],
    kept: Victim | None = None,
) -> list[Victim]:
    """Candidates from the front until there is room for the amounts, without the superfluous; empty if there is none.

    ``kept`` is dropped last, and a block in which it is superfluous is none.
    """
    taken = least_needed(
        amounts, free, candidates, lambda one: (one is kept, -one.suspension_ms - one.resumption_ms, one.name)
    )
    return taken if taken and (kept is None or kept in taken) else []
