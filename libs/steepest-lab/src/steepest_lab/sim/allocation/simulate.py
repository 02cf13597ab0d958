"""Run an allocation policy on a workload: from names and files to a result.

It owns the composition of a run. Its neighbours decide, place shares, account for costs, and run the loops.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from steepest.errors import BugError, InputError
from steepest_lab.baselines.by_name import BASELINES
from steepest_lab.sim.allocation.application import Application
from steepest_lab.sim.allocation.costs import Costs, EventCosts, RestartCosts
from steepest_lab.sim.allocation.events import RunTotals, run_events
from steepest_lab.sim.allocation.job import RunningJob, make_job
from steepest_lab.sim.allocation.nodes import FreeUnits, counting_suffices
from steepest_lab.sim.allocation.rounds import RoundTiming, run_rounds
from steepest_lab.sim.allocation.shares import CountedShares, EqualPieces, RepackedShares, Shares, StickyShares
from steepest_lab.sim.allocation.tables import Tables
from steepest_lab.sim.cluster_spec import ClusterSpec
from steepest_lab.sim.losses.training import JobLosses
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.rules import AtEveryEvent, AtRestart, Countdown, Placement, Rules
from steepest_lab.sim.workload import Workload


def simulate_allocation(
    workload: Workload, cluster: ClusterSpec, policy: str, rules: Rules, seed: int, *, profiles: Path | None = None
) -> SimulationResult:
    """Run a policy on a workload.

    The jobs share GPUs, and other resources count as sufficient; if no job requests a GPU, they share the CPU.

    Args:
        workload: Jobs.
        cluster: FreeUnits.
        policy: Its name in :data:`steepest_lab.baselines.by_name.BASELINES`.
        rules: The cost of a start, and the placement of shares.
        seed: Seed of the jobs' losses.
        profiles: Folder of measured tables, for rules that use them; None: ``traces`` next to the workload's folder.

    Raises:
        InputError: There is no such policy, a job does not suit the rules, or tables or their library are missing.
    """
    began = time.perf_counter()
    if policy not in BASELINES:
        raise InputError(
            f"there is no allocation policy {policy!r}", hint=f"Name one of {', '.join(sorted(BASELINES))}."
        )
    share_gpus = any(job.gpus for job in workload.jobs)
    nodes = FreeUnits([node.capacity.gpus if share_gpus else node.capacity.cpu_m for node in cluster.nodes])
    jobs = [make_job(job, number, rules, share_gpus=share_gpus) for number, job in enumerate(workload.jobs)]
    shares = _shares(nodes, jobs, policy, rules, share_gpus=share_gpus)
    fit = [job for job in jobs if job.asked > 0 and shares.ever_fits(job)]
    parameters = rules.parameters.get(policy)
    chosen = BASELINES[policy](parameters) if parameters is not None else BASELINES[policy]()
    if chosen.reads_losses:
        for job in fit:
            job.training = JobLosses(job.sim, seed)
    if rules.profiles:
        folder = profiles or Path(workload.source).parent.parent / "traces"
        applications = _applications(fit, cluster, folder)
        course = run_rounds(fit, applications, nodes.total, chosen, shares, every=_round(rules))
    else:
        course = run_events(fit, nodes.total, chosen, shares, _costs(rules, cluster, fit, policy))
    placed = {job.number for job in fit}
    for job in jobs:
        job.rejected = job.number not in placed
    return SimulationResult(
        policy=policy,
        seed=seed,
        jobs=[job.result() for job in jobs],
        used=course.used,
        capacity=float(nodes.total),
        events=course.events,
        wall_seconds=time.perf_counter() - began,
        assumptions=_assumptions(jobs, cluster, rules, course, share_gpus=share_gpus),
    )


def _shares(nodes: FreeUnits, jobs: Sequence[RunningJob], policy: str, rules: Rules, *, share_gpus: bool) -> Shares:
    if not share_gpus:
        return EqualPieces(nodes)
    match rules.placement:
        case Placement.YARN:
            counts = policy in rules.counted or counting_suffices(nodes.capacity, [job.asked for job in jobs])
            return CountedShares(nodes) if counts else RepackedShares(nodes)
        case Placement.MOST_FREE:
            return StickyShares(nodes, nodes.most_free)
        case Placement.CONSOLIDATE:
            return StickyShares(nodes, nodes.consolidated)


def _costs(rules: Rules, cluster: ClusterSpec, jobs: Sequence[RunningJob], policy: str) -> Costs:
    match rules.overhead:
        case AtRestart():
            return RestartCosts(rules.overhead, cluster.nodes)
        case AtEveryEvent():
            return EventCosts(rules.overhead, 0.0 if policy in rules.counted else rules.merge_ends, jobs)
        case Countdown():
            raise BugError(f"rules {rules.name}: a countdown belongs to rounds")


def _applications(jobs: Sequence[RunningJob], cluster: ClusterSpec, folder: Path) -> dict[int, Application]:
    """Each job's training, by its number."""
    tables: dict[str, Tables] = {}
    for name in sorted({job.sim.model for job in jobs}):
        if not (folder / name).is_dir():
            raise InputError(
                f"these rules need each application's measured tables, and there is no folder {folder / name}",
                hint="Name the folder that holds the applications' folders (--profiles).",
            )
        tables[name] = Tables(folder / name)
    largest = max(node.capacity.gpus for node in cluster.nodes)
    return {job.number: Application(tables[job.sim.model], job, largest) for job in jobs}


def _round(rules: Rules) -> RoundTiming:
    if not isinstance(rules.overhead, Countdown):
        raise BugError(f"rules {rules.name}: rounds charge by a countdown")
    return RoundTiming(seconds=int(rules.round_s), countdown_s=rules.overhead.seconds)


def _assumptions(
    jobs: Sequence[RunningJob], cluster: ClusterSpec, rules: Rules, course: RunTotals, *, share_gpus: bool
) -> tuple[str, ...]:
    assumptions = []
    unit = "GPUs" if share_gpus else "CPU"
    assumptions.append(f"other resources than {unit} are always enough, and no job disturbs another")
    without = sum(not job.asked for job in jobs)
    if without:
        assumptions.append(f"{without} jobs ask for no {unit} and are left out")
    if any(node.mtbf_s for node in cluster.nodes) or any(job.sim.fails_at for job in jobs):
        assumptions.append("no node and no job fails, even where the cluster or the workload has failures")
    if isinstance(rules.overhead, AtRestart) and any(not job.sim.memory_mib for job in jobs):
        assumptions.append(f"a checkpoint of a job of unknown memory has {rules.overhead.checkpoint_mib:g} MiB")
    if isinstance(rules.overhead, AtRestart):
        assumptions.append(
            "a job's speed is proportional to its share of what it asks for, and placement does not change it"
        )
    if course.stalled:
        assumptions.append("ended before all jobs had: starts take longer than the policy lets jobs run")
    return tuple(assumptions)
