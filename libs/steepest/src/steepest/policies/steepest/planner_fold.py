"""What happens in a pool, as the steepest-planner remembers it: fair copies, what jobs used, and what ended.

It owns the fold of the log into :class:`~steepest.policies.steepest.planner_state.SteepestPlannerState`. What follows from
that is planned in :mod:`steepest.policies.steepest.steepest_planner`.
"""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.policies.steepest.devices.which_jobs import has_devices
from steepest.policies.steepest.gangs.unmanaged import follow, is_divided, is_managed
from steepest.policies.steepest.gangs.unmanaged_replicas import UnmanagedReplicas
from steepest.policies.steepest.learning_history import LossCourse, remember, usual
from steepest.policies.steepest.managed_job import ManagedJob, measure_node
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.view.cluster_view import ClusterView
from steepest.view.folds.fold_progress import CHIEF
from steepest.view.places.queue_limits import is_limited
from steepest.view.progress import course
from steepest.view.state import Job, Node, Phase

REFUSED_S = 60.0
"""Counted seconds for which no limit is planned for a job whose limit was refused."""

CHANGES = (
    c.ReplicaStopped,
    c.JobStopped,
    c.JobEnded,
    c.JobResumed,
    c.MigrationFinished,
    c.MigrationFailed,
    c.PlanAbandoned,
)
"""Events after which the nodes of their job are planned at the next tick."""


def begin(state: SteepestPlannerState, view: ClusterView, now_s: float) -> None:
    """The policy is switched on: fair sharing begins here, for the jobs that run already too."""
    state.on, state.unlifted = True, {}
    for node in view.nodes:
        if node.takes_jobs or node.jobs:
            _join(state, node, now_s)
    for job in view.jobs:
        waits = job.is_queued and job.admitted and not _is_held_back(view, job)
        if job.alive or waits:
            _come(state, job, now_s)
        if is_managed(job):
            _train(state, view, job, now_s)
        else:
            follow(state, view, job, now_s)


def fold(state: SteepestPlannerState, view: ClusterView, event: c.ClusterEvent, now_s: float) -> None:
    """Take in a record that the view has folded already; ``now_s``: its counted time in seconds."""
    job = view.touched
    match event:
        case c.NodeJoined() if event.takes_jobs:
            _join(state, view.nodes[event.node], now_s)
        case c.Tick():
            of_nodes = (state.residences, state.gives, state.due, state.stays)
            for node in sorted({*state.fair.nodes}.union(*of_nodes) - view.state.nodes.keys()):
                state.fair.leave(node, now_s)
                for each in of_nodes:
                    each.pop(node, None)
        case c.NodeUsage():
            _measure(state, view, event, now_s)
        case c.LimitsApplied():
            for part in _parts(state, event.job):
                if part.incarnation == event.incarnation:
                    part.limit(event.cpu_m)
    if job is None:
        return
    _fold_job(state, view, job, event, now_s)
    if not is_managed(job):
        follow(state, view, job, now_s)
    elif isinstance(event, CHANGES):
        state.due |= dict.fromkeys((*job.nodes, *job.holds), 0.0)


def _join(state: SteepestPlannerState, node: Node, now_s: float) -> None:
    """A node is here; what it gave before says nothing of another capacity."""
    known = state.fair.nodes.get(node.name)
    if known is not None and known.capacity != node.capacity:
        state.gives.pop(node.name, None)
    state.fair.join(node.name, node.capacity, now_s)


def _fold_job(state: SteepestPlannerState, view: ClusterView, job: Job, event: c.ClusterEvent, now_s: float) -> None:
    match event:
        case c.JobAdmitted() if not _is_held_back(view, job):
            _come(state, job, now_s)
        case c.PlacementPlanned() if job.plan == event.plan:
            _come(state, job, now_s)
            state.fair.place(job.name)
        case c.CheckpointModeDeclared():
            _train(state, view, job, now_s)
        case c.LimitsRefused() if event.definite:
            for part in _parts(state, job.name):
                part.refuse(now_s + REFUSED_S)
        case c.JobSuspended() if job.name in state.running:
            state.running[job.name].pause(now_s)
            state.suspended[job.name] = None
            state.learned.add_stop(job.spec.model, event.took_ms / 1000)
        case c.RetryPlanned() if job.phase is Phase.WAITING:
            state.fair.pause(job.name, now_s)
            if job.name in state.running:
                state.running[job.name].pause(now_s)
        case c.GrowthMeasured() if event.metric:
            state.learned.leave(job.spec.model, job.name)  # judged by another metric, of which its losses say nothing
            if (work := state.running.get(job.name) or state.gangs.get(job.name)) is not None:
                work.losses = LossCourse()
        case c.JobEnded() | c.JobRejected() if view.jobs.is_over(job.name):
            _end(state, job, now_s)


def run_fair_pool(state: SteepestPlannerState, view: ClusterView) -> None:
    """Let the copies in, and run, whose jobs would have a place under fair sharing."""
    fair = state.fair
    fair.admit(state.now_s)
    for name in fair.ahead():
        job = view.jobs[name]
        demand = state.usual_demand(job.spec.model)
        fair.start(name, demand, state.now_s)
        size = usual(state.learned.sizes, job.spec.model)
        fair.know(name, None if size is None else job.spec.world * size, demand, state.now_s)


def _is_held_back(view: ClusterView, job: Job) -> bool:
    """Whether a job may have to wait where there is room: such a job comes when it is placed."""
    return is_limited(view, job) or job.node_rule is not None


def _come(state: SteepestPlannerState, job: Job, now_s: float) -> None:
    """A job comes when it is admitted, or when it has a place; one with devices has no copy."""
    if not has_devices(job):
        spec = job.spec
        state.fair.come(job.name, spec.chief_requests, spec.first_node, now_s, spec.all_roles if spec.is_gang else ())


def _train(state: SteepestPlannerState, view: ClusterView, job: Job, now_s: float) -> None:
    """An incarnation trains from here on, if that is not known yet."""
    node, known = job.node, state.running.get(job.name)
    if not job.alive or node is None or not is_managed(job):
        return
    if known is not None and (known.incarnation, known.node) == (job.incarnation, node):
        return
    fresh = ManagedJob(node, job.spec.model, job.incarnation, now_s, now_s, now_s)
    if known is not None:
        fresh.began_s, fresh.used, fresh.used_before, fresh.used_reported = known.began_s, *3 * (known.used,)
        fresh.start = known.start
        fresh.size, fresh.left, fresh.total = known.size, known.left, known.total
        fresh.most, fresh.demand, fresh.losses = known.most, known.demand, known.losses
    if job.limit is not None:
        fresh.limit_m = job.limit.cpu_m
        fresh.limit(job.limit.in_force_m)
    state.running[job.name] = fresh
    state.suspended.pop(job.name, None)
    state.fair.start(job.name, state.demand(fresh, view.nodes[node].capacity.cpu_m / 1000), now_s)
    state.due[node] = 0.0


def _measure(state: SteepestPlannerState, view: ClusterView, event: c.NodeUsage, now_s: float) -> None:
    node = view.nodes.get(event.node)
    if node is None:
        return
    for name, cpu_m in event.jobs.items():
        job = view.jobs.get(name)
        if cpu_m and job is not None and job.node == event.node:
            _train(state, view, job, now_s)
    here = {name: state.running[name] for name in event.jobs if is_here(state, name, event.node)}
    divided = {
        name: replicas.use
        for name in event.jobs
        if (replicas := state.unmanaged.get(name, {}).get(event.node)) is not None and is_divided(view.jobs[name])
    }
    not_divided = [cpu_m for name, cpu_m in event.jobs.items() if name not in here and name not in divided]
    shown, short = measure_node(here | divided, event.jobs, node.capacity.cpu_m, now_s)
    for name in shown:
        if name in here:
            state.learn_demand(here[name])
    for name, one in here.items():
        if view.jobs[name].plan is not None:
            one.rests = 0  # it saves, or is gone, and goes on elsewhere
    used, declared = sum(event.jobs.values()) / 1000, node.capacity.cpu_m / 1000
    measured = (here | divided).values()
    found_no_more = any(one.wants and not one.rests for one in measured)
    limited = found_no_more and any(one.in_force_m is not None for one in measured)
    gives = state.deliver(event.node, declared, used, short=short, limited=limited)
    state.fair.deliver(event.node, gives - sum(not_divided) / 1000, now_s)
    for progress in event.progress:
        running = here.get(progress.job) or (divided.get(progress.job) if progress.replica == CHIEF else None)
        if running is not None and progress.incarnation == running.incarnation:
            job = view.jobs[progress.job]
            step, total = course(job)
            if step != running.step:
                running.step, running.used_reported = step, running.used
            if step is not None and progress.loss is not None:
                losses = running.losses if progress.job in here else state.gangs[progress.job].losses
                losses.add(step if progress.step is None else progress.step, progress.loss)
                state.learned.report(running.model, job.name, losses, step, total)


def _parts(state: SteepestPlannerState, job: str) -> list[ManagedJob | UnmanagedReplicas]:
    """What is limited of a job that runs: its process, or its replicas on each node."""
    running = state.running.get(job)
    return [*state.unmanaged.get(job, {}).values()] if running is None else [running]


def _end(state: SteepestPlannerState, job: Job, now_s: float) -> None:
    running = state.running.pop(job.name, None)
    state.suspended.pop(job.name, None)
    state.learned.leave(job.spec.model, job.name)
    steps = job.stop_step or job.progress.step
    gang = state.gangs.get(job.name)
    work = running or gang
    if job.outcome is c.Outcome.FINISHED and steps and work is not None:
        share = work.losses.learned_at(steps)
        if share is not None:
            remember(state.learned.models, job.spec.model, share)
    if running is None:
        size = None if gang is None else gang.size(steps)
        state.fair.finish(job.name, size or 0.0, now_s)
        return
    size = running.start + steps * running.step_ms / 1000 if steps and running.step_ms else running.used_by(now_s)
    if running.rests > 1:  # its copy does the rest by what it could use before
        running.rests = 0
        state.fair.know(job.name, size, state.demand(running, state.fair.largest), now_s)
    state.fair.finish(job.name, size, now_s)
    if job.outcome is c.Outcome.FINISHED:
        remember(state.learned.sizes, job.spec.model, size)
        if running.overrun > 1:
            state.learned.add_overrun(running.overrun)
    state.due[running.node] = 0.0


def is_here(state: SteepestPlannerState, name: str, node: str) -> bool:
    """Whether a job trains on a node, as far as is known."""
    running = state.running.get(name)
    return running is not None and running.node == node
