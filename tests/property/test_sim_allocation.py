"""Under the default rules and any workload, work is conserved, no share is given twice, and no usable share is idle."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled

from steepest.events.common import Resources
from steepest_lab.baselines.by_name import BASELINES
from steepest_lab.baselines.policy import ServiceOrder
from steepest_lab.sim.allocation import simulate as engine
from steepest_lab.sim.allocation.job import RunningJob
from steepest_lab.sim.allocation.shares import EqualPieces, StickyShares
from steepest_lab.sim.allocation.simulate import simulate_allocation
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.rules import DEFAULT, AtRestart
from steepest_lab.sim.workload import SimJob, Workload

LAUNCH_S = 5.0
CONSERVING = ("sjf", "srtf", "srsf", "las", "tiresias", "gandiva")
"""Policies under which no job waits that would fit; ``fifo`` holds its queue, the others wait for their rounds."""

JOB = st.tuples(st.integers(0, 2_000).map(float), st.integers(1, 12), st.integers(1, 3_000).map(float))
JOBS = st.lists(JOB, min_size=1, max_size=15)
SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def workload(drawn: Sequence[tuple[float, int, float]], *, cpu: bool = False) -> Workload:
    """Jobs of (submission, units, work); of CPU, some have two replicas."""
    jobs = []
    for number, (submit_s, units, work_s) in enumerate(sorted(drawn, key=lambda job: job[0])):
        replicas = 2 if cpu and units % 2 == 0 else 1
        requests = Resources(cpu_m=500 * units // replicas) if cpu else Resources(gpus=units)
        jobs.append(
            SimJob(
                name=f"job-{number}",
                submit_s=submit_s,
                requests=requests,
                replicas=replicas,
                work_s=work_s,
                iterations=50,
            )
        )
    return Workload(source="drawn", format="drawn", jobs=jobs)


def cluster(sizes: Sequence[int]) -> ClusterSpec:
    """Nodes of so many GPUs, and half a CPU for each."""
    nodes = [
        SimNode(name=f"node-{number}", capacity=Resources(cpu_m=500 * size, gpus=size))
        for number, size in enumerate(sizes)
    ]
    return ClusterSpec(source="drawn", nodes=nodes)


class Watched:
    """An allocation policy that checks the wrapped policy after every decision."""

    def __init__(self, inner: StickyShares | EqualPieces, *, conserving: bool) -> None:
        self.inner = inner
        self.conserving = conserving
        self.ever_fits = inner.ever_fits
        self.release = inner.release

    def serve(
        self, order: ServiceOrder, running: list[RunningJob], turn: int
    ) -> tuple[list[RunningJob], list[RunningJob]]:
        """Serve, and check."""
        runs, fresh = self.inner.serve(order, running, turn)
        nodes = self.inner.nodes
        used: dict[int, int] = defaultdict(int)
        for job in runs:
            assert sum(units for _, units in job.place) == job.units > 0
            for node, units in job.place:
                used[node] += units
                assert not job.pieces or units % (job.units // job.pieces) == 0
        for node, capacity in enumerate(nodes.capacity):
            assert nodes.free[node] == capacity - used[node] >= 0
        if self.conserving:
            waiting = [job for job in order.jobs if not job.units]
            assert all(nodes.consolidated(job.asked, _piece(job)) is None for job in waiting)  # type: ignore[arg-type]
        return runs, fresh


def _piece(job: RunningJob) -> int:
    return job.asked // job.pieces if job.pieces else 1


def run(
    drawn: Sequence[tuple[float, int, float]], sizes: Sequence[int], policy: str, *, cpu: bool = False
) -> tuple[Workload, SimulationResult]:
    """Run a policy with everything watched."""
    inner = engine._shares
    given_workload = workload(drawn, cpu=cpu)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            engine,
            "_shares",
            lambda *args, **named: Watched(inner(*args, **named), conserving=policy in CONSERVING),  # type: ignore[arg-type]
        )
        return given_workload, simulate_allocation(given_workload, cluster(sizes), policy, DEFAULT, 7)


@pytest.mark.parametrize("policy", BASELINES)
@given(drawn=JOBS, sizes=SIZES, cpu=st.booleans())
@settings(max_examples=scaled(40), deadline=None)
def test_work_is_conserved(policy: str, drawn: list[tuple[float, int, float]], sizes: list[int], *, cpu: bool) -> None:
    """A job that fits an empty cluster finishes, not before its work can be done; all shares lie within their nodes."""
    given_workload, result = run(drawn, sizes, policy, cpu=cpu)

    for sim, job in zip(given_workload.jobs, result.jobs, strict=True):
        if job.outcome == "rejected":
            asked = sim.requests.cpu_m if cpu else sim.gpus
            unit = 500 if cpu else 1
            fits = sum(unit * size // asked for size in sizes) >= sim.replicas if cpu else asked <= sum(sizes)
            assert not fits
            continue
        assert job.outcome == "finished"
        assert job.start_s is not None
        assert job.end_s is not None
        assert sim.submit_s <= job.start_s
        assert job.end_s >= job.start_s + LAUNCH_S + sim.work_s - 1e-6
    if policy not in {"optimus", "slaq"}:
        jobs = [job for job, one in zip(given_workload.jobs, result.jobs, strict=True) if one.end_s is not None]
        least = sum(_units(job, cpu=cpu) * (job.work_s + LAUNCH_S) for job in jobs)
        assert result.used >= least - 1e-3
        if not any(job.preemptions or job.migrations for job in result.jobs):
            assert result.used == pytest.approx(least)


def _units(job: SimJob, *, cpu: bool) -> int:
    return job.requests.cpu_m * job.replicas if cpu else job.gpus


@pytest.mark.parametrize("policy", [name for name in BASELINES if name not in {"optimus", "slaq"}])
@given(drawn=JOBS, cpu=st.booleans())
@settings(max_examples=scaled(20), deadline=None)
def test_without_contention_jobs_take_their_time(
    policy: str, drawn: list[tuple[float, int, float]], *, cpu: bool
) -> None:
    """On an ample cluster every job starts immediately and ends after launch and work, to the microsecond."""
    given_workload, result = run(drawn, [12] * 20, policy, cpu=cpu)

    for sim, job in zip(given_workload.jobs, result.jobs, strict=True):
        assert job.start_s == sim.submit_s
        assert job.end_s == pytest.approx(sim.submit_s + LAUNCH_S + sim.work_s, abs=1e-6)
        assert (job.preemptions, job.migrations) == (0, 0)


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
@given(drawn=JOBS, sizes=SIZES, cpu=st.booleans())
@settings(max_examples=scaled(40), deadline=None)
def test_policies_without_preemption_never_restart(
    policy: str, drawn: list[tuple[float, int, float]], sizes: list[int], *, cpu: bool
) -> None:
    """Under these, a job that has started ends after launch and work, and fifo starts in the order of submission."""
    given_workload, result = run(drawn, sizes, policy, cpu=cpu)

    finished = [
        (sim, job) for sim, job in zip(given_workload.jobs, result.jobs, strict=True) if job.outcome == "finished"
    ]
    for sim, job in finished:
        assert job.end_s == pytest.approx((job.start_s or 0.0) + LAUNCH_S + sim.work_s, abs=1e-6)
    if policy == "fifo":
        starts = [job.start_s or 0.0 for _, job in finished]
        assert all(before <= after for before, after in itertools.pairwise(starts))


@given(drawn=JOBS, sizes=SIZES, policy=st.sampled_from(sorted(BASELINES)), seed=st.integers(0, 9))
@settings(max_examples=scaled(40), deadline=None)
def test_the_same_inputs_give_the_same_bytes(
    drawn: list[tuple[float, int, float]], sizes: list[int], policy: str, seed: int
) -> None:
    """Two runs write the same bytes, except for the elapsed time."""
    first, second = (
        msgspec.structs.replace(
            simulate_allocation(workload(drawn), cluster(sizes), policy, DEFAULT, seed), wall_seconds=0.0
        )
        for _ in range(2)
    )

    assert msgspec.json.encode(first) == msgspec.json.encode(second)


def test_the_hash_seed_changes_nothing() -> None:
    """Two processes with different seeds of Python's own get the same results under every policy."""
    program = (
        "from tests.property.test_sim_allocation import *\n"
        "drawn = [(float(61 * n % 500), 1 + n % 5, 40.0 + 211 * n % 900) for n in range(20)]\n"
        "for policy in BASELINES:\n"
        "    result = simulate_allocation(workload(drawn), cluster([2, 3, 4]), policy, DEFAULT, 3)\n"
        "    print(msgspec.json.encode(result.jobs).decode())\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert outputs[0].count(b"\n") == len(BASELINES)
    assert outputs[0] == outputs[1]


def test_a_policy_that_only_restarts_is_stopped() -> None:
    """Where a slice is shorter than a restart, the run ends, keeps what is known and says why."""
    rules = msgspec.structs.replace(DEFAULT, overhead=AtRestart(launch_s=90.0))

    result = simulate_allocation(workload([(0, 1, 900), (0, 1, 900)]), cluster([1]), "gandiva", rules, 0)

    assert [job.outcome for job in result.jobs] == ["running", "running"]
    assert any("starts take longer" in assumption for assumption in result.assumptions)
    assert not math.isnan(result.summary().mean_jct)
