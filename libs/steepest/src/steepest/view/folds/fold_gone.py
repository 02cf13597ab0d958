"""Folds the declaration that a node is gone for good: its processes have ended, its places are free.

A job that was only there counts as stopped, as if its process had been lost, and the placer decides about it. A move goes on
where it can: to its target, once its source was stopped; back to its source, where the target is gone; else it has failed.
"""

from __future__ import annotations

from typing import Any

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.view import lifecycle
from steepest.view import plans as rules
from steepest.view.folds.fold_plans import undo_move
from steepest.view.folds.handlers import Handlers
from steepest.view.places import gangs
from steepest.view.plans import Stage
from steepest.view.projection import Projection
from steepest.view.state import CLEARING, TRANSITIONS, Heading, Job, Node, Plan, PlanKind, PlanStatus

AFTER_STOP = (Stage.START, Stage.VERIFY, Stage.DONE)
"""Stages of a move whose job can continue at its target."""


def _node_gone(view: Projection, event: c.NodeGone, received: Received[Any]) -> bool:
    node = view.nodes.get(event.node)
    if node is None or not node.lost:
        return False  # it sends heartbeats, so it is not gone
    for job in [view.jobs[name] for name in node.jobs]:
        _leave(view, job, node, received)
    view.nodes.remove(node)
    return True


def _leave(view: Projection, job: Job, node: Node, received: Received[Any]) -> None:
    why = rules.Doom.NODE_GONE.about(node=node.name)
    plan = view.plan_of(job)
    if job.spec.is_gang or (plan is not None and plan.kind in TRANSITIONS):
        _leave_gang(view, job, node, received)
    elif plan is None or plan.kind is PlanKind.CANCEL:
        lifecycle.lost(job, why)
        if plan is not None:
            lifecycle.conclude(view, plan, PlanStatus.FINISHED)
        lifecycle.settle(view, job)
    elif plan.kind is PlanKind.PLACE:
        lifecycle.lost(job, why)
        lifecycle.conclude(view, plan, PlanStatus.ABANDONED, why)
        lifecycle.after(view, job, received)
    elif node.name in plan.sources:
        _without_source(view, job, plan, why, received)
    elif plan.sources:
        _without_target(view, job, plan, node.name, why)
    else:
        _give_up(view, job, plan, why, received)
    view.jobs.update(job)


def _leave_gang(view: Projection, job: Job, node: Node, received: Received[Any]) -> None:
    """The replicas there have ended. A plan with another place there is given up, once no step of it is under way."""
    why = rules.Doom.NODE_GONE.about(node=node.name)
    plan = view.plan_of(job)
    if job.spec.is_gang:
        verdict = lifecycle.lose_replicas(job, node.name, why)
    else:
        lifecycle.lost(job, why)
        verdict = gangs.GangVerdict.BROKEN
    if plan is not None and plan.kind not in CLEARING:
        _adapt(plan, node.name, why, goes_on=verdict is gangs.GangVerdict.GOES_ON)
    gangs.hold(view, job, without=node.name)
    if plan is not None and not job.alive and (plan.kind in CLEARING or rules.stage_of(plan) in rules.BEFORE_STOP):
        lifecycle.conclude(view, plan, PlanStatus.FINISHED if plan.kind in CLEARING else PlanStatus.FAILED, why)
    if view.plan_of(job) is None:
        lifecycle.after(view, job, received)


def _adapt(plan: Plan, node: str, why: str, *, goes_on: bool) -> None:
    """Continue a plan for a whole job without a node, if that is possible."""
    for promised in plan.promised.values():
        promised.pop(node, None)
    stage = rules.stage_of(plan)
    stopping = plan.begun and stage is Stage.STOP
    if stage in rules.BEFORE_STOP and not stopping:
        if node in plan.targets or not goes_on:
            plan.doomed = plan.doomed or why
        plan.sources = tuple(source for source in plan.sources if source != node)
    elif stopping and node in plan.targets:
        plan.targets, plan.sizes = (), ()
    elif plan.heading is Heading.FORWARD and node in plan.sources:
        plan.sources, plan.source_sizes = (), ()
    if stage not in rules.BEFORE_STOP and node in plan.destinations:
        plan.doomed = plan.doomed or why


def _without_source(view: Projection, job: Job, plan: Plan, why: str, received: Received[Any]) -> None:
    if rules.stage_of(plan) in AFTER_STOP or (job.alive and job.node in plan.targets):
        view.nodes.give_back(job, plan.sources[0])
        plan.sources = ()
    else:
        _give_up(view, job, plan, why, received)


def _give_up(view: Projection, job: Job, plan: Plan, why: str, received: Received[Any]) -> None:
    """The move has nowhere to go."""
    lifecycle.lost(job, why)
    undo_move(view, job, plan)
    lifecycle.conclude(view, plan, PlanStatus.FAILED, why)
    lifecycle.after(view, job, received)


def _without_target(view: Projection, job: Job, plan: Plan, target: str, why: str) -> None:
    view.nodes.give_back(job, target)
    view.nodes.unassign(job, target)
    view.nodes.assign(job, plan.sources[0])
    plan.targets = ()
    stage = rules.stage_of(plan)
    if stage in rules.BEFORE_STOP:
        if not (plan.begun and stage is Stage.STOP):
            plan.doomed = plan.doomed or why
    elif stage in AFTER_STOP or (job.alive and job.started_on == target):
        if job.started_on == target:
            lifecycle.lost(job, why)
        rules.turn_back(plan)


HANDLERS: Handlers = {c.NodeGone: _node_gone}
