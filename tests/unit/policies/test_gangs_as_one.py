"""SpeCon, FlowCon and the policy ``steepest`` beside a gang: it is whole or not there, and no replica is moved by itself."""

from __future__ import annotations

import pytest

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.policies import POOL
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import SimJob, Workload

GANG = "gang"
NODES = [SimNode(name=f"n{number}", capacity=Resources(cpu_m=4_000)) for number in range(3)]
SINGLES = 9


def jobs() -> tuple[SimJob, ...]:
    """A gang of three on three nodes, among jobs that converge and would be moved or limited."""
    requests = Resources(cpu_m=400)
    single = {"requests": requests, "demand_cpu_m": 2_000, "work_s": 600.0, "iterations": 600}
    return (
        SimJob(name=GANG, submit_s=1.0, replicas=3, requests=Resources(cpu_m=1_000), work_s=900.0, iterations=900),
        *(SimJob(name=f"single-{number}", submit_s=2.0 + 40 * number, **single) for number in range(SINGLES)),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("policy", ["specon", "flowcon", "specon+flowcon", "steepest"])
def test_a_gang_is_one(policy: str) -> None:
    """Others are moved or limited beside it; it starts once with all its replicas, ends, and is left where it is.

    Only the policy ``steepest`` limits it, too.
    """
    log: list[c.ClusterEvent] = []
    cluster = ClusterSpec(source="drawn", nodes=NODES)
    parameters = POOL[policy].parameters(PoolParameters())
    workload = Workload(source="drawn", format="drawn", jobs=jobs())
    result = simulate_system(workload, cluster, policy, parameters, 0, watch=lambda one: log.append(one.event))

    assert [job.outcome for job in result.jobs] == ["finished"] * (1 + SINGLES)
    begun = [event for event in log if isinstance(event, c.StepBegun) and event.job == GANG]
    assert [(event.step, len(event.nodes)) for event in begun] == [(c.Step.START, 3)]
    moved = {event.job for event in log if isinstance(event, c.MigrationPlanned)}
    limited = {limit.job for event in log if isinstance(event, c.LimitsPlanned) for limit in event.limits}
    assert (moved | limited) - {GANG}
    assert GANG not in moved
    assert GANG not in limited or policy == "steepest"
    assert (result.deadlocked, result.partial_gang_ms_max) == (0, 0)
