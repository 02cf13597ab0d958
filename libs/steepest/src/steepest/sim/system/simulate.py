"""One run of a whole pool over a workload: from names to a result.

It owns which parts make up a run, and what is counted of it. Deciding, folding and acting are the live system's.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.cluster.simulated.model import Model
from steepest.cluster.simulated.node import SimulatedNode
from steepest.cluster.simulated.nodes import SimulatedNodes
from steepest.cluster.simulated.timeline import VirtualTimeline
from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.log.base import TopicPartition
from steepest.sim.cluster_spec import ClusterSpec, SimNode
from steepest.sim.losses.training import JobLosses
from steepest.sim.result import JobResult, SimulationResult
from steepest.sim.system.collector import SimulatedCollector
from steepest.sim.system.models import model_of
from steepest.sim.system.pool import SimulatedPool, StartingPoint, Watch, engine_of_a_pool
from steepest.sim.system.progress import PROCON, placement_by_progress
from steepest.sim.workload import SimJob, Workload

HEARTBEAT_S = 5.0
ACT_S = 0.55
"""Of the 1.1 s that SpeCon's authors' log shows for a move, half for its stop and half for its start."""

TICKS = 20_000
"""Long workloads tick less often, so that a run of months is not made of ticks; at most once an interval."""

LEARNED = 0.9
"""A job has learned most when it has this share of the reduction of its loss."""

BY_STEPS = "srtf"
"""The queue policy that needs to know steps before a job has run: under it alone, users announce them as they submit."""

PATIENCE_S = 30 * 86_400.0
"""A run in which for so long no job comes, starts, learns or ends is over."""

ASSUMPTIONS = (
    "Progress is proportional to the CPU that a job gets; jobs on one node share it fairly, up to what each can use.",
    "A limit is a hard cap that yields where CPU would be idle (the reading of FlowCon's soft limits).",
    "A move costs the writing and reading of its checkpoint at the nodes' rate, 1.1 s of a manager's time, and a launch.",
)


class Schedule(msgspec.Struct):
    """The schedule that a run comes to, job by job.

    Attributes:
        first_nodes: Where each job was placed first.
        to_learn: The steps after which each job has 90 % of the reduction of its loss.
        learned_ms: When it had them; between two reports, as if it went at one pace.
        seen: The newest report of each job: when, and the step.
        newest_ms: When a job last came, started, learned, moved or ended.
    """

    starts_ms: dict[str, int] = {}
    ends_ms: dict[str, int] = {}
    outcomes: dict[str, str] = {}
    migrations: dict[str, int] = {}
    first_nodes: dict[str, str] = {}
    to_learn: dict[str, int] = {}
    learned_ms: dict[str, int] = {}
    seen: dict[str, tuple[int, int]] = {}
    newest_ms: int = 0

    def add(self, received: Received[Any]) -> None:
        """Take in a record."""
        event = received.event
        match event:
            case c.JobPlaced():
                self.starts_ms.setdefault(event.job, received.at_ms)
                self.first_nodes.setdefault(event.job, event.node)
            case c.NodeUsage():
                for progress in event.progress:
                    self._follow(progress, received.at_ms)
                return
            case c.JobSubmitted() | c.GrowthMeasured():
                pass
            case c.JobEnded():
                self.ends_ms[event.job] = received.at_ms
                if event.outcome is c.Outcome.FINISHED:
                    self.learned_ms.setdefault(event.job, received.at_ms)
                self.outcomes[event.job] = event.outcome.value
            case c.JobRejected():
                self.outcomes[event.job] = "rejected"
            case c.MigrationFinished():
                self.migrations[event.job] = self.migrations.get(event.job, 0) + 1
            case _:
                return
        self.newest_ms = received.at_ms

    def _follow(self, progress: c.ReplicaProgress, at_ms: int) -> None:
        job, step, goal = progress.job, progress.step, self.to_learn.get(progress.job)
        if step is None or goal is None or job in self.learned_ms:
            return
        before_ms, before = self.seen.get(job, (self.starts_ms.get(job, at_ms), 0))
        if step >= goal:
            share = (goal - before) / (step - before) if step > before else 1.0
            self.learned_ms[job] = round(before_ms + share * (at_ms - before_ms))
        self.seen[job] = (at_ms, step)


def simulate_system(
    workload: Workload,
    cluster: ClusterSpec,
    policy: str,
    parameters: PoolParameters,
    seed: int,
    *,
    first_nodes: Mapping[str, str] | None = None,
    watch: Watch | None = None,
) -> SimulationResult:
    """Run the live deciders, view and saga over a workload on simulated nodes.

    Args:
        workload: Jobs of one replica each; what a gang asks for must fit one node.
        cluster: Nodes.
        policy: Its name, for the result.
        parameters: What makes it that policy.
        seed: Draws losses, delays and failures.
        first_nodes: Where to place jobs first, for a paired comparison; the placement policy decides about the others.
        watch: Is called with every record of the pool's log.

    Raises:
        InputError: A job is not fit for this.
    """
    began = time.perf_counter()
    jobs = {job.name: job for job in workload.jobs}
    parameters = _paced(parameters, workload)
    models: dict[str, Model] = {}

    def model(replica: ReplicaId, _: ReplicaSpec) -> Model:
        if replica.job not in models:
            models[replica.job] = model_of(jobs[replica.job], seed, parameters.specon.interval_ms / 1000)
        return models[replica.job]

    def make_nodes(timeline: VirtualTimeline, collector: SimulatedCollector) -> SimulatedNodes:
        nodes = [_node(node, timeline) for node in cluster.nodes]
        return SimulatedNodes(nodes, model, timeline, witness=collector)

    schedule = Schedule(to_learn={job.name: JobLosses(job, seed).steps_to_learn(LEARNED) for job in workload.jobs})

    def see(received: Received[Any]) -> None:
        schedule.add(received)
        if watch is not None:
            watch(received)

    heartbeat_s = max(HEARTBEAT_S, 5 * parameters.tick_ms / 1000)
    placement = placement_by_progress(lambda: pool.nodes) if parameters.placement == PROCON else None
    start = StartingPoint(engine_of_a_pool(TopicPartition("cluster"), placement))
    pool = SimulatedPool(start, make_nodes, heartbeat_s=heartbeat_s, act_s=ACT_S, watch=see)
    pool.open(parameters)
    announces = parameters.queueing.policy == BY_STEPS
    for job in workload.jobs:
        _submit_later(pool, job, (first_nodes or {}).get(job.name), announces=announces)
    _fail_later(pool, cluster, seed)
    run_to_the_end(pool, schedule, len(jobs))
    gpus = any(job.gpus for job in workload.jobs)
    return SimulationResult(
        policy=policy,
        seed=seed,
        jobs=[_result(job, schedule) for job in workload.jobs],
        used=_used(workload, schedule) if gpus else pool.nodes.cpu_m_s(),
        capacity=float(cluster.gpus if gpus else sum(node.capacity.cpu_m for node in cluster.nodes)),
        events=pool.timeline.done + pool.records,
        wall_seconds=time.perf_counter() - began,
        assumptions=ASSUMPTIONS,
    )


def _paced(parameters: PoolParameters, workload: Workload) -> PoolParameters:
    """Parameters with a clock that suits the workload's length, and no node that is lost by its silence."""
    span_s = max(job.submit_s + job.work_s for job in workload.jobs)
    tick_ms = max(parameters.tick_ms, min(parameters.specon.interval_ms, round(span_s / TICKS) * 1000))
    return msgspec.structs.replace(parameters, tick_ms=tick_ms)


def _node(node: SimNode, timeline: VirtualTimeline) -> SimulatedNode:
    return SimulatedNode(
        node.name,
        node.capacity,
        timeline,
        speed=node.speed,
        storage_mib_s=node.storage_mib_s,
        caps_yield=True,
        gives_m=round(node.usable * node.capacity.cpu_m),
        contention=node.contention,
    )


def _submit_later(pool: SimulatedPool, job: SimJob, first_node: str | None, *, announces: bool) -> None:
    each = job.requests
    requests = each
    for _ in range(job.replicas - 1):
        requests += each
    try:
        spec = c.JobSpec(
            command=("simulated", job.name),
            requests=requests,
            model=job.model,
            retries=1 if job.fails_at else 0,
            first_node=first_node,
            priority=job.priority,
            steps=round(job.iterations * job.announced) or None if announces else None,
        )
        submitted = c.JobSubmitted(job=job.name, request=f"submit-{job.name}", spec=spec)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"job {job.name}: {error}") from error
    pool.timeline.call_at(job.submit_s, lambda: pool.append(submitted))


def _fail_later(pool: SimulatedPool, cluster: ClusterSpec, seed: int) -> None:
    for node in cluster.nodes:
        if node.mtbf_s:
            _fail_again(pool, node, random.Random(f"{seed}/{node.name}"), 0.0)  # noqa: S311 - no secret


def _fail_again(pool: SimulatedPool, node: SimNode, rng: random.Random, from_s: float) -> None:
    at_s = from_s + rng.expovariate(1 / node.mtbf_s)

    def fail() -> None:
        pool.lose(node.name, node.repair_s)
        _fail_again(pool, node, rng, at_s + node.repair_s)

    pool.timeline.call_at(at_s, fail)


def run_to_the_end(pool: SimulatedPool, schedule: Schedule, jobs: int) -> None:
    """Let time pass until all jobs are over, or nothing comes of it any more."""
    while len(schedule.outcomes) < jobs and pool.timeline.step():
        if pool.now_ms() - schedule.newest_ms > 1000 * PATIENCE_S:
            break
    pool.end()


def _result(job: SimJob, schedule: Schedule) -> JobResult:
    outcome = schedule.outcomes.get(job.name) or ("running" if job.name in schedule.starts_ms else "waiting")
    return JobResult(
        name=job.name,
        submit_s=job.submit_s,
        start_s=_seconds(schedule.starts_ms.get(job.name)),
        end_s=_seconds(schedule.ends_ms.get(job.name)) if outcome == "finished" else None,
        learned_s=_seconds(schedule.learned_ms.get(job.name)),
        first_node=schedule.first_nodes.get(job.name, ""),
        outcome=outcome,
        migrations=schedule.migrations.get(job.name, 0),
    )


def _used(workload: Workload, schedule: Schedule) -> float:
    """GPU-seconds held, from each job's start to its end."""
    return sum(
        (schedule.ends_ms[job.name] - schedule.starts_ms[job.name]) / 1000 * job.gpus
        for job in workload.jobs
        if job.name in schedule.ends_ms and job.name in schedule.starts_ms
    )


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
