"""Jobs that the policy does not manage, gangs and jobs with GPUs: where their replicas are, what they use, and their limits.

What gangs without GPUs use is divided, and their copies in the virtual pool are where fair sharing would place them. Other
jobs have no copies there: they hold what they reserve where they are.
"""

from __future__ import annotations

from steepest.events.common import Resources
from steepest.policies.steepest.devices.which_jobs import has_devices
from steepest.policies.steepest.gangs.unmanaged_replicas import GangWork, UnmanagedReplicas
from steepest.policies.steepest.managed_job import ManagedJob
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job


def is_managed(job: Job) -> bool:
    """Whether the job is one process that computes on CPUs."""
    return not job.spec.is_gang and not has_devices(job)


def is_divided(job: Job) -> bool:
    """Whether what a job that is not managed gets is divided among it and the others on its nodes."""
    return job.spec.is_gang and not has_devices(job)


def follow(state: SteepestPlannerState, view: ClusterView, job: Job, now_s: float) -> None:
    """Something happened to a job that is not managed: this is where its replicas have places now."""
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
        use = ManagedJob(node, job.spec.model, job.incarnation, now_s, now_s, now_s)
        if old is not None and old.count == count:
            use.most, use.demand = old.use.most, old.use.demand
        after[node] = UnmanagedReplicas(job.incarnation, count, held, trains, use)
        if job.limit is not None:
            use.limit_m = job.limit.cpu_m
            after[node].limit(job.limit.in_force_m)
        if not is_divided(job):
            state.fair.hold(node, job.name, held)
        state.due[node] = 0.0
    for node in before:
        state.fair.hold(node, job.name, Resources())
        state.due[node] = 0.0
    if after:
        state.unmanaged[job.name] = after
        state.gangs.setdefault(job.name, GangWork())
    elif job.outcome is not None:
        state.gangs.pop(job.name, None)
    if running and is_divided(job) and not state.fair.runs(job.name):
        state.fair.start(job.name, state.usual_demand(job.spec.model), now_s)
