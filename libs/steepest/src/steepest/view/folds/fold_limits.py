"""Folds CPU limits and their outcomes into a view: each job's planned limit and its limit in force.

A limit belongs to an incarnation and ends with its process: the next one starts without. For each job the newest plan
holds, and its outcome counts once. Limits exclude nothing: a job may be limited while it moves. That of a gang holds for
each of its replicas, which wait for the slowest of them.
"""

from __future__ import annotations

from typing import Any

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.trace_context import trace_in
from steepest.view.folds.handlers import Handlers
from steepest.view.progress_state import Limit
from steepest.view.projection import Projection

HOLD_MS = 1_000
"""Counted time before a limit whose effect is unclear is set again; doubles up to 32 times this."""


def _planned(view: Projection, event: c.LimitsPlanned, received: Received[Any]) -> bool:
    trace = trace_in(received.headers)
    if event.because.standing and event.node in view.nodes:
        view.nodes[event.node].standing = event.because.standing
    taken = [_plan_one(view, event, limit, trace) for limit in event.limits]
    return any(taken)


def _plan_one(view: Projection, event: c.LimitsPlanned, wanted: c.JobLimit, trace: str) -> bool:
    job = view.jobs.get(wanted.job)
    if job is None or not job.alive or job.incarnation != wanted.incarnation or event.node not in job.nodes:
        return False  # its process ended, or goes on elsewhere, before this stood in the log
    limit = job.limit
    if limit is None:
        limit = job.limit = Limit(plan=event.plan, growth_list=wanted.growth_list, answered=True)
    limit.growth_list = wanted.growth_list
    if wanted.cpu_m != limit.cpu_m or limit.refused:
        limit.plan, limit.cpu_m, limit.answered, limit.trace = event.plan, wanted.cpu_m, False, trace
        limit.refused, limit.unclear, limit.not_before_counted_ms = "", 0, 0
    return True


def _awaited(view: Projection, event: c.LimitsApplied | c.LimitsRefused) -> Limit | None:
    """The limit whose answer an outcome is; None where it is outdated."""
    job = view.find(event.job)
    if job is None or job.limit is None or job.incarnation != event.incarnation:
        return None
    return job.limit if job.limit.plan == event.plan and not job.limit.answered else None


def _applied(view: Projection, event: c.LimitsApplied, _: Received[Any]) -> bool:
    limit = _awaited(view, event)
    if limit is None or limit.cpu_m != event.cpu_m:
        return False
    limit.in_force_m, limit.in_force_counted_ms = event.cpu_m, view.counted_ms
    limit.answered, limit.refused = True, ""
    return True


def _refused(view: Projection, event: c.LimitsRefused, _: Received[Any]) -> bool:
    limit = _awaited(view, event)
    if limit is None:
        return False
    limit.refused = f"{event.code}: {event.message}"
    if event.definite:
        limit.answered = True
        return True
    limit.unclear += 1
    limit.not_before_counted_ms = view.counted_ms + HOLD_MS * 2 ** min(limit.unclear - 1, 5)
    return True


HANDLERS: Handlers = {
    c.LimitsPlanned: _planned,
    c.LimitsApplied: _applied,
    c.LimitsRefused: _refused,
}
