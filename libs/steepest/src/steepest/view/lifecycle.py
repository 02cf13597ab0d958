"""How plans, processes and jobs begin and end within a view: the changes that several events have in common."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.common import LARGEST, CheckpointRef
from steepest.events.received import Received
from steepest.trace_context import trace_in
from steepest.view import plans as rules
from steepest.view.folds import fold_forecasts, fold_progress
from steepest.view.places import gangs
from steepest.view.progress import attained_ms
from steepest.view.projection import Projection
from steepest.view.state import Job, Phase, Plan, PlanKind, PlanStatus

COMMAND_KEPT = 200
"""Letters of the command of a job that is over."""

PLANS_KEPT = 1_000
"""Plans that are over and still remembered, newest last, for people who ask why."""


def fly(view: Projection, plan: Plan, job: Job) -> None:
    """A valid plan is in flight from here on."""
    rules.begin_walk(plan, job.mode)
    view.state.plans[plan.id] = plan
    view.in_flight[plan.id] = plan
    if plan.waits:
        view.waiting[plan.id] = plan
    job.plan = plan.id


def conclude(view: Projection, plan: Plan, status: PlanStatus, reason: str = "") -> None:
    """A plan is over."""
    plan.status, plan.reason = status, reason
    plan.steps, plan.begun = (), False
    if plan.leaving:
        gangs.keep_those_that_run(view.jobs[plan.job])
    view.in_flight.pop(plan.id, None)
    view.waiting.pop(plan.id, None)
    view.jobs[plan.job].plan = None
    forget_old(view, plan)


def forget_old(view: Projection, plan: Plan) -> None:
    """Remember a plan that is over, and at most PLANS_KEPT of them."""
    view.over[plan.id] = None
    view.state.plans[plan.id] = view.state.plans.pop(plan.id, plan)  # a snapshot keeps this order
    if len(view.over) > PLANS_KEPT:
        oldest = next(iter(view.over))
        del view.over[oldest], view.state.plans[oldest]


def end(view: Projection, job: Job, outcome: c.Outcome, reason: str, received: Received[Any]) -> None:
    """A job has ended, and holds nothing from here on."""
    view.nodes.release(job)
    fold_progress.finish(job)
    # The view remembers jobs that are over, and each snapshot holds them: a long command would be kept with them.
    job.spec = _remembered(job.spec)
    job.phase = Phase.ENDED
    job.alive = False
    job.replicas, job.made_room_for = [], ()
    job.limit = None
    job.findings = {}
    job.outcome = outcome
    job.stop_reason = reason
    job.ended_ms = received.at_ms
    job.ended_offset = received.offset
    view.jobs.update(job)


def _remembered(spec: c.JobSpec) -> c.JobSpec:
    """What a job asked for, once it is over: what only its start needed is left out, and what is for people is cut short."""
    lengths = accumulate(map(len, spec.command))
    words = sum(1 for length in lengths if length <= COMMAND_KEPT)
    command = spec.command[:words] or (spec.command[0][:COMMAND_KEPT],) if spec.command else ()
    return msgspec.structs.replace(spec, command=command, working_dir=None, image="", env={})


def begin_incarnation(job: Job, incarnation: int, node: str, plan: Plan | None = None) -> None:
    """A new process of a job is about to start on a node."""
    job.incarnation, job.started_on = incarnation, node
    job.saved_since_start = False
    job.limit = None
    job.gpus = {}
    fold_forecasts.begin_incarnation(job)
    fold_progress.resume(job)
    forget_stop(job)
    forget_findings(job)
    if plan is not None and job.spec.is_gang:
        gangs.begin(job, plan)


def forget_findings(job: Job) -> None:
    """The job has no process any more, or another one: what was wrong with the one before is over."""
    job.findings, job.reaction, job.restarts, job.rewinds = {}, "", False, False


def forget_stop(job: Job) -> None:
    """A job has a place again: how it lost the one before was judged already."""
    job.exit_status, job.stop_step, job.stop_reason, job.stop_code, job.stop_replica = None, None, "", "", 0


def stopped(job: Job, event: c.ReplicaStopped | c.JobStopped) -> None:
    """A job's process has ended. Two events may report it, each with facts that the other lacks."""
    job.alive = False
    job.limit = None
    job.stopped_incarnation = job.incarnation
    job.exit_status = job.exit_status if event.exit_status is None else event.exit_status
    job.stop_step = job.stop_step if event.step is None else event.step
    if isinstance(event, c.ReplicaStopped):
        job.stop_reason = event.reason
    remember(job, event.checkpoint)


def gang_stopped(job: Job, event: c.JobStopped, *, is_over: bool) -> None:
    """A step has stopped a gang; ``is_over``: how it ended is known from the replica because of which it was stopped."""
    gangs.stop(job, event)
    job.limit = None
    job.stopped_incarnation = job.incarnation
    if not is_over:
        job.exit_status = gangs.exit_status(job)
    for one in event.replicas:
        if one.exit_status is None and not one.code and job.exit_status:
            job.exit_status, job.stop_reason = None, f"replica {one.replica} lost its place"
    job.stop_step = job.stop_step if event.step is None else event.step
    remember(job, event.checkpoint)


def replica_stopped(job: Job, event: c.ReplicaStopped) -> gangs.GangVerdict:
    """A replica of a gang has ended by itself, or while it was stopped: what follows from that for the gang."""
    before = gangs.verdict(job)
    gangs.end(job, event.replica, event.exit_status, event.step)
    job.stop_step = job.stop_step if event.step is None else max(event.step, job.stop_step or 0)
    remember(job, event.checkpoint)
    name = f"replica {event.replica} on {event.node}"
    why = f"{name}: {event.reason}" if event.reason else name
    return _judge(job, before, event.replica, exit_status=event.exit_status, why=why)


def lose_replicas(job: Job, node: str, why: str) -> gangs.GangVerdict:
    """The replicas of a gang on a node have ended, because it is gone: what follows from that for the gang."""
    before = gangs.verdict(job) if job.replicas else gangs.GangVerdict.GOES_ON
    lost = [index for index, replica in enumerate(job.replicas) if replica.node == node and not replica.ended]
    for index in lost:
        gangs.end(job, index, None, None)
    return _judge(job, before, lost[0], exit_status=None, why=why) if lost else before


def _judge(
    job: Job, before: gangs.GangVerdict, replica: int, *, exit_status: int | None, why: str
) -> gangs.GangVerdict:
    """Keep how a gang ended, where the end of a replica is the end of the gang."""
    verdict = gangs.verdict(job)
    # Peers fail by themselves as soon as the place of one of them has ended, and may be seen to end before it.
    is_why = exit_status is None and before is gangs.GangVerdict.BROKEN
    if verdict is not before or is_why:
        finished = verdict is gangs.GangVerdict.FINISHED
        job.exit_status = 0 if finished else exit_status
        job.stop_reason, job.stop_replica = ("", 0) if finished else (why, replica)
        job.stopped_incarnation = job.incarnation
    if not job.alive:
        job.limit = None
    return verdict


def queue_again(view: Projection, job: Job, plan: Plan, reason: str) -> None:
    """A plan whose room did not come is given up before anything began: its job waits as it did before."""
    conclude(view, plan, PlanStatus.ABANDONED, reason)
    view.nodes.release(job)
    job.phase = Phase.SUSPENDED if plan.resumes else Phase.WAITING
    view.jobs.update(job)


def lost(job: Job, why: str) -> None:
    """A job's process has ended, because its node is gone."""
    gangs.none_runs(job)
    job.limit = None
    job.stopped_incarnation = job.incarnation
    job.stop_reason = job.stop_reason or why


def not_started(job: Job, code: str, message: str) -> None:
    """A plan is given up; where that leaves the job without a process, and nothing else explains it, this does."""
    if not job.alive and job.exit_status is None and not job.stop_reason:
        job.stop_code, job.stop_reason = code, message


def remember(job: Job, checkpoint: CheckpointRef | None) -> bool:
    """A checkpoint of a job is known to be good. False: it does not count, as the job has gone back to one before it."""
    if checkpoint is None or (job.given_up and checkpoint.incarnation <= job.given_up):
        return False
    is_new = job.checkpoint is None or not checkpoint.is_same(job.checkpoint)
    if is_new:
        job.previous = job.checkpoint
    if is_new or checkpoint.size_bytes:  # a release before sizes may report the same one
        job.checkpoint = checkpoint
    is_own = checkpoint.incarnation in {0, job.incarnation}  # not one of before that was found late
    job.saved_since_start = job.saved_since_start or (is_new and is_own)
    return True


def lose_steps(job: Job, steps: int) -> None:
    """A job has to do steps again; beyond the largest number that a snapshot holds, they count as that."""
    job.steps_lost = min(job.steps_lost + steps, LARGEST)


def serve(view: Projection, job: Job) -> None:
    """A job gives its places back."""
    job.service_ms = attained_ms(job, view.counted_ms)
    job.held_ms = min(job.held_ms + view.counted_ms - job.started_counted_ms, LARGEST)


def settle_places(view: Projection, job: Job) -> None:
    """A transition is over: a job that runs holds what its replicas need that run."""
    if job.alive:
        gangs.hold(view, job)


def settle(view: Projection, job: Job) -> None:
    """A job without a process and without a plan gives back all that it holds."""
    if job.phase is Phase.RUNNING and not job.alive and job.plan is None:
        view.nodes.release(job)
        serve(view, job)
        job.phase = Phase.STOPPED
        view.jobs.update(job)


def cancel_if_free(view: Projection, job: Job, received: Received[Any]) -> None:
    """A job that runs and must stop, with nothing else in flight, gets a plan of its own."""
    if not (job.cancel or job.reaction) or job.plan or not job.alive:
        return
    _stop_all(view, job, PlanKind.CANCEL, received)


def clear_if_over(view: Projection, job: Job, received: Received[Any]) -> None:
    """What is left of a gang that has finished or cannot go on, with nothing else in flight, is stopped."""
    if job.plan or not job.alive or not job.spec.is_gang or gangs.verdict(job) is gangs.GangVerdict.GOES_ON:
        return
    _stop_all(view, job, PlanKind.CLEAR, received)


def _stop_all(view: Projection, job: Job, kind: PlanKind, received: Received[Any]) -> None:
    plan = Plan(
        id=f"{kind.value}-{received.offset}" + (f"-{job.name}" if kind is PlanKind.CLEAR else ""),
        kind=kind,
        job=job.name,
        incarnation=job.incarnation,
        made_ms=received.at_ms,
        trace=trace_in(received.headers),
        sources=job.nodes,
        targets=job.nodes,
    )
    fly(view, plan, job)


def after(view: Projection, job: Job, received: Received[Any]) -> None:
    """A plan is over: a job without a process is free, and a requested cancellation can take effect."""
    settle(view, job)
    cancel_if_free(view, job, received)
    clear_if_over(view, job, received)
    view.jobs.update(job)
