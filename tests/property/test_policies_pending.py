"""The overlay of plans under way equals what the view would be if they were all valid."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import FoldedPool, migration, used

from steepest.events import cluster as c
from steepest.policies.pending import Pending
from steepest.policies.specon import score

NODES = ("w1", "w2", "w3", "w4")
JOBS = tuple(f"job-{number}" for number in range(8))


@given(
    where=st.lists(st.sampled_from(NODES), min_size=len(JOBS), max_size=len(JOBS)),
    of=st.lists(st.sampled_from(c.Category), min_size=len(JOBS), max_size=len(JOBS)),
    use=st.lists(st.integers(0, 1_000), min_size=len(NODES), max_size=len(NODES)),
    moves=st.lists(
        st.tuples(st.sampled_from(JOBS), st.sampled_from(NODES)), max_size=8, unique_by=lambda move: move[0]
    ),
    read_back=st.lists(st.integers(0, 7), max_size=8),
    lost=st.none() | st.sampled_from(NODES),
)
@settings(max_examples=scaled(100), deadline=None)
def test_the_overlay_is_what_the_view_will_be(
    *,
    where: list[str],
    of: list[c.Category],
    use: list[int],
    moves: list[tuple[str, str]],
    read_back: list[int],
    lost: str | None,
) -> None:
    """Free room, counts, and the order of Algorithm 4 with plans under way are those of the view that holds the plans."""
    pool = FoldedPool(**dict.fromkeys(NODES, 1_000))
    pool.feed(*(used(node, cpu_m) for node, cpu_m in zip(NODES, use, strict=True)))
    for name, node, category in zip(JOBS, where, of, strict=True):
        pool.run(name, node, category)
    pending = Pending()
    for number, (name, target) in enumerate(moves):
        job = pool.job(name)
        if job.node is not None and job.node != target:
            pending.add(f"plan-{number}", job, job.node, target)
    for number in read_back:
        if plan := pending.plans.get(f"plan-{number}"):
            pool.fold(migration(plan.job, plan.source or "", plan.target, plan=f"plan-{number}"))
            pending.read_back(f"plan-{number}")
    if lost is not None:
        pool.view.nodes.lose(pool.node(lost))
    over = {node: (pending.free(pool.node(node)), pending.replicas(pool.node(node))) for node in NODES}
    order = [node.name for node in score.by_score(pool.view, pending)]
    scores = {node: score.score(pool.view, pool.node(node), pending) for node in NODES}
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(pending), type=Pending)
    assert again == pending

    if lost is not None:
        assert lost not in order
        pool.fold(used(lost, use[NODES.index(lost)]))  # back, or no plan about it would be valid
        order = [node.name for node in score.by_score(pool.view, pending)]
    for plan_id, plan in list(pending.plans.items()):
        assert pool.fold(migration(plan.job, plan.source or "", plan.target, plan=plan_id))
        pending.read_back(plan_id)
    assert over == {node: (pool.node(node).free, tuple(pool.node(node).replicas)) for node in NODES}
    assert scores == {node: pool.view.nodes.score(pool.node(node)) for node in NODES}
    assert order == [node.name for node in pool.view.nodes.by_score()]
    assert pending == Pending()
