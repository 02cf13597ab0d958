"""The nodes that a search for moves looks at are in the orders that a search through all of them would find."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import FoldedPool, joined, used

from steepest.events import cluster as c
from steepest.policies.steepest.node_plan import JobOnNode
from steepest.policies.steepest.residences import Residence, Residences

NAMES = ("n1", "n2", "n3", "n4", "n5")
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["join", "lose", "hear", "start", "end", "replace", "remove", "look"]),
        st.sampled_from(NAMES),
        st.lists(st.sampled_from([1.0, 30.0, 60.0, 200.0]), max_size=3),
    ),
    max_size=40,
)


def residence(name: str, lefts: Sequence[float], cores: float = 4.0) -> Residence:
    """A node with jobs of these sizes."""
    return Residence(name, cores, [JobOnNode(name=f"{name}-{left}", left=left, demand=left / 50) for left in lefts])


def scanned(pool: FoldedPool, residences: dict[str, Residence]) -> list[Residence]:
    """The open nodes that were planned or have no job, by name."""
    for node in pool.view.nodes:
        if node.is_open and node.name not in residences and not node.jobs:
            residences[node.name] = Residence(node.name, node.capacity.cpu_m / 1000, [])
    nodes = pool.view.nodes
    return [one for name, one in sorted(residences.items()) if name in nodes and nodes[name].is_open]


def names(residences: Sequence[Residence]) -> list[str]:
    """Their names."""
    return [one.name for one in residences]


@given(ACTIONS)
def test_the_orders_are_those_of_a_scan(actions: list[tuple[str, str, list[float]]]) -> None:
    """Also where nodes join, are lost, come back, fill and empty, and for a planner that was restored meanwhile."""
    pool, kept = FoldedPool(n1=4_000, n2=4_000), dict[str, Residence]()
    followed, started = Residences(kept), 0
    for action, name, lefts in [*actions, ("look", "n1", [])]:
        node = pool.view.nodes.get(name)
        match action:
            case "join":
                pool.fold(joined(name, 4_000))
            case "lose" if node is not None:
                pool.fold(c.NodeLost(node=name, silent_ms=20_000))
            case "hear" if node is not None:
                pool.fold(used(name, 100))
            case "start" if node is not None and node.is_open:
                started += 1
                pool.run(f"j{started}", name, cpu_m=10)
            case "end" if node is not None and node.jobs:
                pool.end(next(iter(node.jobs)))
            case "replace" if node is not None:
                kept[name] = residence(name, lefts)
                followed.note(name)
            case "remove":
                kept.pop(name, None)
                followed.note(name)
            case "look":
                expected, copy = scanned(pool, dict(kept)), dict(kept)
                followed.look(pool.view.nodes)
                restored = Residences(copy)
                restored.look(pool.view.nodes)
                for found in (followed, restored):
                    hold(found, expected)


def hold(found: Residences, expected: list[Residence]) -> None:
    """The orders of a scan, with ties by name."""
    by_fullness = sorted(expected, key=lambda one: one.fullness)
    assert names(list(found.emptiest())) == names(by_fullness)
    assert names(found.fullest(3)) == names(sorted(expected, key=lambda one: -one.fullness)[:3])


def test_a_node_that_gives_a_job_away_finds_its_new_place() -> None:
    """As the search makes a move, the next reason looks at the orders after it."""
    kept = {name: residence(name, [200.0, 200.0] if name == "n1" else []) for name in ("n1", "n2")}
    found = Residences(kept)
    for one in kept.values():
        found.put(one)
    kept["n2"].jobs += kept["n1"].jobs
    kept["n1"].jobs.clear()
    for one in kept.values():
        found.put(one)

    assert names(list(islice(found.emptiest(), 1))) == ["n1"]
