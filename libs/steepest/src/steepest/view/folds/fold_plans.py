"""Folds plans and their outcomes into a view: reservations, and the node at which a job counts.

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
from steepest.view.folds.plan_records import concerned, new_plan, promise, void
from steepest.view.learned.move_costs import MoveSeen
from steepest.view.places import gangs
from steepest.view.projection import Projection
from steepest.view.state import CLEARING, MOVING, TRANSITIONS, Heading, Job, Phase, Plan, PlanKind, PlanStatus
from steepest.view.validity import void_migration, void_placement

STEPS_OF_A_MOVE = 4
"""Each of them is begun once where nothing fails; a job that saves when it is stopped needs three."""


def _placement(view: Projection, event: c.PlacementPlanned, received: Received[Any]) -> bool:
    job = view.find(event.job)
    if event.plan in view.state.plans:
        return False
    plan = new_plan(PlanKind.PLACE, event, received)
    plan.targets = event.nodes
    if refused := void_placement(event, job, view):
        return void(view, plan, refused)
    assert job is not None  # noqa: S101 - a plan without its job is void
    # Before its replicas are counted, which depends on it: a job that starts has not been silent yet.
    job.unknown = False
    plan.resumes = job.phase is Phase.SUSPENDED
    if job.spec.is_gang or event.after:
        promise(view, plan, job, event)
    else:
        view.nodes.take(job, event.nodes[0])
        view.nodes.assign(job, event.nodes[0])
    job.phase = Phase.RUNNING
    job.nodes = ()
    job.replicas = []
    job.started_counted_ms = view.counted_ms
    lifecycle.forget_stop(job)
    lifecycle.fly(view, plan, job)
    if job.spec.is_gang or event.after:
        gangs.hold(view, job)
    view.jobs.update(job)
    return True


def _migration(view: Projection, event: c.MigrationPlanned, received: Received[Any]) -> bool:
    job = view.find(event.job)
    if event.plan in view.state.plans:
        return False
    plan = new_plan(PlanKind.MIGRATE, event, received)
    plan.sources, plan.targets, plan.move = (event.source,), (event.target,), event.kind
    if refused := void_migration(event, job, view.nodes, view.counted_ms):
        return void(view, plan, refused)
    assert job is not None  # noqa: S101 - a plan without its job is void
    # The source is held as well until the move is over: a move that fails starts the job there again.
    view.nodes.take(job, event.target)
    view.nodes.unassign(job, event.source)
    view.nodes.assign(job, event.target)
    match event.kind:
        case c.MoveKind.REALLOCATION:
            job.migrated = True
        case c.MoveKind.REBALANCE:
            job.rebalanced = True
        case c.MoveKind.STEEPEST | c.MoveKind.REQUEST | c.MoveKind.SLOW_NODE:  # no policy undoes it soon
            job.dwells_until_counted_ms = view.counted_ms + view.parameters.steepest.dwell_ms
    lifecycle.fly(view, plan, job)
    view.jobs.update(job)
    return True


def _step_begun(view: Projection, event: c.StepBegun, _: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or not rules.may_begin(plan, event, job):
        return False
    rules.begun(plan, event)
    gangs.let_leave(job, plan)
    if event.step is c.Step.START and event.incarnation != job.incarnation:
        lifecycle.begin_incarnation(job, event.incarnation, event.node, plan)
    return True


def _step_failed(view: Projection, event: c.StepFailed, _: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or not rules.counts(plan, event.step, event.attempt):
        return False
    if event.definite and _runs_no_more(event, job):
        gangs.none_runs(job)
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


def _runs_no_more(event: c.StepFailed, job: Job) -> bool:
    """Whether a definite failure proves that nothing of the job runs."""
    if job.spec.is_gang and event.step is not c.Step.VERIFY:
        return event.step is c.Step.START
    return rules.meaning_of(event.code) is rules.Meaning.NOT_RUNNING


def _checkpoint_saved(view: Projection, event: c.CheckpointSaved, _: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or not rules.counts(plan, c.Step.CHECKPOINT, event.attempt):
        return False
    lifecycle.remember(job, event.checkpoint)
    rules.step_done(plan)
    return True


def _job_stopped(view: Projection, event: c.JobStopped, received: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or plan.kind is PlanKind.SHED or not rules.counts(plan, c.Step.STOP, event.attempt):
        return False
    if job.spec.is_gang:
        lifecycle.gang_stopped(job, event, is_over=plan.kind is PlanKind.CLEAR)
    else:
        lifecycle.stopped(job, event)
    plan.stopped_ms = received.at_ms
    plan.stopped_step = job.stop_step or 0
    plan.steps_lost = _steps_lost(plan, job.checkpoint)
    if job.exit_status == 0:
        plan.doomed = plan.doomed or rules.Doom.FINISHED.sentence
    rules.step_done(plan)
    if plan.kind in CLEARING:
        lifecycle.conclude(view, plan, PlanStatus.FINISHED)
        lifecycle.settle(view, job)
    return True


def _steps_lost(plan: Plan, restore: CheckpointRef | None) -> int:
    if restore is not None and restore.is_image:
        return 0
    return max(0, plan.stopped_step - (restore.step if restore else 0))


def _job_placed(view: Projection, event: c.JobPlaced, received: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or not rules.counts(plan, c.Step.START, event.attempt):
        return False
    if (event.node, event.incarnation) != (plan.destination, plan.next_incarnation):
        return False
    if job.spec.is_gang:
        if event.nodes != plan.destinations:
            return False
        gangs.placed(job)
    else:
        job.nodes = (event.node,)
        # A heartbeat may have reported the end of this incarnation before the migrator reported its start.
        job.alive = job.stopped_incarnation != event.incarnation
    if event.restore is not None and event.restore.is_newer(job.checkpoint):
        lifecycle.remember(job, event.restore)  # the cluster knows newer ones than the log
    job.placed_counted_ms = view.counted_ms
    job.refusals = 0
    job.resumptions += plan.resumes
    plan.resumes = False
    job.first_placed_ms = received.at_ms if job.first_placed_ms is None else job.first_placed_ms
    if plan.kind in MOVING:
        plan.steps_lost = _steps_lost(plan, event.restore)  # a newer checkpoint may have been reported since the stop
    rules.step_done(plan)
    if plan.kind is PlanKind.PLACE:
        lifecycle.conclude(view, plan, PlanStatus.FINISHED)
        lifecycle.after(view, job, received)
        if job.spec.is_gang:
            gangs.hold(view, job)
    return True


def _resumed(view: Projection, event: c.JobResumed, _: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or not rules.counts(plan, c.Step.VERIFY, event.attempt):
        return False
    rules.step_done(plan)
    return True


def _migration_finished(view: Projection, event: c.MigrationFinished, received: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or plan.heading is not Heading.DONE:
        return False
    for source in plan.sources:
        view.nodes.give_back(job, source)
    _learn_cost(view, job, plan, received.at_ms)
    job.moves += 1
    lifecycle.lose_steps(job, event.steps_lost)
    lifecycle.conclude(view, plan, PlanStatus.FINISHED)
    lifecycle.after(view, job, received)
    return True


def _learn_cost(view: Projection, job: Job, plan: Plan, at_ms: int) -> None:
    """Learn the cost of a finished move, unless a step was begun again or a node is gone."""
    if job.checkpoint is None or not job.checkpoint.size_bytes or plan.attempt > STEPS_OF_A_MOVE:
        return
    if not plan.sources or not plan.targets:
        return
    view.state.move_costs.learn(
        MoveSeen(
            model=job.spec.model,
            source=plan.sources[0],
            target=plan.targets[0],
            size_bytes=job.checkpoint.size_bytes,
            leaving_ms=max(plan.stopped_ms - plan.made_ms, 0),
            arriving_ms=max(at_ms - plan.stopped_ms, 0),
        )
    )


def _migration_failed(view: Projection, event: c.MigrationFailed, received: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    if job is None or plan is None or plan.heading is not Heading.FAILED:
        return False
    lifecycle.lose_steps(job, event.steps_lost)
    undo_move(view, job, plan)
    lifecycle.not_started(job, event.code, event.message)
    lifecycle.conclude(view, plan, PlanStatus.FAILED, event.message)
    lifecycle.after(view, job, received)
    return True


def _abandoned(view: Projection, event: c.PlanAbandoned, received: Received[Any]) -> bool:
    job, plan = concerned(view, event)
    # An unclear START may have left a process: it is begun again, and so looked up, before the plan is given up.
    if job is None or plan is None or plan.begun or (plan.unclear and plan.step is c.Step.START):
        return False
    reason = event.message or event.code
    if plan.kind is PlanKind.PLACE and plan.after and not plan.attempt:
        lifecycle.queue_again(view, job, plan, reason)
        return True
    if plan.kind is PlanKind.MIGRATE:
        undo_move(view, job, plan)
    lifecycle.not_started(job, event.code, event.message)
    lifecycle.conclude(view, plan, PlanStatus.ABANDONED, reason)
    if plan.kind in TRANSITIONS:
        lifecycle.settle_places(view, job)
    lifecycle.after(view, job, received)
    return True


def undo_move(view: Projection, job: Job, plan: Plan) -> None:
    """Undo a failed move: the job counts where it is, and may request a move again."""
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
