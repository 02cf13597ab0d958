"""Jobs that the policy does not manage, gangs and jobs with GPUs: where their replicas are, what they use, and their limits.

Their places are copies in the virtual pool from when they are promised, and share their node there while they train.
"""

from __future__ import annotations

from steepest.events.common import Resources
from steepest.events.registry import GANGS_ARE_LIMITED
from steepest.policies.steepest.gangs.unmanaged_replicas import UnmanagedReplicas
from steepest.policies.steepest.managed_job import ManagedJob
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job


def is_managed(job: Job) -> bool:
    """Whether the job is one process that computes on CPUs."""
    return not job.spec.is_gang and not _has_gpus(job)


def is_divided(view: ClusterView, job: Job) -> bool:
    """Whether what a job that is not managed gets is divided among it and the others on its nodes."""
    return job.spec.is_gang and not _has_gpus(job) and view.has(GANGS_ARE_LIMITED)


def _has_gpus(job: Job) -> bool:
    return any(role.requests.gpus or role.requests.gpu_m for role in job.spec.all_roles)


def follow(state: SteepestPlannerState, view: ClusterView, job: Job, now_s: float) -> None:
    """Something happened to a job that is not managed: its copies are where its replicas have places."""
    before = state.unmanaged.pop(job.name, {})
    after: dict[str, UnmanagedReplicas] = {}
    running = dict.fromkeys(job.running_on)
    for node, count in job.holds.items():
        held, trains, old = view.nodes.held(job, node), node in running, before.pop(node, None)
        if old is not None and (old.incarnation, old.count, old.held, old.trains) == (
            job.incarnation,
            count,
            held,
            trains,
        ):
            after[node] = old
            continue
        if old is not None:
            _unpin(state, job.name, node, old, now_s)
        use = ManagedJob(node, job.spec.model, job.incarnation, now_s, now_s, now_s)
        if old is not None and old.count == count:
            use.most, use.demand = old.use.most, old.use.demand
        after[node] = UnmanagedReplicas(job.incarnation, count, held, trains, use)
        if job.limit is not None:
            use.limit_m = job.limit.cpu_m
            after[node].limit(job.limit.in_force_m)
        for number, copy in enumerate(copies_of(job.name, node, count)):
            state.fair.pin(copy, node, Resources() if number else held, now_s, trains=trains)
        state.due[node] = 0.0
    for node, old in before.items():
        _unpin(state, job.name, node, old, now_s)
        state.due[node] = 0.0
    if after:
        state.unmanaged[job.name] = after


def copies_of(job: str, node: str, count: int) -> list[str]:
    """The names of the copies of a job's replicas on a node."""
    return [f"{job}/{node}/{number}" for number in range(count)]


def _unpin(state: SteepestPlannerState, job: str, node: str, old: UnmanagedReplicas, now_s: float) -> None:
    for copy in copies_of(job, node, old.count):
        state.fair.unpin(copy, now_s)


def uses_of(state: SteepestPlannerState, job: str) -> list[ManagedJob]:
    """What a job that is not managed uses, on each of its nodes."""
    return [replicas.use for replicas in state.unmanaged.get(job, {}).values()]
