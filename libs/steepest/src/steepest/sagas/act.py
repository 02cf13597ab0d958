"""One step done on the cluster, and the event that tells its outcome.

It owns the translation between steps and calls of the cluster port, and what is done when a call's effect is uncertain: it
is looked up. It must never know which step comes next.
"""

from __future__ import annotations

import msgspec
import structlog

from steepest.cluster.port import Cluster, ReplicaId, ReplicaPhase, ReplicaSpec, ReplicaStatus
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events import cluster as c
from steepest.events.common import CheckpointRef
from steepest.events.parameters import MoveLimits
from steepest.view.state import Job

logger = structlog.get_logger(__name__)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was begun and read back, with all that is needed to act on it."""

    begun: c.StepBegun
    spec: c.JobSpec
    restore: CheckpointRef | None
    limits: MoveLimits

    @property
    def replica(self) -> ReplicaId:
        """The replica that is acted on."""
        return ReplicaId(self.begun.job)

    @property
    def request(self) -> str:
        """The name by which a checkpoint is asked for, and released."""
        return f"{self.begun.plan}.{self.begun.attempt}"


def task(begun: c.StepBegun, job: Job, limits: MoveLimits) -> Task:
    """The step as it stands where it was read back."""
    return Task(begun=begun, spec=job.spec, restore=job.checkpoint, limits=limits)


async def act(cluster: Cluster, task: Task) -> c.ClusterEvent:
    """Do the step and give its outcome; a failure is an outcome too."""
    try:
        return await _STEPS[task.begun.step](cluster, task)
    except UncertainError as error:
        return await _look_up(cluster, task, error)
    except ClusterError as error:
        return _failed(task, error)
    except Exception as error:
        logger.exception("a step failed in a way that no adapter should", step=task.begun)
        return _failed(task, UncertainError(f"{type(error).__name__}: {error}", code="bug"))


async def _checkpoint(cluster: Cluster, task: Task) -> c.ClusterEvent:
    begun, limits = task.begun, task.limits
    checkpoint = await cluster.checkpoint(
        task.replica,
        begun.incarnation,
        request=task.request,
        hold_s=limits.hold_ms / 1000,
        timeout_s=limits.checkpoint_timeout_ms / 1000,
    )
    return c.CheckpointSaved(
        plan=begun.plan, attempt=begun.attempt, job=begun.job, incarnation=begun.incarnation, checkpoint=checkpoint
    )


async def _stop(cluster: Cluster, task: Task) -> c.ClusterEvent:
    begun = task.begun
    stopped = await cluster.stop(task.replica, begun.incarnation, grace_s=task.limits.stop_grace_ms / 1000)
    return _job_stopped(begun, stopped.exit_status, stopped.step, stopped.checkpoint)


async def _start(cluster: Cluster, task: Task) -> c.ClusterEvent:
    begun = task.begun
    spec = ReplicaSpec(
        command=task.spec.command,
        working_dir=task.spec.working_dir,
        env=task.spec.env,
        requests=task.spec.requests,
    )
    await cluster.start(task.replica, begun.incarnation, begun.node, spec, task.restore)
    return _job_placed(task)


async def _verify(cluster: Cluster, task: Task) -> c.ClusterEvent:
    begun = task.begun
    step = await cluster.wait_for_step(
        task.replica,
        begun.incarnation,
        at_least=task.restore.step if task.restore else 0,
        timeout_s=task.limits.verify_timeout_ms / 1000,
    )
    return c.JobResumed(plan=begun.plan, attempt=begun.attempt, job=begun.job, incarnation=begun.incarnation, step=step)


_STEPS = {c.Step.CHECKPOINT: _checkpoint, c.Step.STOP: _stop, c.Step.START: _start, c.Step.VERIFY: _verify}


async def _look_up(cluster: Cluster, task: Task, error: UncertainError) -> c.ClusterEvent:
    """What became of a call whose effect is not known: asked of the cluster, never assumed."""
    begun = task.begun
    try:
        if begun.step is c.Step.CHECKPOINT:
            await cluster.release(task.replica, begun.incarnation, request=task.request)
            return _failed(task, RefusedError(str(error), code=error.code))
        status = await cluster.lookup(task.replica)
    except ClusterError:
        return _failed(task, error)
    if begun.step is c.Step.START and status is not None and status.incarnation == begun.incarnation:
        return _job_placed(task)
    if begun.step is c.Step.STOP and status is not None and _has_ended(status, begun.incarnation):
        return _job_stopped(begun, status.exit_status, status.step, status.checkpoint)
    return _failed(task, RefusedError(str(error), code=error.code))


def _has_ended(status: ReplicaStatus, incarnation: int) -> bool:
    return status.incarnation == incarnation and status.phase in {ReplicaPhase.EXITED, ReplicaPhase.GONE}


def _job_stopped(
    begun: c.StepBegun, exit_status: int | None, step: int | None, checkpoint: CheckpointRef | None
) -> c.JobStopped:
    return c.JobStopped(
        plan=begun.plan,
        attempt=begun.attempt,
        job=begun.job,
        incarnation=begun.incarnation,
        exit_status=exit_status,
        step=step,
        checkpoint=checkpoint,
    )


def _job_placed(task: Task) -> c.JobPlaced:
    begun = task.begun
    return c.JobPlaced(
        plan=begun.plan,
        attempt=begun.attempt,
        job=begun.job,
        incarnation=begun.incarnation,
        node=begun.node,
        restore=task.restore,
    )


def _failed(task: Task, error: ClusterError) -> c.StepFailed:
    begun = task.begun
    return c.StepFailed(
        plan=begun.plan,
        step=begun.step,
        attempt=begun.attempt,
        job=begun.job,
        code=error.code,
        definite=error.definite,
        message=str(error)[:2000],
    )
