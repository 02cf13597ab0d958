"""A simulated pool is the live system: same rules, same decisions, same promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.virtual_time import run_virtually
from tests.unit.sim.twins import decided_in_a_rig, decided_in_simulation

from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.invariants import Status, check
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.policies import POOL, pool_policy, refuse_unfit
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import SimJob, Workload
from steepest_lab.sim.workloads.arrivals import arrivals


def run(
    policy: str, *, seed: int = 3, cluster: ClusterSpec | None = None, workload: Workload | None = None
) -> tuple[SimulationResult, list[Received[Any]]]:
    """A run on mixed jobs that all start on one node, so that there is something to move; and its log."""
    workload = workload or arrivals("mixed-20", seed)
    log: list[Received[Any]] = []
    result = simulate_system(
        workload,
        cluster or open_cluster("3x8cpu"),
        policy,
        POOL[policy].parameters(PoolParameters()),
        seed,
        first_nodes={job.name: (cluster or open_cluster("3x8cpu")).nodes[0].name for job in workload.jobs},
        watch=log.append,
    )
    return result, log


@pytest.mark.parametrize("policy", list(POOL))
def test_all_jobs_end_and_all_invariants_hold(policy: str) -> None:
    """The checkers that judge a live log judge a simulated one, and find nothing broken."""
    mixed = arrivals("mixed-20", 3)
    result, log = run(policy, workload=msgspec.structs.replace(mixed, jobs=mixed.jobs[:10]))

    assert [job.outcome for job in result.jobs] == ["finished"] * 10
    assert [f"{one.checker}: {one.message}" for one in check(log) if one.status is not Status.HOLDS] == []


def test_specon_moves_what_is_crowded_and_loses_no_step() -> None:
    """All jobs start on one of three nodes: SpeCon moves some, and all jobs finish sooner."""
    spread, _ = run("spread")
    specon, log = run("specon")
    moved = [one.event for one in log if isinstance(one.event, c.MigrationFinished)]

    assert len(moved) == sum(job.migrations for job in specon.jobs) > 0
    assert all(event.steps_lost == 0 for event in moved)
    assert specon.summary().makespan < spread.summary().makespan


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("spread", ["first", "long", "urgent", "short"]),
        ("spread:fifo", ["first", "long", "urgent", "short"]),
        ("spread:priority", ["first", "urgent", "long", "short"]),
        ("steepest:srtf", ["first", "short", "urgent", "long"]),
        ("spread:tiresias", ["first", "long", "urgent", "short"]),
    ],
)
def test_waiting_jobs_start_in_the_order_of_the_queue_policy(policy: str, order: list[str]) -> None:
    """There is room for one at a time; none has attained service while it waits, so tiresias goes by submission."""
    sizes = {"first": (0.0, 10), "long": (1.0, 40), "urgent": (2.0, 30), "short": (3.0, 20)}
    jobs = [
        SimJob(
            name=name,
            submit_s=submit_s,
            requests=Resources(cpu_m=1000),
            work_s=work_s,
            iterations=work_s,
            priority=name == "urgent",
        )
        for name, (submit_s, work_s) in sizes.items()
    ]
    chosen = pool_policy(policy)
    assert chosen is not None
    result = simulate_system(
        Workload(source="test", format="test", jobs=jobs),
        open_cluster("1x1cpu"),
        policy,
        chosen.parameters(PoolParameters()),
        0,
    )

    assert [job.name for job in sorted(result.jobs, key=lambda job: job.start_s or 0)] == order


def test_a_queue_policy_that_is_none_is_refused() -> None:
    """And an allocation policy has no queue of a pool."""
    for name in ("spread:lifo", "srtf:fifo", "spread:", ":fifo", "spread:fifo:fifo"):
        with pytest.raises(InputError, match="there is no policy"):
            refuse_unfit(name, "default")
    refuse_unfit("specon:priority", "default")


def test_procon_places_by_what_is_left() -> None:
    """Two nodes with a job each. The first has nearly all its work before it, the second little: an arrival goes there.

    By requests both nodes are equal, and the first name would get it.
    """
    jobs = [
        SimJob(name=name, submit_s=at_s, requests=Resources(cpu_m=100), demand_cpu_m=1000, work_s=work_s, iterations=50)
        for name, at_s, work_s in (("long", 0.0, 500.0), ("short", 0.0, 50.0), ("new", 30.0, 10.0))
    ]
    places: dict[str, dict[str, tuple[str, ...]]] = {}
    for policy in ("spread", "procon"):
        log: list[Received[Any]] = []
        workload = Workload(source="test", format="test", jobs=jobs)
        cluster, parameters = open_cluster("2x1cpu"), POOL[policy].parameters(PoolParameters())
        simulate_system(workload, cluster, policy, parameters, 0, watch=log.append)
        plans = [one.event for one in log if isinstance(one.event, c.PlacementPlanned)]
        places[policy] = {plan.job: plan.nodes for plan in plans}
        assert [plan.because.rule.split(":")[0] for plan in plans] == [policy] * 3

    assert places["spread"] == {"long": ("node-0",), "short": ("node-1",), "new": ("node-0",)}
    assert places["procon"] == {"long": ("node-0",), "short": ("node-1",), "new": ("node-1",)}


def test_a_limit_is_seen_in_who_ends_first() -> None:
    """Under FlowCon limits are planned and applied, and no limit is refused."""
    _, log = run("flowcon")
    kinds = [type(one.event) for one in log]

    assert c.LimitsPlanned in kinds
    assert c.LimitsApplied in kinds
    assert c.LimitsRefused not in kinds


def test_a_failed_node_costs_time_and_no_job() -> None:
    """Nodes that fail now and then end what runs on them; every job still ends, later."""
    steady = open_cluster("3x8cpu")
    shaky = ClusterSpec(
        source="shaky",
        nodes=[msgspec.structs.replace(node, mtbf_s=400.0, repair_s=60.0) for node in steady.nodes],
    )
    result, log = run("specon", cluster=shaky)
    lost = [one for one in log if isinstance(one.event, c.NodeLost)]

    assert lost
    assert [job.outcome for job in result.jobs] == ["finished"] * 20
    assert result.summary().makespan > run("specon")[0].summary().makespan


def test_checkpoints_that_share_a_slow_storage_take_longer() -> None:
    """Moves of jobs with large checkpoints meet; with a bandwidth for each of them nothing changes."""
    plain, mixed = open_cluster("3x8cpu"), arrivals("mixed-20", 3)
    large = msgspec.structs.replace(mixed, jobs=[msgspec.structs.replace(job, memory_mib=4_000) for job in mixed.jobs])
    clusters = [msgspec.structs.replace(plain, shared_storage_mib_s=rate) for rate in (None, 1e6, 100.0)]
    alone_s, fast_s, slow_s = (
        run("specon", workload=large, cluster=cluster)[0].summary().makespan for cluster in clusters
    )

    assert fast_s == pytest.approx(alone_s)
    assert slow_s > alone_s


def test_a_job_that_fails_is_retried_and_what_never_fits_is_rejected() -> None:
    """One crashes at half its run and is started again; one asks for more than any node has."""
    small = SimJob(
        name="crashes", submit_s=0.0, requests=Resources(cpu_m=1000), work_s=100, iterations=100, fails_at=0.5
    )
    big = SimJob(name="big", submit_s=0.0, requests=Resources(cpu_m=64_000), work_s=10, iterations=10)
    workload = Workload(source="test", format="test", jobs=[small, big])
    result = simulate_system(workload, open_cluster("1x8cpu"), "spread", PoolParameters(moves=False), 0)
    crashed, rejected = result.jobs

    assert (crashed.outcome, rejected.outcome) == ("finished", "rejected")
    assert crashed.jct_s > 150  # it had no checkpoint, so half of it was for nothing
    assert rejected.start_s is None


def test_the_same_seed_gives_the_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    """Two processes with other hash seeds write the same files."""
    outs = []
    steepest = str(Path(sys.executable).with_name("steepest"))
    what = (
        "--workload",
        "thesis:mixed-20",
        "--cluster",
        "4x8cpu",
        "--policy",
        "specon+flowcon,procon,srtf,slaq",
        "--seed",
        "0-1",
    )
    for number, hash_seed in enumerate(("1", "2718")):
        out = tmp_path / str(number)
        command = [steepest, "simulate", *what, "--out", str(out), "--jobs", str(number + 1)]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, check=True, timeout=100)
        outs.append((out / "jobs.csv").read_bytes())
    assert outs[0] == outs[1]


def test_the_runtime_and_the_simulation_decide_alike(tmp_path: Path) -> None:
    """The services as they run live, over the same nodes and trainings, come to the same categories, moves and stays."""
    live = run_virtually(decided_in_a_rig(tmp_path))
    simulated = decided_in_simulation()

    assert any(isinstance(event, c.MigrationPlanned) for event in simulated)
    assert [twin(event) for event in live] == [twin(event) for event in simulated]


def twin(event: Any) -> tuple[str, ...]:
    """What must be alike of a decision; the growth's last digits depend on when exactly a report was read."""
    match event:
        case c.MigrationPlanned():
            return ("move", event.job, event.source, event.target)
        case c.StayDecided():
            return ("stay", event.job, event.node)
    return ("category", event.job, event.before.value, event.after.value)


def test_a_gpu_job_computes_at_its_nodes_speed() -> None:
    """Work of 100 s takes 50 s on a node of speed 2, beside its launch."""
    job = SimJob(name="a", submit_s=0.0, requests=Resources(gpus=2), work_s=100, iterations=100)
    node = SimNode(name="n", capacity=Resources(cpu_m=8000, gpus=4), speed=2.0)
    workload = Workload(source="test", format="test", jobs=[job])
    spec = ClusterSpec(source="test", nodes=[node])
    result = simulate_system(workload, spec, "spread", PoolParameters(moves=False), 0)

    assert result.jobs[0].jct_s == pytest.approx(50, abs=5)
    assert result.used == pytest.approx(2 * result.jobs[0].jct_s, rel=0.1)
