"""Where a gang's replicas go: every placement fits, and one role finds room wherever an exhaustive count does."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from steepest.events.common import Resources
from steepest.events.requests import Role
from steepest.policies.placement.gangs import allowed_sizes, choose, fewest
from steepest.policies.placement.slots import Slots, fitting

AMOUNTS = st.builds(
    Resources,
    cpu_m=st.integers(0, 8),
    memory_mib=st.integers(0, 4),
    gpus=st.integers(0, 2),
    extended=st.sampled_from([(), (("a", 1),), (("a", 2), ("b", 1))]),
)
FREE = st.dictionaries(st.sampled_from(["n1", "n2", "n3", "n4"]), AMOUNTS, max_size=4)


@st.composite
def roles(draw: st.DrawFn, most: int) -> list[Role]:
    """Roles with numbers of replicas that a job may name."""
    made = []
    for index in range(draw(st.integers(1, most))):
        low, high = sorted((draw(st.integers(1, 5)), draw(st.integers(1, 5))))
        sizes = draw(st.sets(st.integers(low, high), max_size=3))
        made.append(
            Role(
                name=f"r{index}",
                replicas=high,
                min=low,
                sizes=tuple(sorted(sizes | {high})) if sizes else (),
                requests=draw(AMOUNTS),
            )
        )
    return made


@given(roles(3), FREE, st.none() | st.sampled_from(["n1", "n9"]))
def test_what_is_placed_fits(asked: list[Role], free: dict[str, Resources], first_node: str | None) -> None:
    """On every node all that comes there fits beside each other; each role has an allowed number of replicas."""
    found = choose(asked, Slots(free), first_node=first_node)
    if found is None:
        return
    left = dict(free)
    requests = [role.requests for role, size in zip(asked, found.sizes, strict=True) for _ in range(size)]
    for node, amount in zip(found.nodes, requests, strict=True):
        assert amount.fits(left[node])
        left[node] -= amount
    assert all(role.allows(size) for role, size in zip(asked, found.sizes, strict=True))
    assert first_node in {None, found.nodes[0]}


@given(roles(1), FREE)
def test_a_gang_of_one_role_is_as_large_as_there_is_room_for(asked: list[Role], free: dict[str, Resources]) -> None:
    """As many replicas as all nodes together hold, on the fewest nodes."""
    (role,) = asked
    holds = sorted((fitting(role.requests, room) for room in free.values()), reverse=True)
    possible = [size for size in allowed_sizes(role) if size <= sum(holds)]
    found = choose(asked, Slots(free))

    assert (found is None) == (not possible)
    if found is not None:
        assert found.sizes == (max(possible),)
        used = len(Counter(found.nodes))
        assert sum(holds[: used - 1]) < len(found.nodes)


@given(st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.none() | AMOUNTS), max_size=12), st.lists(AMOUNTS))
def test_slots_are_those_of_a_count(changes: list[tuple[str, Resources | None]], asked: list[Resources]) -> None:
    """However often nodes change, and whenever they were asked for first."""
    slots, free = Slots({}), dict[str, Resources]()
    for index, (node, room) in enumerate(changes):
        before = {requests: slots.of(requests) for requests in asked[:index]}
        more = slots.put(node, room)
        free.pop(node, None)
        free |= {} if room is None else {node: room}
        now = {requests: sum(fitting(requests, one) for one in free.values()) for requests in before}
        assert {requests: slots.of(requests) for requests in before} == now
        assert set(more) == {requests for requests in before if now[requests] > before[requests]}
    assert slots.free == free


def test_the_rule_by_example() -> None:
    """One node that holds all; else the nodes that hold most; an elastic role gives way, the last named one first."""
    worker = Role(name="worker", replicas=4, min=2, requests=Resources(100))
    chief = Role(name="chief", requests=Resources(200))
    free = {"n1": Resources(400), "n2": Resources(500), "n3": Resources(100)}

    assert choose([worker], Slots(free)) == (("n2",) * 4, (4,))
    assert choose([chief, worker], Slots(free)) == (("n2", "n2", "n2", "n2", "n1"), (1, 4))
    assert choose([chief, worker], Slots({"n1": Resources(300), "n3": Resources(200)})) == (
        ("n1", "n1", "n3", "n3"),
        (1, 3),
    )
    assert choose([worker], Slots(free), first_node="n1") == (("n1",) * 4, (4,))
    assert choose([worker], Slots({"n3": Resources(100)})) is None
    assert fewest([chief, worker]) == (1, 2)
