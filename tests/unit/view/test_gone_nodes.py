"""Nodes that are gone for good: they leave the view, and a node that returns is a new one."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, joined, migration, used
from tests.harness.view_promises import check_view
from tests.unit.flowcon.scene import FlowConPool

from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.view.cluster_view import ClusterView
from steepest.view.folds.fold_pool import GONE_MS

LEAVE = c.PoolConfigured(parameters=PoolParameters(tick_ms=GONE_MS))


def lost(node: str) -> c.NodeLost:
    """A node was silent."""
    return c.NodeLost(node=node, silent_ms=15_000)


def names(pool: FoldedPool) -> list[str]:
    """The nodes of the view, which holds all that it promises, and of one that was restored from its snapshot."""
    check_view(pool.view)
    again = ClusterView.restore(pool.view.snapshot())
    check_view(again)
    assert [node.name for node in again.nodes] == [node.name for node in pool.view.nodes]
    return [node.name for node in pool.view.nodes]


def test_a_lost_node_that_holds_nothing_leaves_after_a_day_of_silence() -> None:
    """Counted from when it was heard of last; not while it is there, however long ago it was heard of."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.feed(LEAVE, lost("w1"))
    pool.tick(GONE_MS - 1)
    assert names(pool) == ["w1", "w2"]
    pool.tick(1)

    assert names(pool) == ["w2"]
    assert pool.feed(used("w1", 5), lost("w1")) == [False, False]


def test_a_node_that_returns_in_time_stays() -> None:
    """It is no lost one any more."""
    pool = FoldedPool(w1=1_000)
    pool.feed(LEAVE, lost("w1"), used("w1", 5))
    pool.tick(GONE_MS)
    assert names(pool) == ["w1"]
    pool.feed(lost("w1"), joined("w1", 2_000))
    pool.tick(GONE_MS)

    assert names(pool) == ["w1"]


def test_a_node_that_returns_later_joins_as_a_new_one() -> None:
    """With nothing of what it was."""
    pool = FoldedPool(w1=1_000)
    pool.feed(used("w1", 700), LEAVE, lost("w1"))
    pool.tick(GONE_MS)
    pool.fold(joined("w1", 2_000))

    assert names(pool) == ["w1"]
    assert (pool.node("w1").capacity.cpu_m, pool.node("w1").used.cpu_m) == (2_000, 0)


def test_a_node_on_which_a_job_may_run_stays() -> None:
    """Until nothing holds a place on it any more, also after a snapshot was restored meanwhile."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("job", "w1")
    pool.feed(LEAVE, lost("w1"))
    pool.tick(2 * GONE_MS)
    assert names(pool) == ["w1", "w2"]
    pool.view = ClusterView.restore(pool.view.snapshot())
    pool.end("job")
    pool.tick()

    assert names(pool) == ["w2"]


def test_a_target_that_is_lost_stays_while_a_move_holds_its_place() -> None:
    """A plan in flight may end there."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("job", "w1")
    pool.feed(LEAVE, migration("job", "w1", "w2"), lost("w2"))
    pool.tick(2 * GONE_MS)

    assert names(pool) == ["w1", "w2"]


@pytest.mark.parametrize(
    "event", [c.JobCancelRequested(job="job", request="x"), c.JobEnded(job="job", outcome=c.Outcome.FAILED)]
)
def test_late_news_of_a_job_whose_node_is_gone_is_decided_about(event: c.ClusterEvent) -> None:
    """The job remembers where it was, and FlowCon looks at no node that is not there."""
    pool = FlowConPool(w1=8_000, w2=8_000)
    pool.run("job", "w1")
    configured = c.PoolConfigured(parameters=msgspec.structs.replace(pool.view.parameters, tick_ms=GONE_MS))
    pool.feed(configured, lost("w1"), pool.stopped("job", exit_status=1))
    pool.tick(2 * GONE_MS)
    assert names(pool) == ["w2"]

    assert pool.fold(event)
