"""FlowCon and SpeCon in one pool: the rules that keep them from working against each other. See docs/decisions.

A cap makes a job grow less in an interval, which SpeCon would take for convergence; and a move makes a job new, which
FlowCon would favour. So: *cap first* — a job is not moved before FlowCon has put it in CL by its efficiency, which a
cap does not lower, and its limit has been in force for a whole interval; *move only if it pays* — a capped job is moved
only to a node where an equal share is more than its cap; and *a moved job stays capped* — it continues in CL on its target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steepest.events.cluster import GrowthList
from steepest.view.cluster_view import ClusterView
from steepest.view.progress_state import Limit
from steepest.view.refusal import Refusal, first
from steepest.view.state import Job, Node, PlanKind


class NotYet(Refusal):
    """Why SpeCon must not move a job yet."""

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
    """Why SpeCon must not move a job yet; None if it may move it."""
    if not view.parameters.flowcon.on:
        return None
    return NotYet.NOT_COMPLETING if job.limit is None else first(NOT_YET, view, job.limit)


def pays(view: ClusterView, job: Job, target: Node, replicas: int) -> bool:
    """Whether an equal share on ``target``, with ``replicas`` others there, is more than a job's present cap."""
    if not view.parameters.flowcon.on or job.limit is None or job.limit.in_force_m is None:
        return True
    return target.capacity.cpu_m // (replicas + 1) > job.limit.in_force_m


def goes_on_as(view: ClusterView, name: str, growth_list: GrowthList) -> GrowthList | None:
    """The list in which a process that has just ended continues at its next start; None: as a new job."""
    job = view.jobs.get(name)
    plan = view.plan_of(job) if job is not None else None
    moved = plan is not None and plan.kind is PlanKind.MIGRATE
    return growth_list if moved and growth_list is GrowthList.COMPLETING else None
