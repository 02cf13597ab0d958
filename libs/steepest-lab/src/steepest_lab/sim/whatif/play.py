"""A recording's pool played on from a position, in virtual time, under its own policy or another."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.view.state import Job, Phase
from steepest_lab.sim.policies import LIVE, pool_policy
from steepest_lab.sim.result import JobResult, SimulationResult
from steepest_lab.sim.system.collector import SimulatedCollector
from steepest_lab.sim.system.pool import SimulatedPool, Watch
from steepest_lab.sim.system.schedule import Schedule
from steepest_lab.sim.system.simulate import ACT_S, HEARTBEAT_S, run_to_the_end
from steepest_lab.sim.whatif.futures import Future, future
from steepest_lab.sim.whatif.history import RecordedPool
from steepest_lab.simulated.model import Model
from steepest_lab.simulated.node import SimulatedNode
from steepest_lab.simulated.nodes import SimulatedNodes
from steepest_lab.simulated.timeline import VirtualTimeline

AS_RECORDED = "as recorded"

LEAST_HEARTBEAT_S = 0.5
"""Heartbeats that come more often show no more."""


def play_on(
    recorded: RecordedPool, policy: str, seed: int, *, watch: Watch | None = None, soft_limits: bool = False
) -> SimulationResult:
    """Play on from where the past ends; the jobs that had not ended there are what counts.

    Args:
        recorded: Is used up: read it again for another run.
        policy: Of :data:`steepest_lab.sim.policies.LIVE`, or ``as recorded`` for the parameters in force.
        seed: 0: the futures that fit best; others draw them.
        watch: Is called with every record beyond the position.
        soft_limits: CPU limits yield where CPU would be idle.

    Raises:
        InputError: No job is left, or no node is there.
    """
    began = time.perf_counter()
    start = recorded.start
    later = [event for _, event in recorded.later if isinstance(event, c.JobSubmitted)]
    left = [job for job in recorded.view.jobs if job.phase is not Phase.ENDED]
    names = [*(job.name for job in left), *(event.job for event in later)]
    if not names:
        raise InputError("no job is left at that position", hint="Name an earlier position: --at POSITION.")
    if not recorded.gives_m:
        raise InputError("no node is there at that position or beyond it", hint="Name another recording.")
    unknown = [name for name in names if name not in recorded.seen or not recorded.seen[name].reports]
    futures = {name: future(name, recorded, seed) for name in names if name not in unknown}
    pool = _pool(recorded, futures, soft_limits=soft_limits)
    schedule = Schedule(newest_ms=start.at_ms)

    def see(received: Received[Any]) -> None:
        schedule.add(received)
        if watch is not None:
            watch(received)

    pool.watch = see
    for job in left:
        if job.alive and job.nodes:
            _adopt(pool.nodes, job, _done(recorded, job.name))
        elif job.checkpoint is not None:
            pool.nodes.remember(job.name, job.checkpoint)
    pool.resume()
    if policy != AS_RECORDED:
        _switch(pool, policy)
    for at_ms, event in recorded.later:
        _append_later(pool, at_ms - start.at_ms, event, policy)
    run_to_the_end(pool, schedule, len(names))
    submitted_ms = {job.name: job.submitted_ms for job in left}
    submitted_ms |= {event.job: at_ms for at_ms, event in recorded.later if isinstance(event, c.JobSubmitted)}
    started_ms = {job.name: job.first_placed_ms for job in left}
    return SimulationResult(
        policy=policy,
        seed=seed,
        jobs=[_result(name, submitted_ms[name], started_ms.get(name), schedule, recorded.log_ms) for name in names],
        used=pool.nodes.cpu_m_s(),
        capacity=float(sum(node.capacity.cpu_m for node in recorded.view.nodes)),
        events=pool.timeline.done + pool.records - recorded.view.position,
        wall_seconds=time.perf_counter() - began,
        assumptions=_assumptions(futures, unknown),
    )


def _pool(recorded: RecordedPool, futures: dict[str, Future], *, soft_limits: bool) -> SimulatedPool:
    view = recorded.view

    def model(replica: ReplicaId, _: ReplicaSpec) -> Model:
        known = futures.get(replica.job)
        return known.model if known else Model(steps=60, step_s=1.0, demand_m=1000)

    def make_nodes(timeline: VirtualTimeline, collector: SimulatedCollector) -> SimulatedNodes:
        capacity = {node.name: node.capacity for node in view.nodes}
        capacity |= {event.node: event.capacity for _, event in recorded.later if isinstance(event, c.NodeJoined)}
        nodes = [
            SimulatedNode(name, has, timeline, gives_m=recorded.gives_m[name], caps_yield=soft_limits)
            for name, has in capacity.items()
        ]
        for node in nodes:
            node.lost = node.name in view.nodes and view.nodes[node.name].lost
        return SimulatedNodes(nodes, model, timeline, witness=collector)

    heartbeat_s = max(LEAST_HEARTBEAT_S, recorded.heartbeat_s or HEARTBEAT_S)
    return SimulatedPool(recorded.start, make_nodes, heartbeat_s=heartbeat_s, act_s=ACT_S)


def _adopt(nodes: SimulatedNodes, job: Job, done: int) -> None:
    """The processes that ran at the position continue after the job's newest step."""
    limit_m, requests = job.limit.in_force_m if job.limit else None, job.spec.replica_requests(job.sizes)
    running = [index for index, one in enumerate(job.replicas) if one.alive] if job.spec.is_gang else [0]
    for index in running:
        nodes.adopt(
            ReplicaId(job.name, index),
            job.incarnation,
            job.nodes[index],
            ReplicaSpec(command=job.spec.command, requests=requests[index], cpu_limit_m=limit_m),
            step=done,
            mode=job.mode,
            checkpoint=job.checkpoint,
        )


def _done(recorded: RecordedPool, job: str) -> int:
    """The newest step reported before the position."""
    seen, at_ms = recorded.seen.get(job), recorded.start.at_ms
    return max((step for then_ms, _, step, _ in seen.reports if then_ms <= at_ms), default=0) if seen else 0


def _switch(pool: SimulatedPool, policy: str) -> None:
    state = pool.view.state
    configured = c.PoolConfigured(reads=max(state.reads, 1), flags=state.flags, parameters=state.parameters)
    pool.append(_under(policy, configured))


def _under(policy: str, configured: c.PoolConfigured) -> c.PoolConfigured:
    """Parameters that the recording puts in force, under a policy."""
    if policy == AS_RECORDED:
        return configured
    chosen = pool_policy(policy, LIVE)
    if chosen is None:
        raise InputError(f"there is no live policy {policy[:100]!r}", hint=f"Name some of {', '.join(LIVE)}.")
    parameters = chosen.parameters(configured.parameters)
    return msgspec.structs.replace(configured, parameters=parameters)


def _append_later(pool: SimulatedPool, in_ms: int, event: c.ClusterEvent, policy: str) -> None:
    def act() -> None:
        match event:
            case c.NodeJoined():
                pool.collector.beat(event.node)
            case c.PoolConfigured():
                pool.append(_under(policy, event))
            case _:
                pool.append(event)

    pool.timeline.call_at(max(0, in_ms) / 1000, act)


def _result(name: str, submitted_ms: int, started_ms: int | None, schedule: Schedule, log_ms: int) -> JobResult:
    """Times count from the log's first record."""
    outcome = schedule.outcomes.get(name, "running")
    start_ms = started_ms if started_ms is not None else schedule.starts_ms.get(name)
    return JobResult(
        name=name,
        submit_s=(submitted_ms - log_ms) / 1000,
        start_s=None if start_ms is None else (start_ms - log_ms) / 1000,
        end_s=(schedule.ends_ms[name] - log_ms) / 1000 if outcome == "finished" else None,
        outcome=outcome,
        migrations=schedule.migrations.get(name, 0),
    )


def _assumptions(futures: dict[str, Future], unknown: list[str]) -> list[str]:
    guessed = sorted(name for name, one in futures.items() if not one.known)
    assumed = ["Progress is proportional to the CPU that a job gets; what a step costs is measured over the recording."]
    if guessed:
        assumed.append(f"Ends are guessed from fitted curves: {', '.join(guessed)}.")
    if unknown:
        assumed.append(
            f"Nothing was reported by {', '.join(sorted(unknown))}: taken for a minute's work of one core each."
        )
    return assumed
