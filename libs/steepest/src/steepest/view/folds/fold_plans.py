"""What plans and their outcomes change in a view: reservations, and where a job counts.

Whether a plan is valid is in :mod:`steepest.view.validity`, which step is next in :mod:`steepest.view.plans`. A handler says
with False that its event does not count where it stands: a plan that is void, an outcome that is outdated.
"""

from __future__ import annotations

from typing import Any

from steepest.events import cluster as c
from steepest.events.common import CheckpointRef
from steepest.events.received import Received
from steepest.view import lifecycle
from steepest.view import plans as rules
from steepest.view.folds.handlers import Handlers
from steepest.view.projection import Projection
from steepest.view.state import Heading, Job, Phase, Plan, PlanKind, PlanStatus
from steepest.view.validity import Refused, void_migration, void_placement

Outcome = (
    c.StepBegun
    | c.StepFailed
    | c.CheckpointSaved
    | c.JobStopped
    | c.JobPlaced
    | c.JobResumed
    | c.MigrationFinished
    | c.MigrationFailed
    | c.PlanAbandoned
)


def _placement(view: Projection, event: c.PlacementPlanned, received: Received[Any]) -> bool:
    job = view.find(event.job)
    if event.plan in view.state.plans:
        return False
    plan = _new_plan(PlanKind.PLACE, event, received)
    plan.targets = event.nodes
    if refused := void_placement(event, job, view.nodes):
        return _void(view, plan, refused)
    assert job is not None  # noqa: S101 - a plan without its job is void
    job.unknown = False
    for node in event.nodes:
        view.nodes.take(job, node)
        view.nodes.assign(job, node)
    job.phase = Phase.RUNNING
    job.nodes = ()
    job.started_counted_ms = view.counted_ms
    lifecycle.forget_stop(job)
    lifecycle.fly(view, plan, job)
    view.jobs.update(job)
    return True


def _migration(view: Projection, event: c.MigrationPlanned, received: Received[Any]) -> bool:
    job = view.find(event.job)
    if event.plan in view.state.plans:
        return False
    plan = _new_plan(PlanKind.MIGRATE, event, received)
    plan.sources, plan.targets, plan.move = (event.source,), (event.target,), event.kind
    if refused := void_migration(event, job, view.nodes, view.counted_ms):
        return _void(view, plan, refused)
    assert job is not None  # noqa: S101 - a plan without its job is void
    view.nodes.take(job, event.target)
    view.nodes.unassign(job, event.source)
    view.nodes.assign(job, event.target)
    match event.kind:
        case c.MoveKind.REALLOCATION:
            job.migrated = True
        case c.MoveKind.REBALANCE:
            job.rebalanced = True
        case c.MoveKind.STEEPEST:
            job.dwells_until_counted_ms = view.counted_ms + view.parameters.steepest.dwell_ms
    lifecycle.fly(view, plan, job)
    view.jobs.update(job)
    return True


def _new_plan(kind: PlanKind, event: c.PlacementPlanned | c.MigrationPlanned, received: Received[Any]) -> Plan:
    return Plan(
        id=event.plan,
        kind=kind,
        job=event.job,
        incarnation=event.incarnation,
        made_ms=received.at_ms,
        made_offset=received.offset,
    )


def _void(view: Projection, plan: Plan, refused: Refused) -> bool:
    view.refused = refused.code
    plan.status, plan.code, plan.reason = PlanStatus.VOID, refused.code.value, refused.reason
    lifecycle.forget_old(view, plan)
    return False


def _concerned(view: Projection, event: Outcome) -> tuple[Job | None, Plan | None]:
    """The job and the plan in flight that an event is about; no plan where it is another job's."""
    job, plan = view.find(event.job), view.in_flight.get(event.plan)
    return job, plan if plan is not None and plan.job == event.job else None


def _step_begun(view: Projection, event: c.StepBegun, _: Received[Any]) -> bool:
    job, plan = _concerned(view, event)
    if job is None or plan is None or not rules.may_begin(plan, event, job):
        return False
    rules.begun(plan, event)
    if event.step is c.Step.START and event.incarnation != job.incarnation:
        lifecycle.begin_incarnation(job, event.incarnation, event.node)
    return True


def _step_failed(view: Projection, event: c.StepFailed, _: Received[Any]) -> bool:
    job, plan = _concerned(view, event)
    if job is None or plan is None or not rules.counts(plan, event.step, event.attempt):
        return False
    if event.definite and rules.meaning_of(event.code) is rules.Meaning.NOT_RUNNING:
        job.alive = False
        job.limit = None
    rules.step_failed(
        plan,
        job,
        definite=event.definite,
        code=event.code,
        message=event.message,
        now=view.counted_ms,
        limits=view.parameters.limits,
    )
    return True


def _checkpoint_saved(view: Projection, event: c.CheckpointSaved, _: Received[Any]) -> bool:
    job, plan = _concerned(view, event)
    if job is None or plan is None or not rules.counts(plan, c.Step.CHECKPOINT, event.attempt):
        return False
    lifecycle.remember(job, event.checkpoint)
    rules.step_done(plan)
    return True


def _job_stopped(view: Projection, event: c.JobStopped, received: Received[Any]) -> bool:
    job, plan = _concerned(view, event)
    if job is None or plan is None or not rules.counts(plan, c.Step.STOP, event.attempt):
        return False
    lifecycle.stopped(job, event)
    plan.stopped_ms = received.at_ms
    plan.stopped_step = job.stop_step or 0
    plan.steps_lost = _steps_lost(plan, job.checkpoint)
    if job.exit_status == 0:
        plan.doomed = plan.doomed or rules.Doom.FINISHED.sentence
    rules.step_done(plan)
    if plan.kind is PlanKind.CANCEL:
        lifecycle.conclude(view, plan, PlanStatus.FINISHED)
        lifecycle.settle(view, job)
    return True


def _steps_lost(plan: Plan, restore: CheckpointRef | None) -> int:
    return max(0, plan.stopped_step - (restore.step if restore else 0))


def _job_placed(view: Projection, event: c.JobPlaced, received: Received[Any]) -> bool:
    job, plan = _concerned(view, event)
    if job is None or plan is None or not rules.counts(plan, c.Step.START, event.attempt):
        return False
    if (event.node, event.incarnation) != (plan.destination, plan.next_incarnation):
        return False
    job.nodes = (event.node,)
    job.alive = job.stopped_incarnation != event.incarnation
    job.first_placed_ms = received.at_ms if job.first_placed_ms is None else job.first_placed_ms
    if plan.kind is PlanKind.MIGRATE:
        plan.steps_lost = _steps_lost(plan, event.restore)  # a newer checkpoint may have been reported since the stop
    rules.step_done(plan)
    if plan.kind is PlanKind.PLACE:
        lifecycle.conclude(view, plan, PlanStatus.FINISHED)
        lifecycle.after(view, job, received)
    return True


def _resumed(view: Projection, event: c.JobResumed, _: Received[Any]) -> bool:
    job, plan = _concerned(view, event)
    if job is None or plan is None or not rules.counts(plan, c.Step.VERIFY, event.attempt):
        return False
    rules.step_done(plan)
    return True


def _migration_finished(view: Projection, event: c.MigrationFinished, received: Received[Any]) -> bool:
    job, plan = _concerned(view, event)
    if job is None or plan is None or plan.heading is not Heading.DONE:
        return False
    for source in plan.sources:
        view.nodes.give_back(job, source)
    job.moves += 1
    lifecycle.lose_steps(job, event.steps_lost)
    lifecycle.conclude(view, plan, PlanStatus.FINISHED)
    lifecycle.after(view, job, received)
    return True


def _migration_failed(view: Projection, event: c.MigrationFailed, received: Received[Any]) -> bool:
    job, plan = _concerned(view, event)
    if job is None or plan is None or plan.heading is not Heading.FAILED:
        return False
    lifecycle.lose_steps(job, event.steps_lost)
    undo_move(view, job, plan)
    lifecycle.not_started(job, event.code, event.message)
    lifecycle.conclude(view, plan, PlanStatus.FAILED, event.message)
    lifecycle.after(view, job, received)
    return True


def _abandoned(view: Projection, event: c.PlanAbandoned, received: Received[Any]) -> bool:
    job, plan = _concerned(view, event)
    if job is None or plan is None or plan.begun or (plan.unclear and plan.step is c.Step.START):
        return False
    if plan.kind is PlanKind.MIGRATE:
        undo_move(view, job, plan)
    lifecycle.not_started(job, event.code, event.message)
    lifecycle.conclude(view, plan, PlanStatus.ABANDONED, event.message or event.code)
    lifecycle.after(view, job, received)
    return True


def undo_move(view: Projection, job: Job, plan: Plan) -> None:
    """The move did not work out: the job counts where it is, and may ask again. A node that is gone holds nothing."""
    if job.alive and job.node in plan.targets:
        for source in plan.sources:
            view.nodes.give_back(job, source)
    else:
        for target in plan.targets:
            view.nodes.give_back(job, target)
            view.nodes.unassign(job, target)
            for source in plan.sources:
                view.nodes.assign(job, source)
    job.moves_failed += 1
    if job.moves_failed < view.parameters.limits.moves_failed:
        match plan.move:
            case c.MoveKind.REALLOCATION:
                job.migrated = False
            case c.MoveKind.REBALANCE:
                job.rebalanced = False


HANDLERS: Handlers = {
    c.PlacementPlanned: _placement,
    c.MigrationPlanned: _migration,
    c.TransitionPlanned: lambda *_: False,
    c.StepBegun: _step_begun,
    c.StepFailed: _step_failed,
    c.CheckpointSaved: _checkpoint_saved,
    c.JobStopped: _job_stopped,
    c.JobPlaced: _job_placed,
    c.JobResumed: _resumed,
    c.MigrationFinished: _migration_finished,
    c.MigrationFailed: _migration_failed,
    c.PlanAbandoned: _abandoned,
}
