"""DRAGON's claims in simulated pools: stated loads, and the figures of each policy under them.

The abstract claims 20 to 30 points more utilisation and 65 % less completion time than under Kubernetes' default scheduler;
it states no loads, lengths or network. So there is no experiment to repeat: the loads below were chosen before any of them
was run, and are not fitted to the claims. It owns them, and what is counted of a run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from steepest.events.parameters import PoolParameters
from steepest_lab.baselines.by_name import BASELINES
from steepest_lab.sim.allocation.simulate import simulate_allocation
from steepest_lab.sim.cluster_spec import NETWORK_MIB_S
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.policies import POOL
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.rules import DEFAULT as DEFAULT_RULES
from steepest_lab.sim.run import side_by_side
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workloads.gang_arrivals import GPUS_A_NODE, gang_arrivals

DEFAULT = "kube-default"
"""The run that others are compared with."""

AT_BEST = "kube-fifo"
"""The default scheduler where no gangs dead-lock."""

POLICIES = (
    DEFAULT,
    AT_BEST,
    "gang-only",
    "dragon-no-locality",
    "dragon-no-scaling",
    "tiresias",
    "optimus",
    "dragon-paper-era",
    "dragon",
    "dragon-fixed",
)
"""The default, the ablation, two published baselines, and the three variants.

The baselines share GPUs out without a network, and Optimus knows each job's length: they are bounds.
"""

TICK_MS = 5_000
"""A third of DRAGON's period. No decision needs more ticks, and more of them would dominate a run's time."""

CLAIMED_TIME, CLAIMED_UTILISATION = -65.0, 20.0
"""In % of the completion time, and in points of utilisation."""


class GangLoad(msgspec.Struct, frozen=True):
    """One load: ``nodes`` nodes of four GPUs, a load, and the network's rate in multiples of 10 Gbit/s."""

    nodes: int
    load: float
    network: float = 1.0

    @property
    def workload(self) -> str:
        """The workload's name."""
        return f"gangs:{self.nodes}:{self.load}"

    def __str__(self) -> str:
        network = "" if self.network == 1.0 else f", network x {self.network:g}"
        return f"{self.nodes} nodes, load {self.load:g}{network}"


LOADS = (
    *(GangLoad(2, load) for load in (0.5, 0.75, 1.0, 1.5, 2.0)),
    *(GangLoad(nodes, 1.0) for nodes in (4, 8, 16, 32, 64)),
    *(GangLoad(4, 1.0, network) for network in (0.1, 0.5, 2.0, 10.0)),
)
"""From half the load to double on the authors' two nodes; from 4 to 64 nodes; from 1 to 100 Gbit/s."""


class LoadRun(msgspec.Struct, frozen=True):
    """A run to be made."""

    load: GangLoad
    policy: str
    seed: int


class GangFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a policy under a load, over all seeds.

    Attributes:
        time_change: Of the mean completion time against the default's, in %: over the jobs that end under both.
        bound_change: The same where each job that never ends counts up to the last end of any policy under the same load and
            seed, which is the least that it may take.
        utilisation: The share of GPU-seconds, in %, in which replicas make steps, until the policy's own last end.
        utilisation_change: The same against the default's, in points.
        computing: The share of GPU-seconds, in %, that the jobs that end have needed to compute; what they have exchanged,
            lost and done again is left out.
        finished: The share of the jobs that end.
        deadlocked: Gangs in parts that wait without end, a run.
        scalings: Of running gangs, a run.
        partial_s: For how long a gang was in parts at most.
    """

    load: str
    policy: str
    seeds: int
    mean_jct: float
    time_change: float
    bound_change: float
    utilisation: float
    utilisation_change: float
    computing: float
    finished: float
    deadlocked: float
    scale_ups: float
    scale_downs: float
    partial_s: float


def runs(seeds: int, loads: Sequence[GangLoad] = LOADS) -> Sequence[LoadRun]:
    """All runs; those of one load and seed are adjacent."""
    return [LoadRun(load, policy, seed) for load in loads for seed in range(seeds) for policy in POLICIES]


def done(todo: Sequence[LoadRun], workers: int | None) -> Iterator[SimulationResult]:
    """The result of each run, in their order."""
    return side_by_side(run_one, todo, workers)


def run_one(run: LoadRun) -> SimulationResult:
    """Make one run."""
    cluster = open_cluster(f"{run.load.nodes}x{GPUS_A_NODE}gpu")
    rate = {"network_mib_s": run.load.network * NETWORK_MIB_S}
    cluster = msgspec.structs.replace(cluster, nodes=[msgspec.structs.replace(one, **rate) for one in cluster.nodes])
    workload = gang_arrivals(run.load.workload, run.seed)
    if run.policy in BASELINES:
        return simulate_allocation(workload, cluster, run.policy, DEFAULT_RULES, run.seed)
    policy = POOL[run.policy]
    return simulate_system(
        workload,
        cluster,
        run.policy,
        policy.parameters(PoolParameters(tick_ms=TICK_MS)),
        run.seed,
        pod_by_pod=policy.pod_by_pod,
        losses=False,
    )


def figures(todo: Sequence[LoadRun], results: Sequence[SimulationResult]) -> Sequence[GangFigures]:
    """Figures of all runs, by load and policy in their order."""
    found: dict[tuple[GangLoad, str], list[tuple[SimulationResult, Mapping[str, SimulationResult]]]] = {}
    beside: dict[tuple[GangLoad, int], dict[str, SimulationResult]] = {}
    for run, result in zip(todo, results, strict=True):
        beside.setdefault((run.load, run.seed), {})[run.policy] = result
    for run, result in zip(todo, results, strict=True):
        others = beside[run.load, run.seed]
        found.setdefault((run.load, run.policy), []).append((result, others))
    return [_figures(load, policy, pairs) for (load, policy), pairs in found.items()]


def _figures(
    load: GangLoad, policy: str, pairs: Sequence[tuple[SimulationResult, Mapping[str, SimulationResult]]]
) -> GangFigures:
    def mean(values: Sequence[float]) -> float:
        return statistics.fmean(values)

    default = [others[DEFAULT] for _, others in pairs]
    ours = [one for one, _ in pairs]
    ends = [max(other.summary().makespan for other in others.values()) for _, others in pairs]
    shares = [one.summary().utilisation for one in ours]
    before = [one.summary().utilisation for one in default]
    return GangFigures(
        load=str(load),
        policy=policy,
        seeds=len(pairs),
        mean_jct=mean([one.summary().mean_jct for one in ours]),
        time_change=mean([_change(one, other) for one, other in zip(ours, default, strict=True)]),
        bound_change=mean(
            [
                100 * (_bound(one, end) / _bound(other, end) - 1)
                for one, other, end in zip(ours, default, ends, strict=True)
            ]
        ),
        utilisation=100 * mean(shares),
        utilisation_change=100 * (mean(shares) - mean(before)),
        computing=100 * mean([_computing(one, load) for one in ours]),
        finished=mean([one.summary().finished / len(one.jobs) for one in ours]),
        deadlocked=mean([one.deadlocked for one in ours]),
        scale_ups=mean([one.scale_ups for one in ours]),
        scale_downs=mean([one.scale_downs for one in ours]),
        partial_s=max(one.partial_gang_ms_max for one in ours) / 1000,
    )


def _change(one: SimulationResult, default: SimulationResult) -> float:
    """Of the mean completion time in %, over the jobs that end under both; 0 where none does."""
    before = {job.name: job.jct_s for job in default.jobs if job.end_s is not None}
    both = [(job.jct_s, before[job.name]) for job in one.jobs if job.end_s is not None and job.name in before]
    if not both:
        return 0.0
    return 100 * (math.fsum(now for now, _ in both) / math.fsum(then for _, then in both) - 1)


def _computing(one: SimulationResult, load: GangLoad) -> float:
    """The share of GPU-seconds until the last end that the jobs that have ended needed to compute."""
    needs = {job.name: job.gpus * job.work_s for job in gang_arrivals(load.workload, one.seed).jobs}
    capacity = GPUS_A_NODE * load.nodes * one.summary().makespan
    return math.fsum(needs[job.name] for job in one.jobs if job.end_s is not None) / capacity if capacity else 0.0


def _bound(one: SimulationResult, end_s: float) -> float:
    """The mean completion time at least."""
    return statistics.fmean(
        (job.end_s if job.end_s is not None else max(end_s, job.submit_s)) - job.submit_s for job in one.jobs
    )
