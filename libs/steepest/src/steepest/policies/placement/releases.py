"""Which held jobs may go on once others are over, and which running ones have to stop.

It owns these rules; the placer applies them. A job that comes after others starts once all of them have finished, and is
cancelled if one ends otherwise, unless any end will do. Of an array with a limit, the next job in the order of submission
takes the place of one that is over, or that is held without a place.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from steepest.describe.units import span
from steepest.events import cluster as c
from steepest.events.requests import Hold
from steepest.policies.placement.preemption import suspension
from steepest.view.cluster_view import ClusterView
from steepest.view.orders.holds import overdue_ms
from steepest.view.state import Job, Phase
from steepest.view.validity import void_transition

Request = c.JobCancelRequested | c.JobChangeRequested

BECAUSE = c.Because(rule="its user suspends it")
OF_A_FINDING = c.Because(rule="it is suspended because of a finding")
OF_A_RUNG = c.Because(rule="it waits at its rung, so that other trials can train")
WHY_SUSPENDED = {Hold.USER: BECAUSE, Hold.FINDING: OF_A_FINDING, Hold.RUNG: OF_A_RUNG}


def after_end(view: ClusterView, job: Job, offset: int, pending: Container[str]) -> Iterator[Request]:
    """What follows for held jobs from the end of one; ``pending``: those about which it was decided before."""
    for name in view.jobs.holds.behind(job.name):
        if name not in pending:
            yield from after_submission(view, view.jobs[name], offset, pending)
    yield from _next_of_array(view, job, offset, pending)


def _next_of_array(view: ClusterView, job: Job, offset: int, pending: Container[str]) -> Iterator[Request]:
    if job.spec.array and job.spec.array_most is not None:
        array = view.jobs.holds.array(job.spec.array)
        for name in sorted(array.held, key=lambda name: view.jobs[name].submitted_offset):
            if name not in pending and (verdict := _verdict(view, view.jobs[name], offset, pending)) is not None:
                yield verdict
                return


def after_submission(view: ClusterView, job: Job, offset: int, pending: Container[str]) -> Iterator[Request]:
    """What is known of a held job already."""
    if job.hold is Hold.OTHERS and (verdict := _verdict(view, job, offset, pending)) is not None:
        yield verdict


def after_hold(view: ClusterView, job: Job, offset: int, pending: Container[str]) -> Iterator[Request]:
    """Requests that follow from a hold, or its end: a held job without a place gives up its turn in its array."""
    yield from after_submission(view, job, offset, pending)
    if job.hold.suspends and job.is_queued:
        yield from _next_of_array(view, job, offset, pending)


def _verdict(view: ClusterView, job: Job, offset: int, pending: Container[str]) -> Request | None:
    before = {name: view.jobs.get(name) for name in job.spec.after}
    request = f"after-{offset}-{job.name}"
    for name, one in before.items():
        is_enough = one is not None and one.admitted and job.spec.after_any
        if one is not None and one.outcome in {c.Outcome.FAILED, c.Outcome.CANCELLED} and not is_enough:
            reason = f"{name}, which it comes after, has not finished"
            return c.JobCancelRequested(job=job.name, request=request, reason=reason)
    if any(one is not None and one.outcome is None for one in before.values()) or _is_full(view, job, pending):
        return None
    return c.JobChangeRequested(job=job.name, request=request, held=False)


def _is_full(view: ClusterView, job: Job, pending: Container[str]) -> bool:
    if not job.spec.array or job.spec.array_most is None:
        return False
    array = view.jobs.holds.array(job.spec.array)
    released = sum(name in pending for name in array.held)
    return array.placed + released >= job.spec.array_most


def overdue(view: ClusterView, offset: int, pending: Container[str]) -> Iterator[c.JobCancelRequested]:
    """The running jobs whose time is over."""
    for job in view.jobs.holds.limited.values():
        if job.name not in pending and overdue_ms(job, view.counted_ms) >= 0:
            reason = f"it has run for {span(job.spec.time_limit_ms or 0)}, its time limit"
            yield c.JobCancelRequested(job=job.name, request=f"time-{offset}-{job.name}", reason=reason)


def suspended_by_users(view: ClusterView, offset: int) -> Iterator[c.TransitionPlanned]:
    """The plans to suspend running jobs for their users, findings or other trials, as soon as each can be saved."""
    for job in sorted(view.jobs.holds.to_suspend.values(), key=lambda job: job.submitted_offset):
        if job.phase is Phase.RUNNING and not job.plan:
            plan = suspension(job, None, f"suspend-{offset}-{job.name}", WHY_SUSPENDED[job.hold])
            if void_transition(plan, job, view) is None:
                yield plan
