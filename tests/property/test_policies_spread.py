"""Spread follows the rule of Kubernetes on any cluster, with anything in flight."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import FoldedPool, joined, placement, submitted

from steepest.events.common import Resources
from steepest.policies.pending import Pending
from steepest.policies.placement.spread import spread

SIZES = st.tuples(st.sampled_from([0, 1_000, 2_000, 4_000]), st.sampled_from([0, 1_024, 4_096]))
ASKED = st.tuples(st.integers(0, 8).map(lambda n: 125 * n), st.sampled_from([0, 0, 100, 256, 1_000]))


@given(
    sizes=st.lists(SIZES, min_size=1, max_size=6),
    running=st.lists(st.tuples(ASKED, st.integers(0, 5)), max_size=10),
    under_way=st.lists(st.tuples(ASKED, st.integers(0, 5)), max_size=4),
    lost=st.lists(st.integers(0, 5), max_size=2),
    asked=ASKED,
)
@settings(max_examples=scaled(100), deadline=None)
def test_spread_is_least_allocated(
    sizes: list[tuple[int, int]],
    running: list[tuple[tuple[int, int], int]],
    under_way: list[tuple[tuple[int, int], int]],
    lost: list[int],
    asked: tuple[int, int],
) -> None:
    """Of all nodes with room the one of which the largest mean share stays free, looked for by trying each."""
    pool = FoldedPool()
    names = [f"w{number}" for number in range(len(sizes))]
    pool.feed(*(joined(name, *size) for name, size in zip(names, sizes, strict=True)))
    for number, (resources, where) in enumerate(running):
        name = f"r{number}"
        pool.feed(submitted(name, requests=Resources(*resources)), placement(name, names[where % len(names)]))
    for where in lost:
        if where < len(names):
            pool.view.nodes.lose(pool.node(names[where]))
    pending = Pending()
    taken: dict[str, list[Resources]] = {name: [] for name in names}
    for number, (resources, where) in enumerate(under_way):
        pool.fold(submitted(f"u{number}", requests=Resources(*resources)))
        target = names[where % len(names)]
        if Resources(*resources).fits(pending.free(pool.node(target))):
            pending.add(f"p{number}", pool.job(f"u{number}"), None, target)
            taken[target].append(Resources(*resources))
    pool.fold(submitted("job", requests=Resources(*asked)))

    found = spread(pool.view, pool.job("job"), pending)
    assert (found.name if found else None) == least_allocated(pool, taken, Resources(*asked))


def least_allocated(pool: FoldedPool, taken: dict[str, list[Resources]], asked: Resources) -> str | None:
    """The node that Kubernetes would score highest; of equal ones that with fewer replicas, then the first name."""
    scored = []
    for node in pool.view.nodes:
        after = node.allocated + asked
        for resources in taken[node.name]:
            after += resources
        pairs = [
            (after.cpu_m, node.capacity.cpu_m),
            (after.memory_mib, node.capacity.memory_mib),
            (after.gpus, node.capacity.gpus),
        ]
        if node.lost or any(wanted > there for wanted, there in pairs):
            continue
        free = [(there - wanted) / there for wanted, there in pairs if there]
        score = round(sum(free) / len(free), 9) if free else 1.0
        scored.append((-score, sum(node.replicas) + len(taken[node.name]), node.name))
    return min(scored)[2] if scored else None
