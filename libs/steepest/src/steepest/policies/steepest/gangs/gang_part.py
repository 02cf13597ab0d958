"""A gang's replicas on a node that is planned: what they are to have, and the limit of the whole gang.

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

from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.gangs.unmanaged import copies_of, is_divided
from steepest.policies.steepest.gangs.unmanaged_replicas import UnmanagedReplicas
from steepest.policies.steepest.job_facts import LEAST_LEFT, JobFacts, deadline_of, due_by, owed, shares_of
from steepest.policies.steepest.learning import worth
from steepest.policies.steepest.node_plan import LEAST_LIMIT_M, JobOnNode, JobShare
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.policies.steepest.residences import Resident
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import cpu_ms_left, total_steps
from steepest.view.state import Job


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
        return facts.as_on_node(
            state.now_s,
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

    They have as large a part of the gang's work as of its replicas.
    """
    demand, left = state.demand(replicas.use, cores, replicas.count), _left_of_each(job)
    size = None if left is None else replicas.use.used_by(state.now_s) / replicas.count + left
    copies = [name for name in copies_of(job.name, replicas.use.node, replicas.count) if name in state.fair.jobs]
    for copy in copies:
        state.fair.know(copy, size, demand / replicas.count, state.now_s)
    facts = JobFacts(name=job.name, demand=demand, unknown=True, priority=job.spec.priority)
    began_s, end_s = _fair_span(state, copies)
    is_whole = len(state.unmanaged[job.name]) == 1
    if not is_whole or left is None or size is None or math.isinf(end_s):
        return GangPart(job, replicas, facts, copies)
    done = min((job.progress.step or 0) / (total_steps(job) or 1), 1 - LEAST_LEFT)
    left, size = left * replicas.count, size * replicas.count
    facts = msgspec.structs.replace(
        facts,
        unknown=False,
        size=size,
        left=left,
        fair_end_s=end_s,
        due_s=due_by(began_s, end_s, parameters.lateness),
        index=worth(done, left, parameters.learning_weight, shares_of(state, replicas.use, job)),
        deadline_s=deadline_of(state, job),
    )
    return GangPart(job, replicas, facts, copies)


def _fair_span(state: SteepestPlannerState, copies: Sequence[str]) -> tuple[float, float]:
    """When copies began, and when the last of them ends; infinite where nothing says when."""
    found = [copy for name in copies if (copy := state.fair.look(name, state.now_s)) is not None]
    ends = [copy.forecast_s if copy.end_s is None else copy.end_s for copy in found]
    last_s = max((math.inf if end_s is None else end_s for end_s in ends), default=math.inf)
    return min((copy.began_s for copy in found), default=state.now_s), last_s


def _left_of_each(job: Job) -> float | None:
    """Core-seconds that each replica of a gang still needs; None where nothing says so."""
    left_ms, total = cpu_ms_left(job), total_steps(job)
    if left_ms is None or total is None or total == job.progress.step:
        return None
    return max(left_ms / 1000, LEAST_LEFT) / len(job.replicas)


def limit_of(state: SteepestPlannerState, job: str) -> int | None:
    """The limit of each replica of a gang, in millicores: the lowest that a node of it is to have."""
    limits = [one.limit_m for one in state.unmanaged[job].values() if one.trains and one.limit_m is not None]
    return min(limits, default=None)


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
        for copy in copies_of(name, node, replicas.count):
            state.fair.know(copy, None, replicas.use.cpu / replicas.count, state.now_s)
