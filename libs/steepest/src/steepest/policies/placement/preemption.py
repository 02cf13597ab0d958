"""Which running jobs give way to a more urgent one that has no room: as few as possible, none as urgent as it is.

The rule, for one job:

1. Candidates are the running jobs of lower priority that the view lets be suspended (checkpointable, run long enough, not
   suspended too often); the least urgent first, then those that started last.
2. Where one node can hold the whole job once candidates on it are gone: the node that loses the fewest of them.
3. Else candidates are taken from the front until the job has room on several nodes, and those that its places do not need
   are left alone. That set has no superfluous member, but a smaller one may exist.

It owns this rule. Who asks, and when, is not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from steepest.events.cluster import Because, Transition, TransitionPlanned
from steepest.events.common import Resources
from steepest.policies.placement.gangs import GangPlaces, asked, choose
from steepest.policies.placement.room import has_room
from steepest.policies.placement.slots import Slots
from steepest.policies.queueing.wish import Wish
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Phase
from steepest.view.validity import void_transition

L = TypeVar("L", bound="Leaving")

BECAUSE = Because(rule="priority: a more urgent job has no room")


class Preemption(msgspec.Struct, frozen=True):
    """The suspensions that make room for a job, and where it goes then."""

    suspensions: tuple[TransitionPlanned, ...]
    places: GangPlaces


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """A running job, and what it leaves on each node once it is gone."""

    leaves: Mapping[str, Resources]


class Candidate(Leaving, frozen=True, kw_only=True):
    """A job that may be suspended, by a plan."""

    priority: int
    plan: TransitionPlanned


def preempt(job: Job, wish: Wish, free: Mapping[str, Resources], candidates: Sequence[Candidate]) -> Preemption | None:
    """The suspensions that make room for a job; None where no room can be made, or it has room.

    Args:
        job: The job that has no room.
        wish: What it asks for, with no more replicas than its queue may have.
        free: The free resources of each node that it may use.
        candidates: The jobs that may be suspended for it, or for more urgent ones (:func:`suspendable`).

    Work: O(candidates), and O(log of them) searches of all nodes.
    """
    less_urgent = [one for one in candidates if one.priority < job.spec.priority]
    found = _on_one_node(wish, free, less_urgent) or _on_several(wish, free, less_urgent)
    if found is None or not found[0] or has_room(wish, Slots(free)):
        return None
    chosen, places = found
    return Preemption(tuple(msgspec.structs.replace(one.plan, room_for=job.name) for one in chosen), places)


def suspension(victim: Job, room_for: str | None, plan: str, because: Because) -> TransitionPlanned:
    """The plan that a job gives way to another one; None: to none."""
    return TransitionPlanned(
        plan=plan,
        job=victim.name,
        incarnation=victim.incarnation,
        kind=Transition.SUSPEND,
        sources=victim.running_on,
        room_for=room_for,
        because=because,
    )


def scaling(
    job: Job, places: GangPlaces, room_for: str | None, plan: str, because: Because, *, leaving: tuple[int, ...] = ()
) -> TransitionPlanned:
    """The plan that a gang has other places, more or fewer; ``leaving``: the replicas that leave while the others run on.

    ``room_for`` is the job that it makes room for, if any.
    """
    return TransitionPlanned(
        plan=plan,
        job=job.name,
        incarnation=job.incarnation,
        kind=Transition.SHED if leaving else Transition.SCALE,
        sources=job.running_on,
        nodes=places.nodes,
        sizes=() if places.sizes == job.spec.counts() else places.sizes,
        room_for=room_for,
        leaving=leaving,
        because=because,
    )


def suspendable(view: ClusterView, job: Job, offset: int, awaits: Callable[[Job], bool]) -> Iterator[Candidate]:
    """The jobs that may be suspended for a job at this record, the least urgent first. Work: O(jobs)."""
    running = [
        one
        for one in view.jobs
        if one.phase is Phase.RUNNING and one.spec.priority < job.spec.priority and not awaits(one)
    ]
    running.sort(key=lambda one: (one.spec.priority, -one.started_counted_ms, one.name))
    for victim in running:
        plan = suspension(victim, job.name, f"suspend-{offset}-{victim.name}", BECAUSE)
        if void_transition(plan, victim, view) is None:
            leaves = {node: view.nodes.held(victim, node) for node in victim.holds}
            yield Candidate(plan=plan, priority=victim.spec.priority, leaves=leaves)


def _on_one_node(
    wish: Wish, free: Mapping[str, Resources], candidates: Sequence[Candidate]
) -> tuple[Sequence[Candidate], GangPlaces] | None:
    sizes = wish.sizes
    total = asked(wish.roles, sizes) if sizes else wish.requests
    on_nodes: dict[str, list[Candidate]] = {}
    for one in candidates:
        for node in one.leaves:
            if node in free:
                on_nodes.setdefault(node, []).append(one)
    best: tuple[int, str, Sequence[Candidate]] | None = None
    for node, there in on_nodes.items():
        if wish.first_node in {None, node}:
            needed = least_needed({node: total}, free, there)
            if needed is not None and (best is None or (len(needed), node) < best[:2]):
                best = (len(needed), node, needed)
    if best is None:
        return None
    return best[2], GangPlaces((best[1],) * max(sum(sizes), 1), sizes)


def _on_several(
    wish: Wish, free: Mapping[str, Resources], candidates: Sequence[Candidate]
) -> tuple[Sequence[Candidate], GangPlaces] | None:
    count = fewest_gone(wish, free, candidates) if wish.roles else None
    places = None if count is None else places_without(wish, free, candidates[:count])
    if places is None:  # a greedy packing may fail with more room
        return None
    needed = least_needed(places.amounts(wish.roles), free, candidates[:count])
    return None if needed is None else (needed, places)


def fewest_gone(wish: Wish, free: Mapping[str, Resources], candidates: Sequence[Leaving]) -> int | None:
    """How many from the front make room for a gang once they are gone; None where all of them do not."""
    low, high = 1, len(candidates)
    if not candidates or places_without(wish, free, candidates) is None:
        return None
    while low < high:
        middle = (low + high) // 2
        if places_without(wish, free, candidates[:middle]) is None:
            low = middle + 1
        else:
            high = middle
    return low


def places_without(wish: Wish, free: Mapping[str, Resources], gone: Sequence[Leaving]) -> GangPlaces | None:
    """Where a gang would be once these jobs are gone."""
    left = dict(free)
    for one in gone:
        _change(left, one, 1)
    return choose(wish.roles, Slots(left), first_node=wish.first_node)


def least_needed(
    wanted: Mapping[str, Resources],
    free: Mapping[str, Resources],
    candidates: Sequence[L],
    spared: Callable[[L], object] = lambda _: 0,
) -> list[L] | None:
    """The candidates from the front without whom there is no room for what is wanted on each node; None: there is none.

    Of those that are superfluous, the one for which ``spared`` is least is left alone first.
    """
    left = {node: free[node] for node in wanted}
    taken: list[L] = []
    for one in candidates:
        if _fits(wanted, left):
            break
        if any(node in left for node in one.leaves):
            taken.append(one)
            _change(left, one, 1)
    if not _fits(wanted, left):
        return None
    for one in sorted(taken, key=spared):  # type: ignore[arg-type]
        _change(left, one, -1)
        if _fits(wanted, left):
            taken.remove(one)
        else:
            _change(left, one, 1)
    return taken


def _fits(wanted: Mapping[str, Resources], left: Mapping[str, Resources]) -> bool:
    return all(amount.fits(left[node]) for node, amount in wanted.items())


def _change(left: dict[str, Resources], one: Leaving, sign: int) -> None:
    for node, amount in one.leaves.items():
        if node in left:
            left[node] = left[node] + amount if sign > 0 else left[node] - amount
