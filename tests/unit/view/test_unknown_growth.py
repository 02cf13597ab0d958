"""A running job of which no growth was measured for four intervals: nothing is known of it, and it counts in no category."""

from __future__ import annotations

import pytest

from steepest.events import cluster as c
from steepest.events.registry import GROWTH_IS_PROVEN
from steepest.testing.contracts.view_promises import check_view
from steepest.testing.scenarios.folded_pool import FoldedPool, category, grown, placement
from steepest.view.cluster_view import ClusterView
from steepest.view.jobs import GRACE_INTERVALS

GRACE_MS = GRACE_INTERVALS * 30_000
IN_FORCE = c.PoolConfigured(reads=4, flags=(GROWTH_IS_PROVEN,))


def silent(*flags: int, ms: int = GRACE_MS) -> FoldedPool:
    """A job runs on w1 beside one that grows, and that much time has passed."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.fold(c.PoolConfigured(reads=4, flags=flags))
    pool.run("mute", "w1")
    pool.run("grows", "w1", c.Category.PROGRESSING)
    pool.tick(ms)
    return pool


def counted(pool: FoldedPool) -> tuple[list[int], int, float]:
    """The categories, the unknown and the score of w1, in a view that holds its promises, also once it is restored."""
    check_view(pool.view)
    check_view(ClusterView.restore(pool.view.snapshot()))
    node = pool.node("w1")
    return list(node.replicas), node.unknown, pool.view.nodes.score(node)


def test_it_is_unknown_after_four_intervals() -> None:
    """Until then it counts as a progressing one, as every job begins; then as a watched one in the score, as growing not."""
    assert counted(silent(GROWTH_IS_PROVEN, ms=GRACE_MS - 1)) == ([2, 0, 0], 0, 4.0)

    pool = silent(GROWTH_IS_PROVEN)

    assert counted(pool) == ([1, 0, 0], 1, 3.5)
    assert (pool.node("w1").growing, pool.node("w1").count) == (1, 2)
    assert [job.name for job in pool.view.newly_unknown] == ["mute"]
    pool.tick()
    assert pool.view.newly_unknown == ()


def test_without_the_flag_it_is_progressing_for_ever() -> None:
    """Older logs are folded as they were; from the flag on it is unknown at the next tick."""
    pool = silent()
    assert counted(pool) == ([2, 0, 0], 0, 4.0)
    pool.fold(IN_FORCE)
    assert counted(pool) == ([2, 0, 0], 0, 4.0)
    pool.tick()

    assert counted(pool) == ([1, 0, 0], 1, 3.5)


@pytest.mark.parametrize("first", [grown("mute"), category("mute", c.Category.WATCHED)])
def test_the_first_growth_makes_it_known(first: c.ClusterEvent) -> None:
    """From then on it is in its category."""
    pool = silent(GROWTH_IS_PROVEN)
    pool.fold(first)

    assert counted(pool)[1] == 0
    assert not pool.job("mute").unknown


def test_a_job_that_ends_unknown_leaves_nothing_behind() -> None:
    """And a retry begins with a new grace."""
    pool = silent(GROWTH_IS_PROVEN)
    pool.fold(pool.stopped("mute", 1))
    assert counted(pool) == ([1, 0, 0], 0, 2.0)
    pool.fold(c.RetryPlanned(job="mute", incarnation=1, charged=True, not_before_ms=0, reason="it failed"))
    pool.fold(placement("mute", "w1", incarnation=1, plan="again"))

    assert counted(pool) == ([2, 0, 0], 0, 4.0)
    pool.tick(GRACE_MS)
    assert counted(pool) == ([1, 0, 0], 1, 3.5)


def test_it_holds_rebalancing_up_no_longer() -> None:
    """The rebalancer waits for a growth measurement only of jobs in their grace period."""
    pool = silent(GROWTH_IS_PROVEN)

    assert pool.view.jobs.newest_silent_counted_ms() is None
