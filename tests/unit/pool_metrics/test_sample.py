"""A pool's gauges: what they say, and that their number does not depend on the number of jobs, nodes and queues."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from tests.harness.scenarios.folded_pool import FoldedPool, joined, submitted, used

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.pool_metrics.counters import PoolCounters
from steepest.pool_metrics.gauges import PoolGauges
from steepest.pool_metrics.sample import NODES_MOST, PoolSample, sampling

SERIES_MOST = 2_000


def sampled(pool: FoldedPool, jobs_named: int = 0) -> PoolSample:
    """The complete sample of a pool."""
    sample = PoolSample()
    for _ in sampling(sample, pool.view, jobs_named, lambda _: None):
        pass
    return sample


@pytest.fixture
def pool() -> FoldedPool:
    """Two nodes and a job on each, and one that waits."""
    pool = FoldedPool(w1=1_000, w2=2_000)
    pool.fold(joined("device", takes_jobs=False))
    pool.run("a", "w1", c.Category.CONVERGED)
    pool.run("b", "w2", c.Category.PROGRESSING, cpu_m=500)
    pool.feed(submitted("c", queue="papers"), used("w2", 700))
    return pool


def test_jobs_queues_and_categories(pool: FoldedPool) -> None:
    """Jobs by phase, by category and by queue."""
    pool.tick(3_000)
    values = sampled(pool).values

    assert values["jobs"] == {("waiting",): 1, ("suspended",): 0, ("running",): 2, ("stopped",): 0}
    assert values["jobs_by_category"] == {("PC",): 1, ("WC",): 0, ("CC",): 1, ("unknown",): 0}
    assert values["queue_jobs"] == {("default",): 0, ("papers",): 1}
    assert values["queue_oldest_seconds"][("papers",)] == 3


def test_nodes_in_base_units(pool: FoldedPool) -> None:
    """Cores, not millicores; a device that takes no jobs has no series of its own."""
    pool.fold(c.NodeLost(node="w1", silent_ms=20_000))
    values = sampled(pool).values

    assert values["nodes"] == {("open",): 1, ("lost",): 1, ("watched",): 1}
    assert values["node_up"] == {("w1",): 0, ("w2",): 1}
    assert values["node_cpu_capacity_cores"] == {("w1",): 1, ("w2",): 2}
    assert values["node_cpu_reserved_cores"] == {("w1",): 0.1, ("w2",): 0.5}
    assert values["node_cpu_used_cores"][("w2",)] == 0.7
    assert values["node_replicas"][("w1", "CC")] == 1


def test_the_policy_in_force(pool: FoldedPool) -> None:
    """By name, so that pools can be compared by it."""
    assert sampled(pool).values["pool_info"] == {("specon", "fifo"): 1}


def test_jobs_have_names_only_where_that_is_asked_for(pool: FoldedPool) -> None:
    """None at first; then as many as were asked for."""
    assert not [name for name in sampled(pool).values if name.startswith("job_")]
    assert sampled(pool, jobs_named=1).values["job_category"] == {("a", "w1"): 2}


def test_a_large_pool_has_few_series() -> None:
    """Thousands of jobs in hundreds of queues on hundreds of nodes."""
    pool = FoldedPool()
    for number in range(300):
        pool.fold(c.NodeJoined(node=f"n{number:03}", capacity=Resources(cpu_m=10_000, gpus=8)))
    for number in range(3_000):
        pool.fold(submitted(f"job-{number}", queue=f"q{number % 500}"))
    registry = CollectorRegistry()
    gauges = PoolGauges(registry)
    PoolCounters(registry).begin("blue")
    sample = sampled(pool)
    gauges.show("blue", sample)

    series = [one for metric in registry.collect() for one in metric.samples]
    assert len(series) < SERIES_MOST
    assert sum(sample.values["queue_jobs"].values()) == 3_000
    assert sum(sample.values["node_cpu_capacity_cores"].values()) == 3_000
    assert sample.values["nodes_unnamed"] == {(): 300 - NODES_MOST}
    assert not [one for one in series if any("job-" in value for value in one.labels.values())]
