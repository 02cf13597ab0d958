"""A gang's replicas on a node that is planned: what they are to have, and the limit of the whole gang.

A gang on one node is one job of its node's plan: it has a fair end, a due time and an index. A gang on several nodes keeps
up with its copies under fair sharing, and gets by its index of what is to spare: nodes that put its work off each by itself
would have it wait for one another. All its replicas have the same limit, that of the node that gives them least: they wait
for the slowest of them. Without a limit, the operating system would give them a part of all that limited jobs leave. Jobs
with GPUs are not limited; what they use is not divided.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.gangs.unmanaged import is_divided, pins_of
from steepest.policies.steepest.gangs.unmanaged_replicas import UnmanagedReplicas
from steepest.policies.steepest.job_facts import LEAST_LEFT, JobFacts, deadline_of, shares_of
from steepest.policies.steepest.learning import worth
from steepest.policies.steepest.node_plan import LEAST_LIMIT_M, JobOnNode, JobShare
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.policies.steepest.residences import Resident
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import course, cpu_ms_left
from steepest.view.state import Job


class GangPart(msgspec.Struct, frozen=True):
    """A gang's replicas on a node that is planned.

    Attributes:
        facts: What is known of them; what is left is the work of these replicas, and the end is that of the whole gang.
        copies: How many of the gang's copies under fair sharing are theirs: as large a part as of its replicas.
    """

    job: Job
    replicas: UnmanagedReplicas
    facts: JobFacts
    copies: float

    def on_node(self, state: SteepestPlannerState, *, steady: bool) -> JobOnNode:
        """They as the plan of the node needs them.

        Replicas of a gang on several nodes, and those of which nothing says how long they run, have the rate of their copies
        until those have ended; then they have an equal part.
        """
        copy = state.fair.look(self.facts.name, state.now_s)
        as_copies = self.facts.unknown and (copy is None or copy.end_s is None)
        return self.facts.as_on_node(
            state.now_s, fair_rate=self._fair_rate(state) if as_copies else None, steady=steady
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
        return self.copies * state.fair.rate(self.job.name)


def part_of(
    state: SteepestPlannerState,
    parameters: SteepestParameters,
    job: Job,
    replicas: UnmanagedReplicas,
    cores: float,
) -> GangPart:
    """What is known of a gang's replicas on a node with so many cores; the fair pool learns it too."""
    demand, left, (step, total) = state.demand(replicas.use, cores, replicas.count), _left_of_each(job), course(job)
    fair, work, everywhere = state.fair, state.gangs[job.name], state.unmanaged[job.name]
    work.measure(job)
    size = None if left is None else work.size(total)
    copies = len(fair.copies_of(job.name)) * replicas.count / sum(one.count for one in everywhere.values())
    is_fresh = state.now_s - replicas.use.since_s < parameters.young_ms / 1000
    taken = fair.size(job.name) if size is None and is_fresh else size
    fair.know(job.name, taken, demand / copies, state.now_s)
    copy = fair.look(job.name, state.now_s)
    facts = JobFacts(name=job.name, demand=demand, unknown=True, priority=job.spec.priority)
    if left is None or size is None:
        return GangPart(job, replicas, facts, copies)
    left *= replicas.count
    done = min((step or 0) / (total or 1), 1 - LEAST_LEFT)
    index = worth(done, left, parameters.learning_weight, shares_of(state.learned, work.losses, job))
    if len(everywhere) > 1:
        return GangPart(job, replicas, msgspec.structs.replace(facts, index=index), copies)
    facts = msgspec.structs.replace(
        facts,
        unknown=False,
        size=size,
        left=left,
        fair_end_s=None if copy is None else copy.ends_s,
        due_s=None if copy is None else copy.due_s(parameters.lateness),
        index=index,
        deadline_s=deadline_of(state, job),
    )
    return GangPart(job, replicas, facts, copies)


def _left_of_each(job: Job) -> float | None:
    """Core-seconds that each replica of a gang still needs; None where nothing says so."""
    left_ms = cpu_ms_left(job)
    if left_ms is None:
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
        if is_divided(view.jobs[name]):
            yield view.jobs[name], replicas
            continue
        for copy in pins_of(name, node, replicas.count):
            state.fair.know(copy, None, replicas.use.cpu / replicas.count, state.now_s)
