"""Folds plans for whole gangs into a view: suspensions, scaled and moved gangs, and surplus replicas that leave.

A handler says with False that its event does not count where it stands.
"""

from __future__ import annotations

from typing import Any

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.events.requests import Hold
from steepest.view import lifecycle
from steepest.view import plans as rules
from steepest.view.folds import fold_forecasts
from steepest.view.folds.handlers import Handlers
from steepest.view.folds.plan_records import concerned, new_plan, promise, void
from steepest.view.places import gangs
from steepest.view.projection import Projection
from steepest.view.state import TRANSITIONS, Heading, Phase, PlanKind, PlanStatus
from steepest.view.validity import void_transition

ROOM_FOR_KEPT = 100
"""Jobs that a job made room for which are remembered."""


def _transition(view: Projection, event: c.TransitionPlanned, received: Received[Any]) -> bool:
    job = view.find(event.job)
    if event.plan in view.state.plans:
        return False
    plan = new_plan(PlanKind(event.kind.value), event, received)
    plan.sources, plan.targets, plan.room_for = event.sources, event.nodes, event.room_for or ""
    plan.leaving = event.leaving
    victims = () if event.because.preemption is None else event.because.preemption.victims
    plan.saves_within_ms = max((one.suspension_ms for one in victims if one.job == event.job), default=0)
    if refused := void_transition(event, job, view):
        return void(view, plan, refused)
    assert job is not None  # noqa: S101 - a plan without its job is void
    plan.source_sizes = job.running_sizes
    promise(view, plan, job, event)
    lifecycle.fly(view, plan, job)
    gangs.hold(view, job)
    view.jobs.update(job)
    return True


def _surplus_stopped(view: Projection, event: c.SurplusStopped, received: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or plan.kind is not PlanKind.SHED:
        return False
    if not rules.counts(plan, c.Step.STOP, event.attempt):
        return False
    gangs.surplus_stopped(job, plan, event)
    plan.stopped_ms = received.at_ms
    rules.step_done(plan)
    view.jobs.update(job)
    return True


def _suspended(view: Projection, event: c.JobSuspended, received: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or plan.kind is not PlanKind.SUSPEND or plan.heading is not Heading.DONE:
        return False
    lifecycle.lose_steps(job, event.steps_lost)
    lifecycle.conclude(view, plan, PlanStatus.FINISHED)
    view.nodes.release(job)
    lifecycle.serve(view, job)
    job.phase, job.nodes, job.replicas = Phase.SUSPENDED, (), []
    job.suspensions += 1
    job.suspended_counted_ms = view.counted_ms
    fold_forecasts.pause(job, received.at_ms)
    if plan.room_for and plan.room_for not in job.made_room_for:
        job.made_room_for = (*job.made_room_for, plan.room_for)[-ROOM_FOR_KEPT:]
    lifecycle.forget_stop(job)
    lifecycle.forget_findings(job)
    view.jobs.update(job)
    return True


def _transition_finished(view: Projection, event: c.TransitionFinished, received: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or plan.kind not in TRANSITIONS or plan.heading is not Heading.DONE:
        return False
    job.moves += plan.kind is PlanKind.MOVE
    job.scalings += plan.kind in {PlanKind.SCALE, PlanKind.SHED}
    lifecycle.lose_steps(job, event.steps_lost)
    lifecycle.conclude(view, plan, PlanStatus.FINISHED)
    lifecycle.settle_places(view, job)
    lifecycle.after(view, job, received)
    return True


def _transition_failed(view: Projection, event: c.TransitionFailed, received: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or plan.kind not in TRANSITIONS or plan.heading is not Heading.FAILED:
        return False
    lifecycle.lose_steps(job, event.steps_lost)
    lifecycle.not_started(job, event.code, event.message)
    if plan.kind is PlanKind.SUSPEND and job.hold in {Hold.FINDING, Hold.RUNG}:
        if job.hold is Hold.RUNG:
            job.trial = job.trial.on
        job.hold = Hold.NONE  # it cannot save: it runs on, and that a finding is open remains said
        view.jobs.update(job)
    lifecycle.conclude(view, plan, PlanStatus.FAILED, event.message)
    lifecycle.settle_places(view, job)
    lifecycle.after(view, job, received)
    return True


HANDLERS: Handlers = {
    c.TransitionPlanned: _transition,
    c.SurplusStopped: _surplus_stopped,
    c.JobSuspended: _suspended,
    c.TransitionFinished: _transition_finished,
    c.TransitionFailed: _transition_failed,
}
