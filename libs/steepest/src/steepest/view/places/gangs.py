"""Rules of a gang: the places that it holds and counts at, its start, and the meaning of a replica's end.

A gang is a job of several replicas, or of one that may be scaled. Its replicas start, stop and move together. Jobs of one
replica that always was one pass here only where a plan is for both.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from steepest.events.cluster import JobStopped, SuccessRule, SurplusStopped
from steepest.events.common import Resources
from steepest.view.nodes import Holding
from steepest.view.progress_state import Replica
from steepest.view.projection import Projection
from steepest.view.state import CLEARING, Heading, Job, Plan, PlanKind


class GangVerdict(enum.Enum):
    """What the states of its replicas mean for a gang."""

    GOES_ON = enum.auto()
    FINISHED = enum.auto()  # what still runs of it is stopped
    BROKEN = enum.auto()  # likewise, and the placer decides whether it starts again


# --- places -----------------------------------------------------------------------------------------------------------


def is_clearing(plan: Plan) -> bool:
    """Whether a plan only stops what runs, so that nothing is held afterwards."""
    return plan.kind in CLEARING or plan.kind is PlanKind.SUSPEND


def gpus_on(job: Job, node: str) -> tuple[int, ...]:
    """The GPUs that its replicas which run on a node have there, by their ids, as far as they are known."""
    if not job.spec.is_gang:
        return job.gpus.get(0, ()) if node in job.running_on else ()
    there = [at for at, replica in enumerate(job.replicas) if replica.alive and replica.node == node]
    return tuple(gpu for at in there for gpu in job.gpus.get(at, ()))


def places(job: Job, nodes: Sequence[str], sizes: tuple[int, ...] = ()) -> dict[str, Holding]:
    """Number and resources of the replicas on these nodes, by node in the order of the first replica on each."""
    held: dict[str, Holding] = {}
    requests = job.spec.replica_requests(sizes) if job.spec.is_gang else (job.spec.chief_requests,)
    for node, amount in zip(nodes, requests, strict=False):  # a plan that is judged may have other replicas
        count, total = held.get(node, (0, Resources()))
        held[node] = (count + 1, total + amount)
    return held


def together(some: dict[str, Holding], others: dict[str, Holding]) -> dict[str, Holding]:
    """The larger of two holdings on each node: for a job that is first in some places and then in others."""
    both = dict(some)
    for node, (count, amount) in others.items():
        before, total = both.get(node, (0, Resources()))
        both[node] = (max(before, count), total.larger(amount))
    return both


def running(job: Job) -> dict[str, Holding]:
    """Number and resources of the running replicas, by node."""
    return places(job, job.running_on, job.running_sizes)


def _wanted(job: Job, plan: Plan | None) -> dict[str, Holding]:
    if plan is None:
        return running(job)
    # A plan that has lost a source for good goes back to none of them. Until its STOP is done, some replicas may run there.
    sources = places(job, plan.sources, plan.source_sizes) if plan.sources else running(job)
    held = together(sources, places(job, plan.targets, plan.sizes))
    for promised in plan.promised.values():
        for node, amount in promised.items():
            count, total = held.get(node, (0, Resources()))
            held[node] = (count, total - amount)
    return held


def hold(view: Projection, job: Job, without: str = "") -> None:
    """Let a job hold what its replicas and its plan need, and count where it runs or will run.

    A node that is gone for good holds nothing; ``without``: one that is about to be.
    """

    def is_there(node: str) -> bool:
        return node != without and node in view.nodes

    plan = view.plan_of(job)
    if plan is not None and plan.kind in CLEARING:
        plan = None  # it starts nothing
    view.nodes.reserve(job, {node: held for node, held in _wanted(job, plan).items() if is_there(node)})
    nodes = job.running_on
    if plan is not None:
        goes_on = plan.targets and plan.heading is Heading.FORWARD
        nodes = plan.targets if goes_on else plan.sources or nodes
    view.nodes.count_at(job, [node for node in nodes if is_there(node)])


# --- starts and ends --------------------------------------------------------------------------------------------------


def begin(job: Job, plan: Plan) -> None:
    """All replicas of a new incarnation are about to start."""
    job.nodes, job.sizes = plan.destinations, plan.destination_sizes
    roles = job.spec.role_indexes(job.sizes)
    job.replicas = [Replica(node, role) for node, role in zip(job.nodes, roles, strict=True)]


def placed(job: Job) -> None:
    """All replicas were accepted; some may have been reported as ended before that."""
    for replica in job.replicas:
        replica.alive = not replica.ended
    job.alive = any(replica.alive for replica in job.replicas)


def none_runs(job: Job) -> None:
    """No replica of the newest incarnation runs, as far as the log shows."""
    for replica in job.replicas:
        replica.alive = False
    job.alive = False


def end(job: Job, index: int, exit_status: int | None, step: int | None) -> None:
    """A replica definitely runs no more. Two events may report it, each with facts that the other lacks."""
    replica = job.replicas[index]
    replica.alive, replica.ended = False, True
    replica.exit_status = replica.exit_status if exit_status is None else exit_status
    replica.step = replica.step if step is None else step
    job.alive = any(replica.alive for replica in job.replicas)


def stop(job: Job, event: JobStopped) -> None:
    """A step has stopped all replicas."""
    for answer in event.replicas:
        if answer.replica < len(job.replicas):
            end(job, answer.replica, answer.exit_status, answer.step)
    for index in range(len(job.replicas)):
        end(job, index, None, None)


def let_leave(job: Job, plan: Plan) -> None:
    """The replicas that leave are about to be stopped: their ends say nothing about the gang."""
    for index in plan.leaving:
        job.replicas[index].left = True


def surplus_stopped(job: Job, plan: Plan, event: SurplusStopped) -> None:
    """The replicas that leave run no more."""
    for answer in event.replicas:
        if answer.replica in plan.leaving:
            end(job, answer.replica, answer.exit_status, answer.step)
    for index in plan.leaving:
        end(job, index, None, None)


def keep_those_that_run(job: Job) -> None:
    """A plan is over: what has not ended by it stays."""
    for replica in job.replicas:
        replica.left = replica.left and replica.ended


def verdict(job: Job) -> GangVerdict:
    """The gang's verdict from the ends of its replicas so far.

    Replica 0, the chief, saves for all: without it no gang goes on. Any other may be lost where its role stays at a size
    that the job allows. Those that a plan lets leave do not count.
    """
    chief = job.replicas[0]
    has_finished = chief.ended and chief.exit_status == 0
    if has_finished and job.spec.success is SuccessRule.CHIEF:
        return GangVerdict.FINISHED
    if chief.ended and not has_finished:
        return GangVerdict.BROKEN
    going, counts = [0] * len(job.spec.all_roles), [0] * len(job.spec.all_roles)
    for replica in job.replicas:
        counts[replica.role] += not replica.left
        going[replica.role] += not replica.left and (not replica.ended or replica.exit_status == 0)
    for role, count, before in zip(job.spec.all_roles, going, counts, strict=True):
        if count != before and not role.allows(count):
            return GangVerdict.BROKEN
    return GangVerdict.GOES_ON if any(not replica.ended for replica in job.replicas) else GangVerdict.FINISHED


def exit_status(job: Job) -> int | None:
    """The exit status that tells of the whole gang, once none of it runs: 0 only where it has finished."""
    if verdict(job) is GangVerdict.FINISHED:
        return 0
    return next((replica.exit_status for replica in job.replicas if replica.exit_status != 0), None)
