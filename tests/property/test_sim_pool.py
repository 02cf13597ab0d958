"""Under every policy of a pool and any workload, work is conserved, and no job waits that would fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.policies.pending import Pending
from steepest.view.cluster_view import ClusterView
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.policies import POOL
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import SimJob, Workload

JOB = st.tuples(st.integers(0, 300), st.integers(1, 9), st.integers(1, 300), st.integers(1, 60))
"""Submission, half cores, work in seconds, iterations."""


def workload(drawn: Sequence[tuple[int, int, int, int]]) -> Workload:
    """Jobs that request all the CPU that they can use."""
    jobs = [
        SimJob(
            name=f"job-{number}",
            submit_s=float(submit_s),
            requests=Resources(cpu_m=500 * halves),
            work_s=float(work_s),
            iterations=iterations,
            memory_mib=100,
        )
        for number, (submit_s, halves, work_s, iterations) in enumerate(sorted(drawn))
    ]
    return Workload(source="drawn", format="drawn", jobs=jobs)


def step_s(job: SimJob) -> float:
    """The seconds of work in one step."""
    return job.work_s / job.iterations


class IdleCheck:
    """Folds the log, and checks at each tick that no job waits that would fit."""

    def __init__(self) -> None:
        self.view = ClusterView()
        self.ticks = 0

    def __call__(self, received: Received[Any]) -> None:
        """Take in a record."""
        self.view.fold(received)
        if not isinstance(received.event, c.Tick):
            return
        self.ticks += 1
        if self.view.parameters.dragon.one_start and self.view.parameters.dragon.on:
            return  # a pass starts one job, and the next pass may be later than the tick
        for job in self.view.jobs.queue:
            for node in self.view.nodes:
                assert Pending().no_room(job, node), f"{job.name} waits, and {node.name} has room"


@pytest.mark.parametrize("policy", POOL)
@given(drawn=st.lists(JOB, min_size=1, max_size=10), cores=st.lists(st.integers(1, 4), min_size=1, max_size=3))
@example(drawn=[(0, 6, 170, 1), (1, 6, 170, 1), (2, 9, 200, 1), (3, 1, 1, 1)], cores=[1, 4, 1])  # the third never fits
@settings(max_examples=scaled(15), deadline=None)
def test_work_is_conserved(policy: str, drawn: list[tuple[int, int, int, int]], cores: list[int]) -> None:
    """A job that fits finishes, not before its work can be done; of a step in which it was stopped the work is repeated."""
    given_workload = workload(drawn)
    nodes = [SimNode(name=f"node-{n}", capacity=Resources(cpu_m=1000 * size)) for n, size in enumerate(cores)]
    looks = IdleCheck()
    parameters = POOL[policy].parameters(PoolParameters())
    result = simulate_system(
        given_workload, ClusterSpec(source="drawn", nodes=nodes), policy, parameters, 7, watch=looks
    )

    for sim, job in zip(given_workload.jobs, result.jobs, strict=True):
        if sim.requests.cpu_m > 1000 * max(cores):
            assert job.outcome == "rejected"
            continue
        assert job.outcome == "finished"
        assert job.start_s is not None
        assert job.end_s is not None
        assert sim.submit_s <= job.start_s + 1e-3
        assert job.end_s >= job.start_s + sim.work_s - 1e-3
    done = [(sim, job) for sim, job in zip(given_workload.jobs, result.jobs, strict=True) if job.end_s is not None]
    needed = sum(sim.requests.cpu_m * sim.work_s for sim, _ in done)
    repeated = sum(sim.requests.cpu_m * step_s(sim) * (job.migrations + job.preemptions) for sim, job in done)
    assert needed * (1 - 1e-6) <= result.used <= (needed + repeated) * (1 + 1e-6)
    assert looks.ticks or not done
