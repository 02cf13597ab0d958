"""A step that was begun and read back, and the event that reports its outcome.

It owns the translation of a cluster's answers into outcomes. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from steepest.cluster.port import GangPlace, ReplicaId, ReplicaPhase, ReplicaSpec, ReplicaStatus, Stopped
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, CheckpointRef
from steepest.events.parameters import MoveLimits
from steepest.trace_context import trace_continued
from steepest.view.state import Job, Plan, PlanKind

REFUSED_BEFORE = 4
"""Refusals of a checkpoint after which an older one is restored: until then, its volume may only be slow to show it."""


class Member(msgspec.Struct, frozen=True):
    """A replica of a gang that a step acts on, and its node."""

    replica: ReplicaId
    node: str
    spec: ReplicaSpec


class StepTask(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was begun and read back, with all that is needed to act on it.

    Attributes:
        kind: What the plan does.
        spec: The process that START starts; of a gang, its replica 0.
        given_up: The incarnation up to whose checkpoints none but ``restore`` may be restored.
        falls_back: Whether an older one than ``restore`` may be, as that was refused too often.
        request: The name by which a checkpoint is requested, and released. A migrator that takes the step over requests it
            under the same name, and gets the answer that was given already; after a failure the name is another one.
        first_start: Whether no START of this incarnation was begun before.
        saver: The replica that saves for all.
        gang: Of a gang, the replicas of the step: all of them or those that leave, except ended ones.
        sizes: Of a gang that is started, how many replicas of each role it has.
        stop_step: Of a gang, the last step that is known of replicas which have ended.
        trace: The ``traceparent`` of its beginning and of its outcome; what it starts gets it.
    """

    begun: c.StepBegun
    kind: PlanKind
    spec: ReplicaSpec
    restore: CheckpointRef | None
    given_up: int = 0
    falls_back: bool = False
    limits: MoveLimits
    request: str
    first_start: bool = False
    saver: int = 0
    is_gang: bool = False
    gang: tuple[Member, ...] = ()
    sizes: tuple[int, ...] = ()
    stop_step: int | None = None
    trace: str = ""

    @property
    def replica(self) -> ReplicaId:
        """The replica that is acted on; of a gang, the one that saves for all, or whose first step is waited for."""
        return ReplicaId(self.begun.job, self.saver if self.begun.step is c.Step.CHECKPOINT else 0)


def step_task(begun: c.StepBegun, job: Job, plan: Plan, limits: MoveLimits, *, first_start: bool = False) -> StepTask:
    """The step at the position where it was read back."""
    is_gang = job.spec.is_gang
    trace = step_trace(plan, begun.attempt)
    members = _members(job, trace) if is_gang else ()
    if plan.kind is PlanKind.SHED:
        members = tuple(member for member in members if member.replica.index in plan.leaving)
    return StepTask(
        begun=begun,
        kind=plan.kind,
        spec=replica_spec(job.spec, trace),
        restore=job.checkpoint,
        given_up=job.given_up,
        falls_back=job.refusals >= REFUSED_BEFORE,
        limits=limits,
        request=request_of(plan.id, plan.failures, plan.unclear),
        first_start=first_start,
        saver=job.saver,
        is_gang=is_gang,
        gang=members,
        sizes=job.sizes,
        stop_step=job.stop_step,
        trace=trace,
    )


def _members(job: Job, trace: str) -> tuple[Member, ...]:
    """The replicas of a gang's newest incarnation that have not ended."""
    requests = job.spec.replica_requests(job.sizes)
    counts, roles = job.spec.counts(job.sizes), job.spec.all_roles
    first = [sum(counts[:role]) for role in range(len(counts))]
    spec = replica_spec(job.spec, trace)
    return tuple(
        Member(
            ReplicaId(job.name, rank),
            replica.node,
            msgspec.structs.replace(
                spec,
                requests=requests[rank],
                gang=GangPlace(
                    role=roles[replica.role].name,
                    role_index=rank - first[replica.role],
                    rank=rank,
                    world_size=len(job.replicas),
                    nodes=job.nodes,
                    roles=tuple((role.name, count) for role, count in zip(roles, counts, strict=True)),
                ),
            ),
        )
        for rank, replica in enumerate(job.replicas)
        if not replica.ended
    )


def request_of(plan: str, failures: int = 0, unclear: int = 0) -> str:
    """The name of a plan's checkpoint request after these failures and unclear attempts."""
    return f"{plan}.{failures}.{unclear}"


def step_trace(plan: Plan, attempt: int) -> str:
    """The ``traceparent`` of a step, beginning to outcome: a part of its plan's; empty if that belongs to no trace."""
    return trace_continued(plan.trace, f"{plan.id}/{attempt}") if plan.trace else ""


def replica_spec(spec: c.JobSpec, trace: str = "") -> ReplicaSpec:
    """The specification with which a replica starts."""
    return ReplicaSpec(
        command=spec.command,
        working_dir=spec.working_dir,
        image=spec.image,
        env=spec.env,
        requests=spec.chief_requests,
        metrics_folder=spec.metrics_folder,
        tty=spec.tty,
        # The image of a gang has as many replicas as were saved.
        checkpoint_mode=spec.checkpoint_mode or (CheckpointMode.NONE if spec.is_elastic else None),
        trace=trace,
    )


def with_newest(task: StepTask, known: Iterable[ReplicaStatus | None]) -> StepTask:
    """The START of a job from the newest good checkpoint on its volume.

    The log may know an older one alone, which the job has deleted by now: a node was lost, or an end was reported without a
    checkpoint. Or the one that it knows is damaged.
    """
    before = task.restore
    for found in (status.checkpoint for status in known if status is not None and status.checkpoint is not None):
        is_alike = found.is_image is (before is not None and before.is_image)  # a node is chosen for an image
        if is_alike and found.incarnation > task.given_up and (found.is_newer(before) or task.falls_back):
            return msgspec.structs.replace(task, restore=found)
    return task


def step_wanted(task: StepTask) -> int:
    """The step that proves that the job continues from its checkpoint."""
    return task.restore.step if task.restore else 0


def may_have_been_done(task: StepTask) -> bool:
    """Whether a refused step may have been done before, by a migrator that died before it reported."""
    return task.begun.step in {c.Step.START, c.Step.STOP}


def was_forgotten(begun: c.StepBegun, status: ReplicaStatus | None) -> str:
    """Why a START cannot be done that the log does not explain; empty where there is no such reason.

    Before the first START of an incarnation is begun no migrator starts it, unless the log has lost its newest records
    since. The end of that incarnation was reported before its start and does not count, so the job would be waited for
    without end.
    """
    if status is None or status.incarnation < begun.incarnation:
        return ""
    if status.incarnation == begun.incarnation and not status.has_ended:
        return ""
    return f"incarnation {status.incarnation} was started on {status.node}, and the log does not know of it"


def saved(task: StepTask, checkpoint: CheckpointRef) -> c.CheckpointSaved:
    """CHECKPOINT is done."""
    begun = task.begun
    return c.CheckpointSaved(
        plan=begun.plan,
        attempt=begun.attempt,
        job=begun.job,
        incarnation=begun.incarnation,
        checkpoint=checkpoint,
        replica=task.saver,
    )


def stopped(task: StepTask, how: Stopped, replicas: tuple[c.ReplicaAnswer, ...] = ()) -> c.JobStopped:
    """STOP is done; ``replicas``: how each of a gang ended."""
    begun = task.begun
    return c.JobStopped(
        plan=begun.plan,
        attempt=begun.attempt,
        job=begun.job,
        incarnation=begun.incarnation,
        exit_status=how.exit_status,
        step=how.step,
        checkpoint=how.checkpoint,
        replicas=replicas,
    )


def surplus_stopped(task: StepTask, replicas: tuple[c.ReplicaAnswer, ...]) -> c.SurplusStopped:
    """STOP of the replicas that leave is done; ``replicas``: how each of them ended."""
    begun = task.begun
    return c.SurplusStopped(
        plan=begun.plan, attempt=begun.attempt, job=begun.job, incarnation=begun.incarnation, replicas=replicas
    )


def placed(task: StepTask) -> c.JobPlaced:
    """START is done."""
    begun = task.begun
    return c.JobPlaced(
        plan=begun.plan,
        attempt=begun.attempt,
        job=begun.job,
        incarnation=begun.incarnation,
        node=begun.node,
        restore=task.restore,
        nodes=begun.nodes,
        sizes=task.sizes if task.is_gang else (),
    )


def resumed(task: StepTask, step: int | None) -> c.JobResumed:
    """VERIFY is done."""
    begun = task.begun
    known = None if task.restore is not None and task.restore.is_image else step
    return c.JobResumed(
        plan=begun.plan, attempt=begun.attempt, job=begun.job, incarnation=begun.incarnation, step=known
    )


def failed(task: StepTask, error: ClusterError, replicas: tuple[c.ReplicaAnswer, ...] = ()) -> c.StepFailed:
    """The step failed; ``replicas``: what each of a gang answered."""
    begun = task.begun
    return c.StepFailed(
        plan=begun.plan,
        step=begun.step,
        attempt=begun.attempt,
        job=begun.job,
        code=error.code,
        definite=error.definite,
        message=str(error)[:2000],
        replicas=replicas,
    )


def looked_up(task: StepTask, status: ReplicaStatus | None, error: ClusterError) -> c.ClusterEvent:
    """The outcome of a step whose call ended with ``error``, by the state of the replica."""
    begun = task.begun
    if status is not None and status.incarnation == begun.incarnation:
        match begun.step:
            case c.Step.START if status.phase is ReplicaPhase.STARTING:
                # Its process is not proven to run: beginning again completes the start.
                return failed(task, UncertainError(str(error), code=error.code))
            case c.Step.START if status.node == begun.node:
                return placed(task)
            case c.Step.STOP if status.has_ended:
                return stopped(task, status)
            case c.Step.VERIFY if status.exit_status == 0 or (status.step or -1) >= step_wanted(task):
                return resumed(task, status.step)
            case c.Step.VERIFY if status.has_ended:
                return failed(task, RefusedError(str(error), code="ended"))
    return failed(task, RefusedError(str(error), code=error.code))
