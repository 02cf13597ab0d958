"""Code that the folds of plans and of their outcomes share."""

from __future__ import annotations

from typing import Any

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.trace_context import trace_in
from steepest.view import lifecycle
from steepest.view.places import gangs, promises
from steepest.view.projection import Projection
from steepest.view.state import Job, Plan, PlanKind, PlanStatus
from steepest.view.validity import Refused

Outcome = (
    c.StepBegun
    | c.StepFailed
    | c.CheckpointSaved
    | c.JobStopped
    | c.SurplusStopped
    | c.JobPlaced
    | c.JobResumed
    | c.MigrationFinished
    | c.MigrationFailed
    | c.JobSuspended
    | c.TransitionFinished
    | c.TransitionFailed
    | c.PlanAbandoned
)


def new_plan(
    kind: PlanKind, event: c.PlacementPlanned | c.MigrationPlanned | c.TransitionPlanned, received: Received[Any]
) -> Plan:
    """The plan that a record makes."""
    return Plan(
        id=event.plan,
        kind=kind,
        job=event.job,
        incarnation=event.incarnation,
        made_ms=received.at_ms,
        trace=trace_in(received.headers),
    )


def void(view: Projection, plan: Plan, refused: Refused) -> bool:
    """A plan is void, and keeps its reason."""
    view.refused = refused.code
    plan.status, plan.code, plan.reason = PlanStatus.VOID, refused.code.value, refused.reason
    lifecycle.forget_old(view, plan)
    return False


def concerned(view: Projection, event: Outcome) -> tuple[Job | None, Plan | None]:
    """The job and the plan in flight that an event is about; no plan where it is another job's."""
    job, plan = view.find(event.job), view.in_flight.get(event.plan)
    return job, plan if plan is not None and plan.job == event.job else None


def promise(view: Projection, plan: Plan, job: Job, event: c.PlacementPlanned | c.TransitionPlanned) -> None:
    """Note how many replicas a plan starts, and what other plans will leave to it."""
    plan.sizes = job.spec.counts(event.sizes) if job.spec.is_gang else ()
    plan.after = event.after
    plan.waits = tuple(dict.fromkeys(name for name in event.after if name in view.in_flight))
    if not plan.waits:
        return
    now = gangs.running(job)
    wanted = gangs.together(now, gangs.places(job, plan.targets, plan.sizes))
    for node, (_, amount) in wanted.items():
        more = (amount - now[node][1] if node in now else amount).positive
        for name, part in promises.share(view, plan.waits, node, more).items():
            plan.promised.setdefault(name, {})[node] = part
