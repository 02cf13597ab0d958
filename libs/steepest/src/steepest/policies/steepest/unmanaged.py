"""Replicas of jobs that the policy does not manage, gangs and jobs with GPUs: they share their nodes fairly with the others.

A gang on one node is one job of its node's plan: it has a fair end, a due time and an index. A gang on several nodes gets
what it would get under fair sharing, now: nodes that put its work off each by itself would have it wait for one another. All
its replicas have the same limit, that of the node that gives them least: they wait for the slowest of them. Without a limit,
the operating system would give them a part of all that limited jobs leave. Jobs with GPUs are not limited; what they use is
not divided.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import SteepestParameters
from steepest.events.registry import GANGS_ARE_LIMITED
from steepest.policies.steepest.job_facts import LEAST_LEFT, JobFacts, owed, shares_of
from steepest.policies.steepest.learning import worth
from steepest.policies.steepest.managed_job import ManagedJob
from steepest.policies.steepest.node_plan import LEAST_LIMIT_M, JobOnNode, JobShare
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.policies.steepest.residences import Resident
from steepest.policies.steepest.unmanaged_replicas import UnmanagedReplicas
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import cpu_ms_left, total_steps
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
        if job.limit is not None:
            use.limit_m = job.limit.cpu_m
            use.limit(None if job.limit.in_force_m is None else job.limit.in_force_m * count)
        after[node] = UnmanagedReplicas(job.incarnation, count, held, trains, use)
        for number, copy in enumerate(_copies(job.name, node, count)):
            state.fair.pin(copy, node, Resources() if number else held, now_s, trains=trains)
        state.due[node] = 0.0
    for node, old in before.items():
        _unpin(state, job.name, node, old, now_s)
        state.due[node] = 0.0
    if after:
        state.unmanaged[job.name] = after


def _copies(job: str, node: str, count: int) -> list[str]:
    return [f"{job}/{node}/{number}" for number in range(count)]


def _unpin(state: SteepestPlannerState, job: str, node: str, old: UnmanagedReplicas, now_s: float) -> None:
    for copy in _copies(job, node, old.count):
        state.fair.unpin(copy, now_s)


def take_part(state: SteepestPlannerState, view: ClusterView, node: str) -> Iterator[tuple[Job, UnmanagedReplicas]]:
    """The gangs that train on a node and take part in its division, with their replicas there.

    The others' copies use what these do.
    """
    for name in view.nodes[node].jobs:
        replicas = state.unmanaged.get(name, {}).get(node)
        if replicas is None or not replicas.trains:
            continue
        if is_divided(view, view.jobs[name]):
            yield view.jobs[name], replicas
            continue
        for copy in _copies(name, node, replicas.count):
            state.fair.know(copy, None, replicas.use.cpu / replicas.count, state.now_s)


def uses_of(state: SteepestPlannerState, job: str) -> list[ManagedJob]:
    """What a job that is not managed uses, on each of its nodes."""
    return [replicas.use for replicas in state.unmanaged.get(job, {}).values()]


def was_limited(state: SteepestPlannerState, event: c.LimitsApplied) -> None:
    """A limit is in force from here on."""
    if (running := state.running.get(event.job)) is not None and running.incarnation == event.incarnation:
        running.limit(event.cpu_m)
    for replicas in state.unmanaged.get(event.job, {}).values():
        if replicas.incarnation == event.incarnation:
            replicas.use.limit(None if event.cpu_m is None else event.cpu_m * replicas.count)


def was_refused(state: SteepestPlannerState, job: str, until_s: float) -> None:
    """A limit was refused: until then none is planned."""
    if (running := state.running.get(job)) is not None:
        running.limit_m, running.unlimited_until_s = running.in_force_m, until_s
    for replicas in state.unmanaged.get(job, {}).values():
        use = replicas.use
        use.limit_m = None if use.in_force_m is None else use.in_force_m // replicas.count
        use.unlimited_until_s = until_s


class GangPart(msgspec.Struct, frozen=True):
    """A gang's replicas on a node that is planned.

    Attributes:
        facts: What is known of them; what is left is the work of these replicas, and the end is that of the whole gang.
        copies: Theirs under fair sharing.
    """

    job: Job
    replicas: UnmanagedReplicas
    facts: JobFacts
    copies: Sequence[str]

    def on_node(self, state: SteepestPlannerState, dues_s: Sequence[float], *, steady: bool) -> JobOnNode:
        """They as the plan of the node needs them; the arguments are those of :meth:`JobFacts.on_node`.

        Replicas of a gang on several nodes, and those of which nothing says how long they run, keep up with their copies;
        once those have ended, they have an equal part.
        """
        fair, facts = state.fair, self.facts

        def course(until_s: Sequence[float]) -> list[float]:
            return [sum(each) for each in zip(*(fair.course(copy, until_s) for copy in self.copies), strict=True)]

        used = sum(fair.jobs[copy].used for copy in self.copies)
        keeps_up = facts.unknown and all(fair.jobs[copy].end_s is None for copy in self.copies)
        return JobOnNode(
            name=facts.name,
            left=facts.left,
            demand=facts.demand,
            due_s=None if facts.due_s is None else facts.due_s - state.now_s,
            index=facts.index,
            needs=facts.needs(state.now_s),
            priority=facts.priority,
            fair_rate=self._fair_rate(state) if keeps_up else None,
            owed=owed(course, used, dues_s, state.now_s) if keeps_up else (),
            steady=steady,
        )

    def resident(self, state: SteepestPlannerState) -> Resident:
        """They as the search for moves needs them: nothing moves them."""
        facts, use = self.facts, self.replicas.use
        return Resident(
            name=facts.name,
            left=facts.left,
            demand=facts.demand,
            rate=use.rate,
            claim=self._fair_rate(state) if facts.unknown else 0.0,
            used=use.used_by(state.now_s),
            due_s=facts.due_s,
            index=facts.index,
        )

    def divide(self, share: JobShare) -> None:
        """A plan of the node gives them a share; each of several roles may use all: nothing says how they divide it."""
        self.replicas.use.rate = share.rate
        each = share.limit_m
        if each is not None and len(self.job.spec.all_roles) == 1:
            each = max(LEAST_LIMIT_M, each // self.replicas.count)
        self.replicas.limit_m = each

    def _fair_rate(self, state: SteepestPlannerState) -> float:
        return sum(state.fair.rate(copy) for copy in self.copies)


def part_of(
    state: SteepestPlannerState,
    parameters: SteepestParameters,
    job: Job,
    replicas: UnmanagedReplicas,
    cores: float,
) -> GangPart:
    """What is known of a gang's replicas on a node with so many cores; the fair pool learns it too.

    They have as large a part of the gang's work as of its replicas, and end with the last of all its copies.
    """
    use, now_s = replicas.use, state.now_s
    demand, left = _demand(state, replicas, cores), _left_of_each(job)
    size = None if left is None else use.used_by(now_s) / replicas.count + left
    copies = [name for name in _copies(job.name, use.node, replicas.count) if name in state.fair.jobs]
    for copy in copies:
        state.fair.know(copy, size, demand / replicas.count, now_s)
    began_s, end_s = _fair_span(state, job)
    facts = JobFacts(name=job.name, demand=demand, unknown=True, priority=job.spec.priority)
    is_on_one = len(state.unmanaged[job.name]) == 1
    if is_on_one and left is not None and size is not None and not math.isinf(end_s):
        total, deadline_ms = total_steps(job) or 1, job.spec.deadline_ms
        done = min((job.progress.step or 0) / total, 1 - LEAST_LEFT)
        facts = msgspec.structs.replace(
            facts,
            unknown=False,
            size=size * replicas.count,
            left=left * replicas.count,
            fair_end_s=end_s,
            due_s=began_s + (1 + parameters.lateness) * (end_s - began_s),
            index=worth(done, left * replicas.count, parameters.learning_weight, shares_of(state, use, job)),
            deadline_s=None if deadline_ms is None else now_s + (job.submitted_ms + deadline_ms - state.tick_ms) / 1000,
        )
    return GangPart(job, replicas, facts, copies)


def _fair_span(state: SteepestPlannerState, job: Job) -> tuple[float, float]:
    """When a gang's copies began, and when the last of them ends; infinite where nothing says when."""
    names = [name for node, one in state.unmanaged[job.name].items() for name in _copies(job.name, node, one.count)]
    found = [copy for name in names if (copy := state.fair.look(name, state.now_s)) is not None]
    ends = [copy.forecast_s if copy.end_s is None else copy.end_s for copy in found]
    last_s = max((math.inf if end_s is None else end_s for end_s in ends), default=math.inf)
    return min((copy.began_s for copy in found), default=state.now_s), last_s


def _left_of_each(job: Job) -> float | None:
    """Core-seconds that each replica of a gang still needs; None where nothing says so."""
    left_ms, total = cpu_ms_left(job), total_steps(job)
    if left_ms is None or total is None or total == job.progress.step:
        return None
    return max(left_ms / 1000, LEAST_LEFT) / len(job.replicas)


def _demand(state: SteepestPlannerState, replicas: UnmanagedReplicas, cores: float) -> float:
    """Cores that the replicas on a node can use, all together."""
    use = replicas.use
    known = replicas.count * state.usual_demand(use.model, cores) if use.demand is None else use.demand
    return min(max(known, use.most), cores)


def limit_of(state: SteepestPlannerState, job: str) -> int | None:
    """The limit of each replica of a gang, in millicores: the lowest that a node of it is to have."""
    limits = [one.limit_m for one in state.unmanaged[job].values() if one.trains and one.limit_m is not None]
    return min(limits, default=None)
