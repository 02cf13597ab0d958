"""What a record costs does not depend on how many jobs there are."""

from __future__ import annotations

import pytest
from tests.harness.call_count import count_calls
from tests.harness.scenarios.folded_pool import FoldedPool, category, grown, used

from steepest.events import cluster as c

CC, WC = c.Category.CONVERGED, c.Category.WATCHED


def running(jobs: int) -> FoldedPool:
    """A pool in which that many jobs run, ten a node, and growth was measured of each."""
    pool = FoldedPool(**{f"n{node}": 2_000 for node in range(jobs // 10)})
    for job in range(jobs):
        pool.run(f"job-{job}", f"n{job % (jobs // 10)}", WC)
    return pool


def calls(pool: FoldedPool, event: c.ClusterEvent) -> int:
    """How many functions the fold of one record calls, Python's and C's."""
    received = pool.append(event)
    counted, counts = count_calls(lambda: pool.view.fold(received))
    assert counts
    return counted


@pytest.mark.parametrize(
    "event",
    [
        grown("job-7"),
        category("job-7", CC),
        used("n1", 900),
        c.Tick(counted_ms=1_000),
        c.ReplicaStopped(job="job-0", incarnation=1, node="n0", exit_status=0),
        c.NodeLost(node="n1", silent_ms=15_000),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_record_costs_the_same_among_twenty_jobs_and_among_two_thousand(event: c.ClusterEvent) -> None:
    """Sums and orders are kept, never recomputed; a few calls more are what larger sorted lists take."""
    few, many = calls(running(20), event), calls(running(2_000), event)
    assert many <= few + 10
