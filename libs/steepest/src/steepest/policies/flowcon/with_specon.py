"""FlowCon and SpeCon in one pool: the rule that keeps them from working against each other. See docs/decisions.

A cap makes a job grow less in an interval, which SpeCon would take for convergence; and a move makes a job new, which
FlowCon would favour. So: *cap first* — a job asks for another place in vain until FlowCon has it in CL by its
efficiency, which a cap does not lower, and its limit has been in force for a whole interval; *move only what still
pays* — a capped job goes only where an equal share of the node is more than its cap; and *what was moved stays capped*
— it goes on in CL where it comes to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steepest.events.cluster import GrowthList
from steepest.view.cluster_view import ClusterView
from steepest.view.refusal import Refusal, first
from steepest.view.state import Job, Limit, Node, PlanKind


class NotYet(Refusal):
    """Why SpeCon must leave a job to FlowCon for now."""

    NOT_COMPLETING = (
        "not-completing",
        "FlowCon does not list it as completing, so it may only be slow because of its cap",
    )
    LIMIT_UNANSWERED = "limit-unanswered", "its limit is not in force yet"
    LIMIT_CHANGED = (
        "limit-changed",
        "its limit changed less than an interval ago, and its growth was measured across the change",
    )


NOT_YET: Mapping[NotYet, Callable[[ClusterView, Limit], bool]] = {
    NotYet.NOT_COMPLETING: lambda _, limit: limit.growth_list is not GrowthList.COMPLETING,
    NotYet.LIMIT_UNANSWERED: lambda _, limit: not limit.answered,
    NotYet.LIMIT_CHANGED: lambda view, limit: (
        view.counted_ms - limit.in_force_counted_ms < view.parameters.specon.interval_ms
    ),
}


def not_yet(view: ClusterView, job: Job) -> NotYet | None:
    """Why SpeCon must leave a job to FlowCon for now; None where it need not."""
    if not view.parameters.flowcon.on:
        return None
    return NotYet.NOT_COMPLETING if job.limit is None else first(NOT_YET, view, job.limit)


def pays(view: ClusterView, job: Job, target: Node, replicas: int) -> bool:
    """Whether a job would get more at ``target``, on which so many others are, than its cap leaves it where it is."""
    if not view.parameters.flowcon.on or job.limit is None or job.limit.in_force_m is None:
        return True
    return target.capacity.cpu_m // (replicas + 1) > job.limit.in_force_m


def goes_on_as(view: ClusterView, name: str, growth_list: GrowthList) -> GrowthList | None:
    """The list in which a process that has just ended goes on where it is started next; None: as a new one."""
    job = view.jobs.get(name)
    plan = view.plan_of(job) if job is not None else None
    moved = plan is not None and plan.kind is PlanKind.MIGRATE
    return growth_list if moved and growth_list is GrowthList.COMPLETING else None
