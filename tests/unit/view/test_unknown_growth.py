"""A running job of which no growth was measured for four intervals: nothing is known of it, and it counts in no category."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, category, grown, joined, placement
from tests.harness.system.driver import DeciderDriver
from tests.harness.view_promises import check_view

from steepest.events import cluster as c
from steepest.policies.specon.rebalancer import Rebalancer
from steepest.view.cluster_view import ClusterView
from steepest.view.jobs import GRACE_INTERVALS

GRACE_MS = GRACE_INTERVALS * 30_000
IN_FORCE = c.PoolConfigured()
TODAY = c.PoolConfigured()
INTERVAL_MS = 30_000


def silent(ms: int = GRACE_MS) -> FoldedPool:
    """A job runs on w1 beside one that grows, and that much time has passed."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("mute", "w1")
    pool.run("grows", "w1", c.Category.PROGRESSING)
    pool.tick(ms - 1)
    pool.fold(grown("grows", c.Category.PROGRESSING))
    pool.tick(1)
    return pool


def counted(pool: FoldedPool) -> tuple[list[int], int, float]:
    """The categories, the unknown and the score of w1, in a view that holds its promises, also once it is restored."""
    check_view(pool.view)
    check_view(ClusterView.restore(pool.view.snapshot()))
    node = pool.node("w1")
    return list(node.replicas), node.unknown, pool.view.nodes.score(node)


def test_it_is_unknown_after_four_intervals() -> None:
    """Until then it counts as a progressing one, as every job begins; then as a watched one in the score, as growing not."""
    assert counted(silent(GRACE_MS - 1)) == ([2, 0, 0], 0, 4.0)

    pool = silent()

    assert counted(pool) == ([1, 0, 0], 1, 3.5)
    assert (pool.node("w1").growing, pool.node("w1").count) == (1, 2)
    assert pool.job("mute").unknown


@pytest.mark.parametrize("first", [grown("mute"), category("mute", c.Category.WATCHED)])
def test_the_first_growth_makes_it_known(first: c.ClusterEvent) -> None:
    """From then on it is in its category."""
    pool = silent()
    pool.fold(first)

    assert counted(pool)[1] == 0
    assert not pool.job("mute").unknown


def test_a_job_that_ends_unknown_leaves_nothing_behind() -> None:
    """And a retry begins with a new grace."""
    pool = silent()
    pool.fold(pool.stopped("mute", 1))
    assert counted(pool) == ([1, 0, 0], 0, 2.0)
    pool.fold(c.RetryPlanned(job="mute", incarnation=1, charged=True, not_before_ms=0, reason="it failed"))
    pool.fold(placement("mute", "w1", incarnation=1, plan="again"))

    assert counted(pool) == ([2, 0, 0], 0, 4.0)
    pool.tick(GRACE_MS)
    assert counted(pool) == ([1, 0, 0], 1, 3.5)


def measured(*, every: int = 1, of: c.Category = c.Category.WATCHED) -> FoldedPool:
    """Growth of a job was measured five times, with some intervals between, and another job has converged."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("other", "w1", c.Category.CONVERGED)
    pool.run("a", "w1", of)
    for _ in range(5):
        pass_by(pool, every)
        pool.fold(grown("a", of))
    return pool


def pass_by(pool: FoldedPool, intervals: int) -> None:
    """So much time passes, in which the other job is measured."""
    for _ in range(intervals * INTERVAL_MS // 1_000):
        pool.tick(1_000)
        pool.fold(grown("other", c.Category.CONVERGED))


@pytest.mark.parametrize(("every", "silence"), [(1, 4), (3, 12)])
def test_a_job_of_which_nothing_more_is_measured_is_unknown(every: int, silence: int) -> None:
    """Its losses are no numbers any more, or there are none: after four times the time between two measurements."""
    pool = measured(every=every)
    pass_by(pool, silence - 1)
    assert counted(pool) == ([0, 1, 1], 0, 2.5)
    assert pool.view.jobs.undecided == 1
    pass_by(pool, 1)

    assert counted(pool) == ([0, 0, 1], 1, 2.5)
    assert (pool.job("a").unknown, pool.job("other").unknown) == (True, False)
    assert pool.view.jobs.undecided == 0


def test_the_next_growth_makes_it_known_again() -> None:
    """In the category that it had, until the categorizer says otherwise; and one long silence excuses no other."""
    pool = measured()
    pass_by(pool, 100)
    pool.fold(grown("a"))
    assert counted(pool) == ([0, 1, 1], 0, 2.5)
    pass_by(pool, 15)
    assert not pool.job("a").unknown
    pass_by(pool, 1)

    assert counted(pool) == ([0, 0, 1], 1, 2.5)


def test_a_converged_job_that_falls_silent_is_moved_no_more() -> None:
    """Nothing shows that it is converged still."""
    pool = measured(of=c.Category.CONVERGED)
    assert [job.name for job in pool.view.jobs.most_recently_converged()] == ["a", "other"]
    pass_by(pool, 4)

    assert [job.name for job in pool.view.jobs.most_recently_converged()] == ["other"]


def test_time_without_a_process_is_no_silence() -> None:
    """A job that was suspended, or waited after a failure, has as long as any from its start on."""
    pool = measured()
    pool.feed(pool.stopped("a", 1), c.RetryPlanned(job="a", incarnation=1, charged=True, not_before_ms=0, reason="1"))
    pass_by(pool, 50)
    pool.fold(placement("a", "w1", incarnation=1, plan="again"))
    pass_by(pool, 3)
    assert counted(pool) == ([0, 1, 1], 0, 2.5)
    pass_by(pool, 1)

    assert counted(pool) == ([0, 0, 1], 1, 2.5)


def test_a_silent_job_holds_rebalancing_up_no_longer() -> None:
    """Until then the rebalancer waits for it: it was watched when it printed its last number."""
    for silence, moves in ((3, 0), (4, 1)):
        pool = DeciderDriver(Rebalancer(), w1=1_000)
        pool.fold(TODAY)
        for job, of in (("a", c.Category.WATCHED), ("b", c.Category.CONVERGED), ("d", c.Category.CONVERGED)):
            pool.run(job, "w1", of)
        pool.fold(joined("w2"))
        for _ in range(silence * INTERVAL_MS // 1_000):
            pool.tick(1_000)
            pool.feed(grown("b", c.Category.CONVERGED), grown("d", c.Category.CONVERGED))
        assert len(pool.decided) == moves


def test_it_holds_rebalancing_up_no_longer() -> None:
    """The rebalancer waits for a growth measurement only of jobs in their grace period."""
    pool = silent()

    assert pool.view.jobs.newest_silent_counted_ms() is None
