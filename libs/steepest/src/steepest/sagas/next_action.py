"""Decides the migrator's next action for a plan: the pure part of its saga.

It reads the view and decides nothing that the view does not hold, so a migrator that restarts goes on where the log
ends. How a plan moves on when an outcome is folded is in :mod:`steepest.view.plans`.
"""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.view import plans as rules
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import checkpoint_step
from steepest.view.state import TRANSITIONS, Heading, Job, Plan, PlanKind


def next_action(view: ClusterView, plan: Plan, now_ms: int) -> c.ClusterEvent | None:
    """The event that moves ``plan`` on: the beginning of its next step, or its conclusion.

    None while a step is under way or must wait. ``now_ms`` is the time of the record that made us look.
    """
    job = view.jobs[plan.job]
    if plan.begun:
        return None
    if not plan.steps:
        return _conclusion(plan, job, now_ms)
    if why := rules.must_give_up(plan, job):
        return c.PlanAbandoned(plan=plan.id, job=job.name, code="given-up", message=why)
    if plan.waits or plan.not_before_counted_ms > view.counted_ms:
        return None
    return begin(plan, job)


def begin(plan: Plan, job: Job) -> c.StepBegun:
    """The beginning of the step that is due; of a step under way, its taking over by another migrator."""
    step = plan.steps[0]
    at_source = step in {c.Step.CHECKPOINT, c.Step.STOP}
    nodes = () if not job.spec.is_gang else job.nodes if at_source else plan.destinations
    return c.StepBegun(
        plan=plan.id,
        step=step,
        attempt=plan.attempt + 1,
        job=job.name,
        incarnation=_incarnation(plan, job, step),
        node=nodes[0] if nodes else plan.sources[0] if at_source else plan.destination,
        nodes=nodes,
    )


def _incarnation(plan: Plan, job: Job, step: c.Step) -> int:
    match step:
        case c.Step.START:
            return rules.incarnation_to_start(plan, job)
        case c.Step.VERIFY:
            return plan.next_incarnation
    return job.incarnation


def _conclusion(plan: Plan, job: Job, now_ms: int) -> c.ClusterEvent:
    if plan.kind in TRANSITIONS:
        return _conclusion_of_transition(plan, job, now_ms)
    if plan.kind is not PlanKind.MIGRATE:
        return c.PlanAbandoned(plan=plan.id, job=job.name, code=plan.code, message=plan.message)
    if plan.heading is Heading.DONE:
        return c.MigrationFinished(
            plan=plan.id,
            job=job.name,
            target=plan.targets[0],
            steps_lost=plan.steps_lost,
            took_ms=max(0, now_ms - plan.made_ms),
            paused_ms=max(0, now_ms - plan.stopped_ms),
        )
    return c.MigrationFailed(
        plan=plan.id,
        job=job.name,
        code=plan.code,
        message=plan.message,
        node=job.node if job.alive else None,
        steps_lost=plan.steps_lost,
    )


def _conclusion_of_transition(plan: Plan, job: Job, now_ms: int) -> c.ClusterEvent:
    if plan.heading is not Heading.DONE:
        return c.TransitionFailed(
            plan=plan.id,
            job=job.name,
            code=plan.code,
            message=plan.message,
            nodes=job.running_on,
            steps_lost=plan.steps_lost,
        )
    if plan.kind is not PlanKind.SUSPEND:
        return c.TransitionFinished(
            plan=plan.id,
            job=job.name,
            nodes=plan.targets or job.running_on,
            sizes=plan.sizes if plan.targets else job.running_sizes,
            steps_lost=plan.steps_lost,
            took_ms=max(0, now_ms - plan.made_ms),
            paused_ms=0 if plan.kind is PlanKind.SHED else max(0, now_ms - plan.stopped_ms),
        )
    if plan.doomed:
        return c.PlanAbandoned(plan=plan.id, job=job.name, code="given-up", message=plan.doomed)
    return c.JobSuspended(
        plan=plan.id,
        job=job.name,
        step=checkpoint_step(job) or 0,
        steps_lost=plan.steps_lost,
        took_ms=max(0, plan.stopped_ms - plan.made_ms),
    )
