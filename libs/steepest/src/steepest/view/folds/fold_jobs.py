"""Folds a job's requests, processes and growth into a view.

A handler says with False that its event does not count where it stands: it is outdated, or its job is over.
"""

from __future__ import annotations

from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.received import Received
from steepest.events.requests import Hold
from steepest.view import lifecycle
from steepest.view import plans as rules
from steepest.view.folds.handlers import Handlers
from steepest.view.orders.holds import hold_of
from steepest.view.places import gangs
from steepest.view.plans import Doom
from steepest.view.projection import Projection
from steepest.view.state import CLEARING, Job, Phase, PlanKind


def _submitted(view: Projection, event: c.JobSubmitted, received: Received[Any]) -> bool:
    if event.job in view.jobs:
        view.touched = view.jobs[event.job]
        # Sent twice it counts once; another job of the same name is for the placer to reject.
        return view.touched.request != event.request
    job = Job(
        name=event.job,
        request=event.request,
        spec=event.spec.counted,
        user=event.user,
        submitted_ms=received.at_ms,
        submitted_offset=received.offset,
        submitted_counted_ms=view.counted_ms,
    )
    job.hold = hold_of(job.spec, view.jobs.holds)
    view.jobs.add(job)
    view.touched = job
    return True


def _cancel_requested(view: Projection, event: c.JobCancelRequested, received: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.phase is Phase.ENDED or job.cancel:
        return False
    job.cancel, job.cancel_reason = event.request, event.reason
    lifecycle.cancel_if_free(view, job, received)
    view.jobs.update(job)
    return True


def _change_requested(view: Projection, event: c.JobChangeRequested, _: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.phase is Phase.ENDED:
        return False
    if job.hold is Hold.OTHERS and event.held is False and job.spec.after_any:
        job.spec = _with_outcomes(view, job.spec)
    if event.held is False and job.hold.suspends:
        job.trial = job.trial.on
    if event.held is not None:
        job.hold = Hold.USER if event.held else once_let_go(job)
    if event.priority is not None:
        changes = {"priority": event.priority, "priority_class": event.priority_class}
        job.spec = msgspec.structs.replace(job.spec, **changes)
    view.jobs.update(job)
    view.jobs.queue.put_again(job)
    return True


def once_let_go(job: Job) -> Hold:
    """The hold of a job that is let go on: the placer decides again about one behind others or of an array."""
    waits = job.is_queued and (job.spec.after or job.spec.array_most is not None)
    return Hold.OTHERS if waits and job.hold.suspends else Hold.NONE


def _with_outcomes(view: Projection, spec: c.JobSpec) -> c.JobSpec:
    """The description of a job that is let go after others, with what became of them, each a word."""
    before = [view.jobs.get(name) for name in spec.after]
    ended = {
        "STEEPEST_AFTER": spec.after,
        "STEEPEST_OUTCOMES": ["gone" if one is None else one.outcome or one.phase for one in before],
        "STEEPEST_EXIT_STATUSES": [
            "-" if one is None or one.exit_status is None else str(one.exit_status) for one in before
        ],
    }
    variables = {name: " ".join(words) for name, words in ended.items()}
    return msgspec.structs.replace(spec, env={**spec.env, **variables})


def _admitted(view: Projection, event: c.JobAdmitted, _: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.request != event.request or job.phase is Phase.ENDED:
        return False
    job.admitted = True
    return True


def _rejected(view: Projection, event: c.JobRejected, received: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.request != event.request or job.phase is not Phase.WAITING:
        return False
    lifecycle.end(view, job, c.Outcome.FAILED, event.reason, received)
    return True


def _ended(view: Projection, event: c.JobEnded, received: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.phase not in {Phase.WAITING, Phase.SUSPENDED, Phase.STOPPED}:
        return False  # a job that runs, or may, ends by its process first
    lifecycle.end(view, job, event.outcome, event.reason, received)
    return True


def _retry(view: Projection, event: c.RetryPlanned, _: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.phase is not Phase.STOPPED or event.incarnation != job.incarnation:
        return False
    job.retries_used += event.charged
    job.retries_held += 1
    job.refusals += job.stop_code == c.StepFailure.CHECKPOINT_REFUSED
    job.not_before_counted_ms = event.not_before_ms
    if job.reaction:
        if job.rewinds:
            job.checkpoint, job.previous, job.good = job.good, None, None
            job.given_up = job.incarnation
        lifecycle.forget_findings(job)
    job.phase = Phase.WAITING
    job.nodes = ()
    view.jobs.update(job)
    return True


def _replica_started(view: Projection, event: c.ReplicaStarted, _: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.phase is not Phase.RUNNING:
        return False
    if job.incarnation != event.incarnation or not _has_it(job, event.node, event.replica):
        return False
    if event.gpus:
        job.gpus[event.replica] = event.gpus
        view.jobs.update(job)
    return True


def _has_it(job: Job, node: str, replica: int) -> bool:
    """Whether the node that speaks of a replica of a job's newest incarnation is the one that it was started on."""
    if job.spec.is_gang:
        return replica < len(job.replicas) and job.replicas[replica].node == node
    return node == job.started_on


def _mode_declared(view: Projection, event: c.CheckpointModeDeclared, _: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.incarnation != event.incarnation or job.phase is Phase.ENDED:
        return False
    if not _has_it(job, event.node, event.replica) or event.mode is CheckpointMode.AUTO:
        return False
    if job.spec.is_gang and not _saves_for_all(job, event):
        return False
    job.declared_mode, job.mode_reason = event.mode, event.reason
    view.jobs.update(job)
    return True


def _saves_for_all(job: Job, event: c.CheckpointModeDeclared) -> bool:
    """Whether a gang's mode is that which this replica declares: the chief's, or another's where the chief cannot save."""
    can = event.mode is not CheckpointMode.NONE
    chief_can = job.saver == 0 and job.declared_mode not in {None, CheckpointMode.NONE}
    if event.replica == 0 and not can:
        return job.saver == 0
    if event.replica in {0, job.saver} or (can and not chief_can and job.saver == 0):
        job.saver = event.replica
        return True
    return False


def _checkpoint_verified(view: Projection, event: c.CheckpointVerified, _: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.incarnation != event.incarnation or job.phase is Phase.ENDED:
        return False
    if not _has_it(job, event.node, event.replica):
        return False
    known, saved = job.checkpoint, event.checkpoint
    if known is not None and known.is_image == saved.is_image and known.is_newer(saved):
        return False  # a newer one was reported before it
    if not lifecycle.remember(job, saved):
        return False
    view.jobs.update(job)
    return True


def _replica_stopped(view: Projection, event: c.ReplicaStopped, received: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.phase is Phase.ENDED or job.incarnation != event.incarnation:
        return False
    if not _has_it(job, event.node, event.replica):
        return False
    fold = _gang_replica_stopped if job.spec.is_gang else _process_stopped
    return fold(view, job, event, received)


def _process_stopped(view: Projection, job: Job, event: c.ReplicaStopped, _: Received[Any]) -> bool:
    plan = view.plan_of(job)
    starting = plan is not None and plan.step is c.Step.START and plan.next_incarnation == event.incarnation
    if not job.alive and not starting:
        return False
    lifecycle.stopped(job, event)
    if starting:
        return True  # its end was reported before its start, or while its start was unclear
    if plan is None:
        lifecycle.settle(view, job)
        return True
    stopping = plan.begun and plan.step is c.Step.STOP
    if stopping and event.exit_status == 0:
        plan.doomed = plan.doomed or Doom.FINISHED.sentence
    elif not stopping and plan.step is not c.Step.VERIFY:
        plan.doomed = plan.doomed or Doom.ENDED.sentence
    return True


def _gang_replica_stopped(view: Projection, job: Job, event: c.ReplicaStopped, received: Received[Any]) -> bool:
    plan = view.plan_of(job)
    starting = plan is not None and plan.step is c.Step.START and plan.next_incarnation == event.incarnation
    if job.replicas[event.replica].ended or not (job.alive or starting):
        return False
    verdict = lifecycle.replica_stopped(job, event)
    if starting or (plan is not None and plan.kind in CLEARING):
        view.jobs.update(job)
        return True
    stopping = plan is not None and plan.begun and plan.step is c.Step.STOP
    if stopping:
        return True  # its outcome says what became of the gang
    if plan is None:
        gangs.hold(view, job)
        lifecycle.after(view, job, received)
        return True
    if rules.stage_of(plan) in rules.BEFORE_STOP:
        plan.sources, plan.source_sizes = job.running_on, job.running_sizes
        gangs.hold(view, job)
        if verdict is not gangs.GangVerdict.GOES_ON:
            over = Doom.FINISHED if verdict is gangs.GangVerdict.FINISHED else Doom.ENDED
            plan.doomed = plan.doomed or over.sentence
        elif plan.kind is PlanKind.SHED and event.replica not in plan.leaving:
            plan.doomed = plan.doomed or Doom.REPLICA_ENDED.about(replica=event.replica)
    view.jobs.update(job)
    return True


def _growth(view: Projection, event: c.GrowthMeasured, _: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.phase is Phase.ENDED:
        return False
    job.growth, job.measured = event.growth, True
    if job.unknown:
        view.nodes.set_unknown(job, unknown=False)
    view.jobs.hear(job, view.counted_ms, view.parameters.specon.interval_ms)
    return True


def _goal_reached(view: Projection, event: c.GoalReached, received: Received[Any]) -> bool:
    """Stop the job as if its user had cancelled it: it saves, and holds nothing afterwards."""
    job = view.find(event.job)
    if job is None or not job.alive or job.cancel or job.incarnation != event.incarnation:
        return False
    job.cancel, job.goal_reached = f"goal-{received.offset}", event.reason
    job.cpu_ms_saved = event.cpu_ms_saved
    lifecycle.cancel_if_free(view, job, received)
    view.jobs.update(job)
    return True


def _category(view: Projection, event: c.CategoryChanged, _: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.phase is Phase.ENDED or job.migrated:
        # Algorithm 3 line 3 loops over migrated = False only: a decided job keeps its category.
        return False
    if job.unknown:
        view.nodes.set_unknown(job, unknown=False)
    before = job.category_index
    if event.after is c.Category.CONVERGED and job.category is not c.Category.CONVERGED:
        job.converged_counted_ms = view.counted_ms
    job.category = event.after
    view.nodes.recount(job, before)
    view.jobs.update(job)
    return True


def _requested(view: Projection, event: c.ReallocationRequested, _: Received[Any]) -> bool:
    job = view.find(event.job)
    return job is not None and job.phase is Phase.RUNNING


def _stays(view: Projection, event: c.StayDecided, _: Received[Any]) -> bool:
    job = view.find(event.job)
    if job is None or job.incarnation != event.incarnation or job.migrated or job.phase is not Phase.RUNNING:
        return False
    job.migrated = True
    view.jobs.update(job)
    return True


HANDLERS: Handlers = {
    c.JobSubmitted: _submitted,
    c.JobCancelRequested: _cancel_requested,
    c.JobChangeRequested: _change_requested,
    c.JobAdmitted: _admitted,
    c.JobRejected: _rejected,
    c.JobEnded: _ended,
    c.RetryPlanned: _retry,
    c.ReplicaStarted: _replica_started,
    c.CheckpointModeDeclared: _mode_declared,
    c.CheckpointVerified: _checkpoint_verified,
    c.ReplicaStopped: _replica_stopped,
    c.GrowthMeasured: _growth,
    c.GoalReached: _goal_reached,
    c.CategoryChanged: _category,
    c.ReallocationRequested: _requested,
    c.StayDecided: _stays,
}
