"""A gang's replicas on a node that is planned: what they are to have, and the limit of the whole gang.

A gang on one node is one job of its node's plan: it has a fair end, a due time and an index. A gang on several nodes keeps
up with its copies under fair sharing, and gets by its index of what is to spare: nodes that put its work off each by itself
would have it wait for one another. All its replicas have the same limit, that of the node that gives them least: they wait
for the slowest of them. Without a limit, the operating system would give them a part of all that limited jobs leave. Jobs
with GPUs are not limited; what they use is not divided.
"""

from __future__ import annotations

from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.gangs.unmanaged import is_divided
from steepest.policies.steepest.gangs.unmanaged_replicas import UnmanagedReplicas
from steepest.policies.steepest.job_facts import LEAST_LEFT, deadline_of, shares_of
from steepest.policies.steepest.learning import worth
from steepest.policies.steepest.node_plan import LEAST_LIMIT_M, JobOnNode
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import course, cpu_ms_left
from steepest.view.state import Job


def part_of(
    state: SteepestPlannerState,
    parameters: SteepestParameters,
    job: Job,
    replicas: UnmanagedReplicas,
    cores: float,
) -> JobOnNode:
    """What is known of a gang's replicas on a node with so many cores; the fair pool learns it too.

    What is left is their work, and the end is that of the whole gang. Replicas of a gang on several nodes, and
    those of which nothing says how long they run, have the rate of their copies until those have ended; then they have an
    equal part.
    """
    demand, left_ms, (step, total) = state.demand(replicas.use, cores, replicas.count), cpu_ms_left(job), course(job)
    fair, work, everywhere = state.fair, state.gangs[job.name], state.unmanaged[job.name]
    work.measure(job)
    left = None if left_ms is None else max(left_ms / 1000, LEAST_LEFT) / len(job.replicas)
    size = None if left is None else work.size(total)
    copies = len(fair.copies_of(job.name)) * replicas.count / sum(one.count for one in everywhere.values())
    is_fresh = state.now_s - replicas.use.since_s < parameters.young_ms / 1000
    taken = fair.size(job.name) if size is None and is_fresh else size
    fair.know(job.name, taken, demand / copies, state.now_s)
    copy = fair.look(job.name, state.now_s)
    part = JobOnNode(
        name=job.name,
        demand=demand,
        elsewhere=demand,
        unknown=True,
        used=replicas.use.used_by(state.now_s),
        priority=job.spec.priority,
        rate=replicas.use.rate,
    )
    if left is not None and size is not None:
        left *= replicas.count
        done = min((step or 0) / (total or 1), 1 - LEAST_LEFT)
        part.index = worth(done, left, parameters.learning_weight, shares_of(state.learned, work.losses, job))
        if len(everywhere) == 1:
            part.unknown, part.size, part.left, part.deadline_s = False, size, left, deadline_of(state, job)
            if copy is not None:
                part.fair_end_s, part.due_s = copy.ends_s, copy.due_s(parameters.lateness)
            return part
    if copy is None or copy.end_s is None:
        part.fair_rate = copies * fair.rate(job.name)
    return part


def divide(job: Job, replicas: UnmanagedReplicas, part: JobOnNode) -> None:
    """A plan of the node gives them their share; each of several roles may use all: nothing says how they divide it."""
    replicas.use.rate, each = part.rate, part.limit_m
    if each is not None and len(job.spec.all_roles) == 1:
        each = max(LEAST_LIMIT_M, each // replicas.count)
    replicas.limit_m = each


def limit_of(state: SteepestPlannerState, job: str) -> int | None:
    """The limit of each replica of a gang, in millicores: the lowest that a node of it is to have."""
    limits = [one.limit_m for one in state.unmanaged[job].values() if one.trains and one.limit_m is not None]
    return min(limits, default=None)


def limit_together(state: SteepestPlannerState, job: Job, replicas: UnmanagedReplicas) -> int | None:
    """The limit of its replicas on a node, of which :func:`divide` makes that of each."""
    each_m = limit_of(state, job.name)
    return each_m if each_m is None or len(job.spec.all_roles) > 1 else each_m * replicas.count


def take_part(state: SteepestPlannerState, view: ClusterView, node: str) -> dict[str, UnmanagedReplicas]:
    """The gangs that train on a node and take part in its division, with their replicas there."""
    found = {name: state.unmanaged.get(name, {}).get(node) for name in view.nodes[node].jobs}
    return {name: one for name, one in found.items() if one and one.trains and is_divided(view.jobs[name])}
