"""One run of a whole pool over a workload: from names to a result.

It owns which parts make up a run, and what is counted of it. Deciding, folding and acting are the live system's.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.common import LEAST_CPU_M, Resources
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.events.requests import SERVER_ROLES
from steepest.log.base import TopicPartition
from steepest.policies.steepest.learning_history import LEARNED
from steepest.policies.steepest.steepest_planner import SteepestPlanner
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.losses.training import JobLosses
from steepest_lab.sim.result import JobResult, SimulationResult
from steepest_lab.sim.system.collector import SimulatedCollector
from steepest_lab.sim.system.models import member_of, model_of
from steepest_lab.sim.system.pods import GangPod, Pods, pod_schedule
from steepest_lab.sim.system.pool import SimulatedPool, StartingPoint, Watch, engine_of_a_pool
from steepest_lab.sim.system.progress import PROCON, placement_by_progress
from steepest_lab.sim.system.schedule import Schedule
from steepest_lab.sim.workload import SimJob, Workload
from steepest_lab.simulated.lockstep import Gangs
from steepest_lab.simulated.model import Model
from steepest_lab.simulated.network import Network, Rates
from steepest_lab.simulated.node import SimulatedNode
from steepest_lab.simulated.nodes import SimulatedNodes, running
from steepest_lab.simulated.storage import SharedStorage
from steepest_lab.simulated.timeline import VirtualTimeline

HEARTBEAT_S = 5.0
ACT_S = 0.55
"""Of the 1.1 s that SpeCon's authors' log shows for a move, half for its stop and half for its start."""

TICKS = 20_000
"""Long workloads tick less often, so that a run of months is not made of ticks; at most once an interval."""

BY_STEPS = "srtf"
"""The queue policy that needs to know steps before a job has run: under it alone, users announce them as they submit."""

PATIENCE_S = 30 * 86_400.0
"""A run in which for so long no job comes, starts, learns or ends is over."""

ASSUMPTIONS = (
    "Progress is proportional to the CPU that a job gets; jobs on one node share it fairly, up to what each can use.",
    "A limit is a hard cap that yields where CPU would be idle (the reading of FlowCon's soft limits).",
    "A move costs the writing and reading of its checkpoint at the nodes' rate, 1.1 s of a manager's time, and a launch.",
)

OF_GANGS = (
    "A gang's step is the slowest member's computing, divided among its workers, and then an exchange; they do not overlap.",
    "The gangs on a link share its rate equally, as if each used it all the time.",
)

SERVER = SERVER_ROLES[0]

SOON_MS = 1000 * 3_600
"""Nothing is looked at while the last news is so young: no limit below is shorter."""

STUCK_S = 3_600.0
"""A run in which no job makes steps for so long, and none is to come, is over."""


def simulate_system(
    workload: Workload,
    cluster: ClusterSpec,
    policy: str,
    parameters: PoolParameters,
    seed: int,
    *,
    first_nodes: Mapping[str, str] | None = None,
    watch: Watch | None = None,
    pod_by_pod: bool = False,
    losses: bool = True,
    heartbeat_s: float = HEARTBEAT_S,
    planner: type[SteepestPlanner] = SteepestPlanner,
) -> SimulationResult:
    """Run the live deciders, view and saga over a workload on simulated nodes.

    Args:
        workload: Jobs.
        cluster: Nodes.
        policy: Its name, for the result.
        parameters: What makes it that policy.
        seed: Draws losses, delays and failures.
        first_nodes: Where to place jobs first, for a paired comparison; the placement policy decides about the others.
        watch: Is called with every record of the pool's log.
        pod_by_pod: Each replica of a gang is placed by itself (:mod:`steepest_lab.sim.system.pods`).
        losses: Whether jobs report losses; without them nothing is known of their growth.
        heartbeat_s: How often nodes report at least.
        planner: Divides the nodes, where the policy ``steepest`` is on.

    Raises:
        InputError: A job is not fit for this.
    """
    began = time.perf_counter()
    jobs = {job.name: job for job in workload.jobs}
    parameters = _paced(parameters, workload)
    models: dict[str, Model] = {}
    pods = Pods(workload.jobs if pod_by_pod else (), seed)

    def model(replica: ReplicaId, spec: ReplicaSpec) -> Model:
        pod = pods.by_name.get(replica.job)
        job = pod.job if pod else jobs[replica.job]
        if job.name not in models:
            full = model_of(job, seed, parameters.specon.interval_ms / 1000)
            models[job.name] = full if losses else msgspec.structs.replace(full, loss=None)
        if pod is not None:
            return member_of(models[job.name], job, job.replicas, serves=pod.serves, chief=pod.rank == 0)
        if spec.gang is None:
            return models[job.name]
        servers = sum(count for role, count in spec.gang.roles if role == SERVER)
        workers = spec.gang.world_size - servers
        return member_of(models[job.name], job, workers, serves=spec.gang.role == SERVER, chief=not replica.index)

    def make_nodes(timeline: VirtualTimeline, collector: SimulatedCollector) -> SimulatedNodes:
        shared_mib_s = cluster.shared_storage_mib_s
        storage = SharedStorage(timeline, shared_mib_s) if shared_mib_s is not None else None
        nodes = [_node(node, timeline, storage) for node in cluster.nodes]
        rates = {node.name: Rates(node.local_mib_s, node.network_mib_s) for node in cluster.nodes}
        gangs = Gangs(Network(rates))
        return SimulatedNodes(
            nodes,
            model,
            timeline,
            witness=collector,
            gangs=gangs,
            gang_of=lambda replica: pods.gang(replica.job, gangs),
        )

    schedule = pod_schedule(pods) if pod_by_pod else Schedule()
    schedule.to_learn = {job.name: JobLosses(job, seed).steps_to_learn(LEARNED) for job in workload.jobs}

    def see(received: Received[Any]) -> None:
        schedule.add(received)
        if watch is not None:
            watch(received)

    heartbeat_s = max(heartbeat_s, 5 * parameters.tick_ms / 1000)
    placement = placement_by_progress(lambda: pool.nodes) if parameters.placement == PROCON else None
    start = StartingPoint(engine_of_a_pool(TopicPartition("cluster"), placement, planner))
    seen_by = schedule.add if watch is None else see
    pool = SimulatedPool(start, make_nodes, heartbeat_s=heartbeat_s, act_s=ACT_S, watch=seen_by)
    pool.open(parameters)
    announces = parameters.queueing.policy == BY_STEPS
    for job in workload.jobs:
        _submit_later(pool, job, (first_nodes or {}).get(job.name), pods.pods_of(job), announces=announces)
    _fail_later(pool, cluster, seed)
    run_to_the_end(pool, schedule, len(jobs), last_s=max(job.submit_s for job in workload.jobs))
    in_parts = pool.nodes.gangs.partial
    longest_s = max(
        [pool.nodes.gangs.longest_partial_s, *(pool.timeline.now_s() - since_s for since_s in in_parts.values())]
    )
    gpus = any(job.gpus for job in workload.jobs)
    return SimulationResult(
        policy=policy,
        seed=seed,
        jobs=[_result(job, schedule) for job in workload.jobs],
        used=pool.nodes.gpu_s() if gpus else pool.nodes.cpu_m_s(),
        capacity=float(cluster.gpus if gpus else sum(node.capacity.cpu_m for node in cluster.nodes)),
        events=pool.timeline.done + pool.records,
        wall_seconds=time.perf_counter() - began,
        assumptions=(*ASSUMPTIONS, *(OF_GANGS if any(job.exchanged_mib for job in workload.jobs) else ())),
        deadlocked=len(in_parts),
        scale_ups=schedule.scale_ups,
        scale_downs=schedule.scale_downs,
        partial_gang_ms_max=round(1000 * longest_s),
    )


def _paced(parameters: PoolParameters, workload: Workload) -> PoolParameters:
    """Parameters with a clock that suits the workload's length, and no node that is lost by its silence."""
    span_s = max(job.submit_s + job.work_s for job in workload.jobs)
    tick_ms = max(parameters.tick_ms, min(parameters.specon.interval_ms, round(span_s / TICKS) * 1000))
    return msgspec.structs.replace(parameters, tick_ms=tick_ms)


def _node(node: SimNode, timeline: VirtualTimeline, storage: SharedStorage | None) -> SimulatedNode:
    return SimulatedNode(
        node.name,
        node.capacity,
        timeline,
        speed=node.speed,
        storage_mib_s=node.storage_mib_s,
        storage=storage,
        caps_yield=not node.hard_limits,
        gives_m=round(node.usable * node.capacity.cpu_m),
        contention=node.contention,
    )


def _submit_later(
    pool: SimulatedPool, job: SimJob, first_node: str | None, pods: Mapping[str, GangPod], *, announces: bool
) -> None:
    try:
        spec = c.JobSpec(
            command=("simulated", job.name),
            model=job.model,
            retries=1 if job.fails_at else 0,
            first_node=first_node,
            priority=job.priority,
            steps=round(job.iterations * job.announced) or None if announces else None,
        )
        if pods:
            specs = {
                name: msgspec.structs.replace(
                    spec, priority=pod.turn, requests=_serving(job) if pod.serves else job.requests
                )
                for name, pod in pods.items()
            }
        elif job.is_gang:
            success = c.SuccessRule.CHIEF if job.asynchronous else c.SuccessRule.ALL
            roles = tuple(_roles(job))
            specs = {job.name: msgspec.structs.replace(spec, requests=Resources(), roles=roles, success=success)}
        else:
            specs = {job.name: msgspec.structs.replace(spec, requests=job.requests)}
        submitted = [c.JobSubmitted(job=name, request=f"submit-{name}", spec=spec) for name, spec in specs.items()]
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"job {job.name}: {error}") from error
    for one in submitted:
        pool.timeline.call_at(job.submit_s, partial(pool.append, one))


def _roles(job: SimJob) -> Iterator[c.Role]:
    if job.servers:
        yield c.Role(name=SERVER, replicas=job.servers, requests=_serving(job))
    fewest, most = job.min_replicas or None, job.max_replicas or None
    yield c.Role(
        name="worker",
        replicas=job.replicas,
        min=fewest,
        max=most,
        requests=job.requests,
        may_leave=job.asynchronous,
    )


def _serving(job: SimJob) -> Resources:
    """What a parameter server requests."""
    return Resources(cpu_m=max(job.requests.cpu_m, LEAST_CPU_M), memory_mib=job.requests.memory_mib)


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


def run_to_the_end(pool: SimulatedPool, schedule: Schedule, jobs: int, *, last_s: float = 0.0) -> None:
    """Let time pass until all jobs are over, or nothing comes of it any more; ``last_s``: when the last job comes."""
    outcomes, timeline = schedule.outcomes, pool.timeline
    looked_ms, soon_s = 0, 0.0
    while len(outcomes) < jobs and timeline.step():
        if timeline.now_s() < soon_s:
            continue
        now_ms = pool.now_ms()
        young_ms = SOON_MS - (now_ms - schedule.newest_ms)
        if young_ms >= 0:
            soon_s = timeline.now_s() + young_ms / 1000 - 0.001  # a millisecond earlier, because times are rounded
            continue
        quiet_ms = now_ms - max(schedule.newest_ms, looked_ms)
        if quiet_ms > 1000 * STUCK_S and timeline.now_s() > last_s + STUCK_S:
            looked_ms = now_ms
            if not any(training.pace > 0.0 for training in running(pool.nodes)):
                break
        if now_ms - schedule.newest_ms > 1000 * PATIENCE_S:
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
        preemptions=schedule.suspensions.get(job.name, 0),
    )


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
