"""What the policy ``steepest`` gains over fair sharing, in simulated pools.

Each case is a workload on a cluster; the default size has three of them. Under each seed the jobs run three times: under
``spread``, under the policy, and under the policy with every job's first node pinned to that of ``spread``. Changes are
paired by seed, in %, with the 95 % interval of their mean (Student's t). The tail is that of the pinned runs, because
placements that flip delay some jobs under any policy, ``spread`` against itself included; ``free`` is that of the others.
``bound`` is the change of the mean with the shortest remaining time first on one machine with all cores, as a fluid.

Numbers of the policy's rules are chosen under seeds from 100 on, so that the seeds that are reported, from 0 on, judge them.
``--set NAME=VALUE`` tries another value of a parameter of the policy ``steepest``. ``--policy spread --lengths-off 0.01``
shows how much is chance: ``spread`` against itself, with jobs that are up to 1 % longer or shorter.

``--out FILE`` appends a JSON line a case and seed, and skips what the file holds already under the same parameters and
decided by the same logic, so that the table can be made in pieces. Simulations run in virtual time: other load on the
machine changes no figure.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.frame.bench import changed, each, figure, kept, options

from steepest.events.parameters import PoolParameters
from steepest.events.registry import FLAGS
from steepest.policies.deciders import CLUSTER_DECIDERS, STREAM_DECIDERS
from steepest_lab.sim.cluster_spec import ClusterSpec
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.fluid import FluidJob, fluid_srpt
from steepest_lab.sim.policies import POOL
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import SimJob, Workload
from steepest_lab.sim.workloads.read import open_workload

FIGURES = ("mean_jct", "median_jct", "makespan", "mean_t90")
LIE = 0.1
LIARS = 3
"""One job in so many announces this multiple of its steps."""

HEAVY = 1.5
"""σ of the lognormal sizes: the largest percent of the jobs is then a fifth of the work."""

CONTENTION = 0.12
"""What FlowCon's published runs come to (docs/reproduction.md)."""

FEW_MIB = 2_560
"""Memory of a node that three or four of the thesis's jobs reserve."""

Announced = Callable[[int, random.Random], float]
"""The multiple of its steps that a job announces, by its number."""

Sized = Callable[[random.Random], float]
"""The multiple of its size that a job has."""


class Case(msgspec.Struct, frozen=True):
    """A workload on a cluster.

    Attributes:
        announced: What its jobs announce.
        sized: By what their sizes are multiplied; None: by nothing.
        memory_mib: Of each node; None: more than its jobs reserve.
        suspends: Whether the policy may suspend jobs.
        contention: Of its nodes: how much jobs that want more CPU than there is slow each other down.
        usable: Share of what each node declares that it gives.
        hard_limits: Limits hold where CPU would be idle too.
        cores: That each job can use, whose work stays as it is; None: as many as the thesis' jobs can.
        gangs: One job in so many is a gang of two, each of which has as much to do; None: none is.
    """

    workload: str
    cluster: str
    announced: Announced = lambda _, __: 1.0
    sized: Sized | None = None
    memory_mib: int | None = None
    suspends: bool = True
    gangs: int | None = None
    contention: float = 0.0
    usable: float = 1.0
    hard_limits: bool = False
    cores: int | None = None

    def nodes(self) -> ClusterSpec:
        """Its cluster."""
        cluster = open_cluster(self.cluster)
        given = {"contention": self.contention, "usable": self.usable, "hard_limits": self.hard_limits}
        nodes = [msgspec.structs.replace(node, **given) for node in cluster.nodes]
        if self.memory_mib is not None:
            nodes = [
                msgspec.structs.replace(
                    node, capacity=msgspec.structs.replace(node.capacity, memory_mib=self.memory_mib)
                )
                for node in nodes
            ]
        return msgspec.structs.replace(cluster, nodes=nodes)


CASES: Mapping[str, Case] = {
    "mixed-50 4x8": Case("thesis:mixed-50", "4x8cpu"),
    "mixed-30 4x8": Case("thesis:mixed-30", "4x8cpu"),
    "mixed-20 4x8": Case("thesis:mixed-20", "4x8cpu"),
    "mixed-30 8x8": Case("thesis:mixed-30", "8x8cpu"),
    "mixed-50 8x8": Case("thesis:mixed-50", "8x8cpu"),
    "flowcon2-60": Case("thesis:flowcon2-60", "4x8cpu+4x4cpu"),
    "no totals": Case("thesis:mixed-50", "4x8cpu", lambda _, __: 0.0),
    "totals wrong by 0.3": Case("thesis:mixed-50", "4x8cpu", lambda _, rng: rng.lognormvariate(0, 0.3)),
    "a third announces a tenth": Case("thesis:mixed-50", "4x8cpu", lambda job, _: 1.0 if job % LIARS else LIE),
    "half announce nothing": Case("thesis:mixed-50", "4x8cpu", lambda job, _: float(job % 2)),
    "heavy-tailed sizes": Case(
        "thesis:mixed-50", "4x8cpu", sized=lambda rng: rng.lognormvariate(-(HEAVY**2) / 2, HEAVY)
    ),
    "room for few": Case("thesis:mixed-50", "4x8cpu", memory_mib=FEW_MIB),
    "room for few without suspensions": Case("thesis:mixed-50", "4x8cpu", memory_mib=FEW_MIB, suspends=False),
    "nodes give 70 %": Case("thesis:mixed-30", "4x8cpu", usable=0.7),
    "hard limits": Case("thesis:mixed-50", "4x8cpu", hard_limits=True),
    "hard limits, jobs of one core": Case("thesis:mixed-50", "4x8cpu", hard_limits=True, cores=1),
    "contention": Case("thesis:mixed-50", "4x8cpu", contention=CONTENTION),
    "gangs among others": Case("thesis:mixed-50", "4x8cpu", gangs=4),
    "gangs where there is room for few": Case("thesis:mixed-50", "4x8cpu", memory_mib=FEW_MIB, gangs=4),
}
"""By name."""


def main() -> None:
    """Measure what is not known yet, and print a line a case."""

    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--policy", default="steepest", choices=sorted(POOL))
        parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of steepest")
        parser.add_argument("--lengths-off", type=float, default=0.0, metavar="SHARE", help="of jobs under the policy")
        parser.add_argument("--out", type=Path, help="JSON lines of what was measured")

    asked = options(
        __doc__,
        more,
        seeds=(1, 2, 10),
        first_seed=(0, 0, 0),
        case=(("mixed-20 4x8",), ("mixed-50 4x8", "no totals", "gangs among others"), tuple(CASES)),
    )
    parameters = parameters_of(asked.policy, asked.set)
    of = {"policy": asked.policy, "parameters": msgspec.to_builtins(parameters), "lengths_off": asked.lengths_off}
    for name in asked.case:
        rows = [
            kept(
                asked.out,
                {"case": name, "seed": seed, **of, "flags": len(FLAGS), "logic": logic()},
                partial(measure, name, asked.policy, parameters, seed, asked.lengths_off),
            )
            for seed in each(f"{name}: seeds", range(asked.first_seed, asked.first_seed + asked.seeds))
        ]
        figure(name, **line(rows))


def logic() -> dict[str, int]:
    """The logic numbers of all deciders: figures of others say nothing of these."""
    return {name: kind.logic for name, kind in {**CLUSTER_DECIDERS, **STREAM_DECIDERS}.items()}


def parameters_of(policy: str, changed: Sequence[str], given: PoolParameters | None = None) -> PoolParameters:
    """The policy's parameters, with other values of some of ``steepest``."""
    parameters = POOL[policy].parameters(given or PoolParameters())
    values = {name: float(value) for name, _, value in (one.partition("=") for one in changed)}
    kinds = {name: type(getattr(parameters.steepest, name)) for name in values}
    steepest = msgspec.structs.replace(parameters.steepest, **{name: kinds[name](values[name]) for name in values})
    return msgspec.structs.replace(parameters, steepest=steepest)


def measure(name: str, policy: str, parameters: PoolParameters, seed: int, lengths_off: float = 0.0) -> dict[str, Any]:
    """The changes of one case under one seed, in %."""
    case = CASES[name]
    cluster, workload = case.nodes(), announcing(open_workload(case.workload, seed=seed), case, seed)
    if not case.suspends:
        limits = msgspec.structs.replace(parameters.preemption, max_suspensions=0)
        parameters = msgspec.structs.replace(parameters, preemption=limits)
    spread = fair(name, seed)
    if lengths_off:
        rng = random.Random(seed)  # noqa: S311 - no secret
        jobs = [resized(job, 1 + lengths_off * rng.uniform(-1, 1)) for job in workload.jobs]
        workload = msgspec.structs.replace(workload, jobs=jobs)
    planner = POOL[policy].planner
    free = simulate_system(workload, cluster, policy, parameters, seed, planner=planner)
    first_nodes = {job.name: job.first_node for job in spread.jobs if job.first_node}
    pinned = simulate_system(workload, cluster, policy, parameters, seed, first_nodes=first_nodes, planner=planner)
    after, tail = free.summary(spread), pinned.summary(spread)
    if after.left_out or tail.left_out:
        raise SystemExit(f"{name}, seed {seed}: not all jobs finished")
    return {
        **{name: 100 * (getattr(after, f"{name}_change") or 0.0) for name in FIGURES},
        "late_share": 100 * (tail.late_share or 0.0),
        "late_worst": 100 * (tail.late_worst or 0.0),
        "free_share": 100 * (after.late_share or 0.0),
        "free_worst": 100 * (after.late_worst or 0.0),
        "bound": 100 * (statistics.fmean(bound(workload, cluster)) / spread.summary().mean_jct - 1),
        "honest_worst": 100 * worst_honest(workload, pinned, spread),
        "moves": after.migrations / after.jobs,
        "suspensions": after.preemptions / after.jobs,
    }


@cache
def fair(name: str, seed: int) -> SimulationResult:
    """The case under fair sharing."""
    case = CASES[name]
    workload = announcing(open_workload(case.workload, seed=seed), case, seed)
    return simulate_system(workload, case.nodes(), "spread", parameters_of("spread", ()), seed)


def bound(workload: Workload, cluster: ClusterSpec) -> list[float]:
    """Completion times as a fluid on all the CPU that the nodes give."""
    jobs = [
        FluidJob(job.submit_s, job.replicas * job.work_s * cpu_m / 1000, job.replicas * cpu_m / 1000)
        for job in workload.jobs
        if (cpu_m := job.demand_cpu_m or job.requests.cpu_m)
    ]
    return fluid_srpt(jobs, sum(node.usable * node.speed * node.capacity.cpu_m for node in cluster.nodes) / 1000)


def announcing(workload: Workload, case: Case, seed: int) -> Workload:
    """The workload with what its jobs announce, and their sizes."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    jobs = [
        msgspec.structs.replace(job, announced=case.announced(number, rng)) for number, job in enumerate(workload.jobs)
    ]
    if case.sized is not None:
        jobs = [resized(job, case.sized(rng)) for job in jobs]
    if case.cores is not None:
        jobs = [of_cores(job, case.cores) for job in jobs]
    if case.gangs is not None:
        jobs = [
            msgspec.structs.replace(job, replicas=1 if number % case.gangs else 2) for number, job in enumerate(jobs)
        ]
    return msgspec.structs.replace(workload, jobs=jobs)


def resized(job: SimJob, times: float) -> SimJob:
    """A job with so many times the steps, which take as long as before each."""
    iterations = max(1, round(job.iterations * times))
    return msgspec.structs.replace(job, iterations=iterations, work_s=job.work_s * iterations / job.iterations)


def of_cores(job: SimJob, cores: int) -> SimJob:
    """A job that can use this number of cores, and has the same work."""
    work_s = job.work_s * (job.demand_cpu_m or job.requests.cpu_m) / (1000 * cores)
    return msgspec.structs.replace(job, demand_cpu_m=1000 * cores, work_s=work_s)


def worst_honest(workload: Workload, result: SimulationResult, beside: SimulationResult) -> float:
    """How much later the job ended that was delayed most, of those that announce their steps as they are."""
    before = {job.name: job.jct_s for job in beside.jobs}
    honest = {job.name for job in workload.jobs if job.announced == 1.0}
    return max((job.jct_s / before[job.name] - 1 for job in result.jobs if job.name in honest), default=0.0)


def line(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The figures of a case."""
    return {
        **{name: changed([row[name] for row in rows]) for name in FIGURES},
        "late": f"{statistics.fmean(row['late_share'] for row in rows):.1f} %",
        "worst": f"{max(row['late_worst'] for row in rows):+.0f} %",
        "free": f"{statistics.fmean(row['free_share'] for row in rows):.1f} %",
        "free_worst": f"{max(row['free_worst'] for row in rows):+.0f} %",
        "bound": changed([row["bound"] for row in rows]),
        "worst_honest": f"{max(row['honest_worst'] for row in rows):+.0f} %",
        "moves": f"{statistics.fmean(row['moves'] for row in rows):.2f}",
    }


if __name__ == "__main__":
    main()
