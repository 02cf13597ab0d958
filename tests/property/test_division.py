"""The ordered division of the running jobs: disjoint blocks that make room, hold no superfluous member, and are worth it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from steepest.events.cluster import Role
from steepest.events.common import Resources
from steepest.policies.pickyman.division import Victim, VictimBlock, Wanted, best_block, gain_ms, room_in_ms
from steepest.policies.placement.gangs import choose
from steepest.policies.placement.slots import Slots
from steepest.policies.queueing.wish import Wish

NODES = ("n1", "n2", "n3")

times = st.floats(0, 1e7, allow_nan=False)


@st.composite
def victims(draw: st.DrawFn) -> list[Victim]:
    """Running jobs, some of them gangs on several nodes."""
    found = []
    for number in range(draw(st.integers(0, 8))):
        on = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=2, unique=True))
        leaves = {node: Resources(gpus=draw(st.integers(1, 4))) for node in on}
        remaining, suspension, resumption = draw(times), draw(times), draw(times)
        found.append(
            Victim(
                name=f"v{number}",
                remaining_ms=remaining,
                suspension_ms=suspension / 100,
                resumption_ms=resumption / 100,
                leaves=leaves,
            )
        )
    return found


@st.composite
def waiting(draw: st.DrawFn) -> list[Wanted]:
    """Jobs that wait, in order; a gang asks for replicas on any nodes."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        requests, replicas = Resources(gpus=draw(st.integers(1, 4))), draw(st.integers(1, 3))
        roles = (Role(name="worker", replicas=replicas, requests=requests),) if replicas > 1 else ()
        wish = Wish(Resources() if roles else requests, None, ("queue default",), roles=roles)
        found.append(Wanted(f"w{number}", draw(times) / 10, wish))
    return sorted(found, key=lambda one: one.remaining_ms)


free_gpus = st.fixed_dictionaries({node: st.integers(0, 2).map(lambda gpus: Resources(gpus=gpus)) for node in NODES})


def on_nodes(running: Sequence[Victim]) -> dict[str, list[Victim]]:
    """The candidates by node."""
    found: dict[str, list[Victim]] = {}
    for one in running:
        for node in one.leaves:
            found.setdefault(node, []).append(one)
    return found


def has_room(wanted: Wanted, block: VictimBlock, free: Mapping[str, Resources], gone: Sequence[Victim]) -> bool:
    """Whether the block's places hold the job once some are gone; counted from scratch."""
    left = dict(free)
    for one in gone:
        for node, amount in one.leaves.items():
            left[node] += amount
    roles = wanted.wish.roles
    each = roles[0].requests if roles else wanted.wish.requests
    return all(
        each.times(block.places.nodes.count(node)).fits(left[node]) for node in dict.fromkeys(block.places.nodes)
    )


def divided(
    jobs: Sequence[Wanted], free: Mapping[str, Resources], running: Sequence[Victim]
) -> list[tuple[Wanted, dict[str, Resources], VictimBlock]]:
    """Each job that gets a block, with what was free before; in order."""
    left, rest, found = dict(free), list(running), []
    for wanted in jobs:
        block = best_block(wanted, left, on_nodes(rest))
        if block is None:
            continue
        found.append((wanted, dict(left), block))
        rest = [one for one in rest if one not in block.victims]
        for one in block.victims:
            for node, amount in one.leaves.items():
                left[node] += amount
        each = wanted.wish.roles[0].requests if wanted.wish.roles else wanted.wish.requests
        for node in block.places.nodes:
            left[node] -= each
    return found


@given(waiting(), free_gpus, victims())
def test_blocks_are_disjoint_and_make_room(
    jobs: list[Wanted], free: Mapping[str, Resources], running: list[Victim]
) -> None:
    """A running job gives way to one job at most, and a waiting job gets all that it asks for."""
    found = divided(jobs, free, running)
    names = [one.name for _, _, block in found for one in block.victims]
    assert len(names) == len(set(names))
    for wanted, before, block in found:
        assert has_room(wanted, block, before, block.victims)
        assert len(block.places.nodes) == max(sum(wanted.wish.sizes), 1)


@given(waiting(), free_gpus, victims())
def test_nobody_gives_way_in_vain(jobs: list[Wanted], free: Mapping[str, Resources], running: list[Victim]) -> None:
    """Without any one of a block its places would not hold the job."""
    for wanted, before, block in divided(jobs, free, running):
        for one in block.victims:
            rest = [other for other in block.victims if other is not one]
            assert not has_room(wanted, block, before, rest)


@given(waiting(), free_gpus, victims())
def test_a_block_saves_more_than_it_costs(
    jobs: list[Wanted], free: Mapping[str, Resources], running: list[Victim]
) -> None:
    """By the gain of the page, reckoned from the block alone."""
    for wanted, _, block in divided(jobs, free, running):
        assert gain_ms(wanted, block.victims) > 0


@given(waiting(), free_gpus, victims(), st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_does_not_matter(
    jobs: list[Wanted], free: Mapping[str, Resources], running: list[Victim], order: object
) -> None:
    """The same jobs in another order give the same blocks, so that a replay decides the same."""
    again = list(running)
    order.shuffle(again)  # type: ignore[attr-defined]
    by_node = {node: [one for one in again if node in one.leaves] for node in on_nodes(running)}
    for wanted in jobs:
        assert best_block(wanted, free, on_nodes(running)) == best_block(wanted, free, by_node)


@given(waiting(), free_gpus, victims())
def test_there_is_room_once_enough_jobs_have_ended(
    jobs: list[Wanted], free: Mapping[str, Resources], running: list[Victim]
) -> None:
    """By looking at each end; and no block waits longer for its own places."""

    def has_room_at(wanted: Wanted, at_ms: float) -> bool:
        left = {
            node: sum((one.leaves[node] for one in running if node in one.leaves and one.remaining_ms <= at_ms), amount)
            for node, amount in free.items()
        }
        if wanted.wish.roles:
            return choose(wanted.wish.roles, Slots(left), first_node=None) is not None
        return any(wanted.wish.requests.fits(amount) for amount in left.values())

    ending = sorted(running, key=lambda one: one.remaining_ms)
    for wanted in (one for one in jobs if not has_room_at(one, -1)):
        found = room_in_ms(wanted, free, ending)
        assert found == min((one.remaining_ms for one in ending if has_room_at(wanted, one.remaining_ms)), default=inf)
        block = best_block(wanted, free, on_nodes(running))
        assert block is None or found <= max(one.remaining_ms for one in block.victims)


@given(waiting(), free_gpus)
def test_where_no_job_runs_none_gives_way(jobs: list[Wanted], free: Mapping[str, Resources]) -> None:
    """A block has at least one victim."""
    assert all(best_block(wanted, free, {}) is None for wanted in jobs)
