"""Gangs in a simulated pool: their pace, their links, and what becomes of them pod by pod."""

from __future__ import annotations

import msgspec
import pytest

from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.policies import POOL
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import SimJob, Workload
from steepest_lab.sim.workloads.gang_arrivals import gang_arrivals
from steepest_lab.simulated.network import Network, Place, Rates, loads_of

GPU = Resources(cpu_m=1_000, gpus=1)


def gang(name: str, replicas: int, submit_s: float = 0.0, **more: float) -> SimJob:
    """A gang of a GPU a replica, with 100 s of work in 100 steps."""
    fields = {"work_s": 100.0, "iterations": 100, "requests": GPU, "replicas": replicas, **more}
    return SimJob(name=name, submit_s=submit_s, **fields)  # type: ignore[arg-type]


def run(policy: str, *jobs: SimJob, nodes: tuple[int, ...] = (4, 4), network_mib_s: float = 100.0) -> SimulationResult:
    """Jobs on nodes of so many GPUs."""
    cluster = ClusterSpec(
        source="drawn",
        nodes=[
            SimNode(
                name=f"node-{number}",
                capacity=Resources(cpu_m=100_000, gpus=gpus),
                local_mib_s=10_000.0,
                network_mib_s=network_mib_s,
            )
            for number, gpus in enumerate(nodes)
        ],
    )
    pool = POOL[policy]
    workload = Workload(source="drawn", format="drawn", jobs=jobs)
    parameters = pool.parameters(PoolParameters())
    return simulate_system(workload, cluster, policy, parameters, 0, pod_by_pod=pool.pod_by_pod)


@pytest.mark.parametrize(
    ("places", "loads"),
    [
        ("a a", {("local", "a"): 200.0}),
        ("a b", {("network", "a"): 100.0, ("network", "b"): 100.0}),
        ("a a b b", {("network", "a"): 150.0, ("network", "b"): 150.0, ("local", "a"): 150.0, ("local", "b"): 150.0}),
        ("A a a", {("local", "a"): 400.0}),
        ("A a b b", {("network", "a"): 200.0, ("network", "b"): 200.0, ("local", "a"): 200.0}),
        ("A b", {("network", "a"): 100.0, ("network", "b"): 100.0}),
        ("A B a b", {("network", "a"): 100.0, ("network", "b"): 100.0, ("local", "a"): 100.0, ("local", "b"): 100.0}),
    ],
)
def test_what_a_gang_exchanges(places: str, loads: dict[tuple[str, str], float]) -> None:
    """100 MiB of gradients a worker: by a ring, or, with capitals, over parameter servers."""
    assert loads_of([Place(name.lower(), name.isupper()) for name in places.split()], 100.0) == loads


def test_gangs_share_a_link() -> None:
    """A second gang on a link halves the first one's rate, until it leaves."""
    network = Network({"a": Rates(1_000.0, 10.0), "b": Rates(1_000.0, 10.0)})

    assert network.join("one", {("network", "a"): 20.0}) == []
    assert network.step_s("one") == pytest.approx(2.0)
    assert network.join("two", {("network", "a"): 10.0, ("network", "b"): 5.0}) == ["one"]
    assert network.step_s("one") == pytest.approx(4.0)
    assert network.step_s("two") == pytest.approx(2.0)
    assert network.leave("two") == ["one"]
    assert network.step_s("one") == pytest.approx(2.0)


def test_a_gang_that_spans_nodes_is_slower() -> None:
    """100 steps of a second; across nodes, each takes 1.5 s more for 150 MiB at 100 MiB/s."""
    whole = run("dragon-fixed", gang("a", 4, exchanged_mib=100.0)).jobs[0]
    spread = run("gang-only", gang("a", 4, exchanged_mib=100.0)).jobs[0]

    assert whole.end_s is not None
    assert spread.end_s is not None
    assert whole.jct_s == pytest.approx(100 + 100 * 0.06, abs=3)
    assert spread.jct_s == pytest.approx(100 + 100 * 1.5, abs=3)


def test_half_of_the_workers_take_twice_as_long() -> None:
    """A batch is divided among the workers that there are."""
    found = run("dragon-no-scaling", gang("a", 4, min_replicas=2), nodes=(2,))

    assert found.jobs[0].jct_s == pytest.approx(200, abs=3)
    assert found.scale_ups == 0


def test_an_idle_pool_lets_a_gang_grow() -> None:
    """After a minute it has twice the workers, and loses what a restart takes."""
    found = run("dragon-fixed", gang("a", 2, max_replicas=4, work_s=400.0, iterations=400), nodes=(4,))

    assert found.scale_ups == 1
    assert found.jobs[0].jct_s == pytest.approx(60 + 340 / 2, abs=25)


def test_a_starving_gang_has_another_one_shrink() -> None:
    """It starts after 30 s, and a pass, in place of waiting for the first one's end."""
    jobs = (gang("a", 4, min_replicas=2, work_s=600.0), gang("b", 2, submit_s=100.0))

    scaled, not_scaled = (run(policy, *jobs, nodes=(4,)) for policy in ("dragon-fixed", "dragon-no-scaling"))

    assert scaled.scale_downs == 1
    assert scaled.jobs[1].start_s is not None
    assert scaled.jobs[1].start_s - 100 < 30 + 15 + 15
    assert not_scaled.jobs[1].start_s == pytest.approx(602, abs=3)


def test_partial_gangs_may_wait_for_each_other() -> None:
    """Pod by pod, in the order of submission or in none; whole gangs never are in parts."""
    busy = tuple(gang(f"busy-{number}", 1, work_s=50.0 + 10 * number) for number in range(4))
    jobs = (*busy, *(gang(f"gang-{number}", 4, submit_s=10.0 + number) for number in range(2)))

    whole, fifo = (run(policy, *jobs, nodes=(4,)) for policy in ("dragon-fixed", "kube-fifo"))
    dead = run("kube-default", *jobs, nodes=(4,))

    assert (whole.deadlocked, whole.partial_gang_ms_max) == (0, 0)
    assert fifo.deadlocked == 0
    assert fifo.partial_gang_ms_max == pytest.approx(30_000, abs=2_000)  # from the first of the four GPUs to the last
    assert (dead.deadlocked, {job.outcome for job in dead.jobs[4:]}) == (2, {"waiting"})


def test_arrivals_have_the_load_that_they_name() -> None:
    """The GPUs' need over the window is what the name says."""
    jobs = gang_arrivals("gangs:4:0.5", seed=3).jobs

    assert gang_arrivals("gangs:4:0.5", seed=3).jobs == jobs
    need = sum(job.gpus * job.work_s for job in jobs)
    assert max(job.submit_s for job in jobs) <= need / (16 * 0.5)
    assert {job.replicas for job in jobs} == {2, 4}


def test_surplus_workers_of_an_asynchronous_gang_leave_without_a_restart() -> None:
    """A gang that starves gets their room sooner, and those that stay make steps all the time."""
    first = {"min_replicas": 2, "max_replicas": 4, "servers": 1, "memory_mib": 10_000}
    jobs = (gang("a", 4, **first), gang("b", 2, 10.0, work_s=30.0))
    synchronous = run("dragon-fixed", *jobs, nodes=(4,))
    shed = run("dragon-fixed", msgspec.structs.replace(jobs[0], asynchronous=True), jobs[1], nodes=(4,))

    assert (shed.scale_downs, synchronous.scale_downs) == (1, 1)
    ends = [[job.end_s for job in result.jobs] for result in (shed, synchronous)]
    assert None not in ends[0] + ends[1]
    assert all(sooner < later for sooner, later in zip(*ends, strict=True))
    assert shed.deadlocked == 0
