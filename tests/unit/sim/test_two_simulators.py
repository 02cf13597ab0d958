"""Without sharing, the pool and the allocation engine agree but for the cost of a start."""

from __future__ import annotations

import pytest

from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest_lab.sim.allocation.simulate import simulate_allocation
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.policies import POOL
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.rules import DEFAULT
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import SimJob, Workload

START_S = 6.0
"""A start costs 5 s in the allocation engine; in a pool a launch is drawn, and takes less."""


def both(workload: Workload, *nodes: SimNode) -> tuple[SimulationResult, SimulationResult]:
    """The workload in a pool that only places, and first come first served in the allocation engine."""
    cluster = ClusterSpec(source="test", nodes=nodes)
    parameters = POOL["spread"].parameters(PoolParameters())
    return (
        simulate_system(workload, cluster, "spread", parameters, 0),
        simulate_allocation(workload, cluster, "fifo", DEFAULT, 0),
    )


@pytest.mark.parametrize("nodes", [1, 4])
def test_jobs_of_one_gpu_end_alike_in_both(nodes: int) -> None:
    """On one node with two GPUs they wait for each other, on four nodes they do not; starts add up along a queue."""
    jobs = [
        SimJob(name=f"job-{n}", submit_s=100.0 * n, requests=Resources(gpus=1), work_s=1_000.0 + 37 * n, iterations=50)
        for n in range(8)
    ]
    workload = Workload(source="test", format="test", jobs=jobs)
    node = SimNode(name="node", capacity=Resources(cpu_m=8_000, gpus=2))
    pool, allocation = both(workload, *(SimNode(name=f"{node.name}-{n}", capacity=node.capacity) for n in range(nodes)))
    queue = 4 if nodes == 1 else 1

    for one, other in zip(pool.jobs, allocation.jobs, strict=True):
        assert one.jct_s == pytest.approx(other.jct_s, abs=queue * START_S)
    assert pool.summary().makespan > (4_000 if nodes == 1 else 1_000)


def test_jobs_of_cpu_do_not() -> None:
    """Two jobs that can each use the whole node: a pool shares it between them, the allocation engine lets one wait.

    Together they take as long; their completion times are no measure of the policies.
    """
    jobs = [
        SimJob(name=name, submit_s=0.0, requests=Resources(cpu_m=100), demand_cpu_m=1_000, work_s=200.0, iterations=50)
        for name in ("a", "b")
    ]
    workload = Workload(source="test", format="test", jobs=jobs)
    pool, allocation = both(workload, SimNode(name="node", capacity=Resources(cpu_m=1_000)))

    assert pool.summary().makespan == pytest.approx(allocation.summary().makespan, abs=2 * START_S)
    assert [job.start_s for job in pool.jobs] == [0.0, 0.0]
    assert pool.summary().mean_jct == pytest.approx(400, abs=2 * START_S)
    assert allocation.summary().mean_jct == pytest.approx(300, abs=2 * START_S)


def test_only_the_pool_simulates_failures_and_the_other_engine_says_so() -> None:
    """A job that fails at half its run fails in a pool; the allocation engine states that it ignores failures."""
    job = SimJob(
        name="a", submit_s=0.0, requests=Resources(gpus=1), work_s=200.0, iterations=50, fails_at=0.5, memory_mib=100
    )
    workload = Workload(source="test", format="test", jobs=[job])
    pool, allocation = both(workload, SimNode(name="node", capacity=Resources(cpu_m=1_000, gpus=1)))

    assert pool.jobs[0].jct_s > 290
    assert allocation.jobs[0].jct_s == pytest.approx(205)
    assert "no node and no job fails, even where the cluster or the workload has failures" in allocation.assumptions
