"""What must hold of a view after every record, recomputed the slow way from its plain state.

It owns the definitions of the orders and sums that the view keeps incrementally, and must never use the view's own code for
them.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from steepest.events.cluster import Category
from steepest.events.common import CheckpointMode, Resources
from steepest.view.cluster_view import ClusterView
from steepest.view.nodes import allocation
from steepest.view.spec_rules import what_is_wrong
from steepest.view.state import CATEGORIES, TRANSITIONS, Job, Node, Phase, Plan, PlanKind, PlanStatus


def check_view(view: ClusterView, *, room: bool = True) -> None:
    """Hold a view to all its promises.

    Args:
        view: The view.
        room: Whether no node ever shrank, so that nothing may be free below zero.

    Raises:
        AssertionError: One does not hold.
    """
    check_accounting(view, room=room)
    check_plans(view)
    check_lives(view)
    check_node_orders(view)
    check_job_orders(view)


def check_accounting(view: ClusterView, *, room: bool) -> None:
    """What a node has allocated and counts is the sum over the jobs that hold and count there."""
    taken: dict[str, Resources] = defaultdict(Resources)
    counted: dict[str, list[int]] = defaultdict(lambda: [0] * (len(CATEGORIES) + 1))
    for job in view.jobs:
        for node, count in job.holds.items():
            taken[node] += job.held[node] if node in job.held else _one(job).times(count)
        for node, count in job.assigned.items():
            counted[node][len(CATEGORIES) if job.unknown else CATEGORIES.index(job.category)] += count
    for found in view.nodes:
        assert found.allocated == taken.pop(found.name, Resources()), found
        assert [*found.replicas, found.unknown] == counted.pop(found.name, [0, 0, 0, 0]), found
        assert set(found.jobs) == {job.name for job in view.jobs if found.name in job.holds}, found
        assert min(found.allocated.cpu_m, found.allocated.memory_mib, found.allocated.gpus) >= 0, found
        assert not room or Resources().fits(found.free), found
    assert not taken, "a job holds a place on a node that is not there"
    assert not counted, "a job counts on a node that is not there"


def check_plans(view: ClusterView) -> None:
    """Every plan in flight belongs to exactly one job, and every job's plan is in flight."""
    in_flight = {plan.id: plan for plan in view.state.plans.values() if plan.status is PlanStatus.IN_FLIGHT}
    assert view.in_flight == in_flight
    assert set(view.over) == set(view.state.plans) - set(in_flight)
    holders = {job.plan: job.name for job in view.jobs if job.plan is not None}
    assert len(holders) == sum(job.plan is not None for job in view.jobs), "two jobs have one plan"
    assert holders == {plan.id: plan.job for plan in in_flight.values()}


def check_lives(view: ClusterView) -> None:
    """A job without a process and without a plan holds nothing; any other holds exactly its places."""
    for job in view.jobs:
        assert job.limit is None or job.alive, f"{job.name} has a limit and no process"
        held, assigned = sum(job.holds.values()), sum(job.assigned.values())
        if job.phase is not Phase.RUNNING:
            assert (held, assigned, job.alive, job.plan) == (0, 0, False, None), job
            continue
        assert job.alive or job.plan is not None, f"{job.name} is lost"
        plan = view.plan_of(job)
        assert all(node in job.holds for node in job.assigned), job
        if job.spec.is_gang or (plan is not None and (plan.kind in TRANSITIONS or plan.waits)):
            check_gang(job, plan)
            continue
        moving = plan is not None and plan.kind is PlanKind.MIGRATE and bool(plan.sources and plan.targets)
        assert (held, assigned) == (1 + moving, 1), job
        if job.alive and plan is None:
            assert set(job.nodes) == set(job.holds), job


def check_gang(job: Job, plan: Plan | None) -> None:
    """A gang that nothing is planned for holds what its live replicas ask for; one that waits, no more than it needs."""
    requests = job.spec.replica_requests(job.sizes) if job.spec.is_gang else (_one(job),)
    there: dict[str, Resources] = defaultdict(Resources)
    for index, replica in enumerate(job.replicas):
        there[replica.node] += requests[index] if replica.alive else Resources()
    if plan is None and job.spec.is_gang:
        assert {node: amount for node, amount in there.items() if amount != Resources()} == job.held, job
        assert job.alive == any(replica.alive for replica in job.replicas), job
    for amount in job.held.values():
        assert min(amount.cpu_m, amount.memory_mib, amount.gpus) >= 0, job


def _one(job: Job) -> Resources:
    return job.spec.roles[0].requests if job.spec.roles else job.spec.requests


def check_node_orders(view: ClusterView) -> None:
    """Each order of the nodes is the sorted list of those that are open; silence is kept of all that are not lost."""
    here = [node for node in view.nodes if not node.lost and node.takes_jobs]
    heard = [node for node in view.nodes if not node.lost]
    weights = view.parameters.specon

    def score(node: Node) -> float:
        per = (weights.weight_pc, weights.weight_wc, weights.weight_cc, weights.weight_wc)
        return sum(weight * count for weight, count in zip(per, (*node.replicas, node.unknown), strict=True))

    def replicas(node: Node) -> int:
        return sum(node.replicas) + node.unknown

    def use(node: Node) -> int:
        return node.used.cpu_m * 1000 // node.capacity.cpu_m if node.capacity.cpu_m else 0

    assert list(view.nodes.by_score()) == sorted(here, key=lambda node: (score(node), use(node), node.name))
    assert list(view.nodes.by_count()) == sorted(here, key=lambda node: (replicas(node), node.name))
    assert view.nodes.busiest() == max(here, key=lambda node: (replicas(node), node.name), default=None)
    assert (len(view.nodes), view.nodes.replicas) == (len(here), sum(map(replicas, here)))
    assert view.nodes.longest_silent() == min(heard, key=lambda node: node.seen_offset, default=None)
    groups = [list(group) for group in view.nodes.by_allocation()]
    assert Counter(node.name for group in groups for node in group) == Counter(node.name for node in here)
    for group in groups:
        assert len({node.capacity for node in group}) == 1
        assert group == sorted(
            group, key=lambda node: (allocation(node.allocated, node.capacity), replicas(node), node.name)
        )


def check_job_orders(view: ClusterView) -> None:
    """Each order of the jobs is the sorted list of those it is about."""
    running = [job for job in view.jobs if job.phase is Phase.RUNNING]
    waiting = [job for job in view.jobs if job.phase in {Phase.WAITING, Phase.SUSPENDED}]
    movable = [job for job in running if job.alive and job.plan is None and not job.spec.is_gang and _can_save(job)]
    converged = [job for job in movable if job.category is Category.CONVERGED and not (job.rebalanced or job.unknown)]
    ready = [
        job
        for job in waiting
        if job.not_before_counted_ms <= view.counted_ms and next(what_is_wrong(job.spec), None) is None
    ]
    silent = [job.started_counted_ms for job in running if not job.measured and not job.unknown]
    assert list(view.jobs.queue) == sorted(waiting, key=lambda job: job.submitted_offset)
    assert sorted(job.name for job in view.jobs.queue.ready()) == sorted(job.name for job in ready)
    assert list(view.jobs.most_recently_converged()) == sorted(
        converged, key=lambda job: (-job.converged_counted_ms, job.name)
    )
    assert view.jobs.undecided == sum(map(_is_undecided, running))
    assert view.jobs.newest_silent_counted_ms() == max(silent, default=None)


def _can_save(job: Job) -> bool:
    proven = job.checkpoint is not None
    return job.mode is CheckpointMode.ON_REQUEST or (job.mode is CheckpointMode.ON_STOP and proven)


def _is_undecided(job: Job) -> bool:
    return job.measured and not (job.migrated or job.unknown) and job.category is not Category.CONVERGED
