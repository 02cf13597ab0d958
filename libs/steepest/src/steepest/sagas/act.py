"""One step done on the cluster, and the event that tells its outcome: there always is one, within a time limit.

It owns the translation between steps and calls of the cluster port, and what is done when a call's effect is uncertain: it
is looked up. A call that hangs, or fails in a way that no adapter should, is uncertain too. It must never know which step
comes next.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from steepest.cluster.port import Cluster, ReplicaId, ReplicaPhase, ReplicaSpec, ReplicaStatus
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events import cluster as c
from steepest.events.common import CheckpointRef
from steepest.events.parameters import MoveLimits
from steepest.view.state import Job, Plan

logger = structlog.get_logger(__name__)

START_S = 60.0
"""How long a node may take to accept a process."""

SLACK_S = 15.0
"""What a call may take beyond its own limit: SIGKILL, say, and a slow disk."""

LOOK_UP_S = 10.0
"""How long looking up may take, which changes nothing and reads little."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was begun and read back, with all that is needed to act on it.

    Attributes:
        request: The name by which a checkpoint is asked for, and released. Whoever takes the step over asks under the
            same name, and gets the answer that was given already; after a failure the name is another one.
    """

    begun: c.StepBegun
    spec: c.JobSpec
    restore: CheckpointRef | None
    limits: MoveLimits
    request: str

    @property
    def replica(self) -> ReplicaId:
        """The replica that is acted on."""
        return ReplicaId(self.begun.job)


def task(begun: c.StepBegun, job: Job, plan: Plan, limits: MoveLimits) -> Task:
    """The step as it stands where it was read back."""
    request = request_of(plan.id, plan.failures, plan.unclear)
    return Task(begun=begun, spec=job.spec, restore=job.checkpoint, limits=limits, request=request)


def request_of(plan: str, failures: int = 0, unclear: int = 0) -> str:
    """The name under which a plan asks for a checkpoint after so many failures."""
    return f"{plan}.{failures}.{unclear}"


def time_limit_s(step: c.Step, limits: MoveLimits) -> float:
    """How long a step takes at most, from its reading back to its outcome, in seconds."""
    return _call_limit_s(step, limits) + LOOK_UP_S


def _call_limit_s(step: c.Step, limits: MoveLimits) -> float:
    own_s = {
        c.Step.CHECKPOINT: limits.checkpoint_timeout_ms / 1000,
        c.Step.STOP: limits.stop_grace_ms / 1000,
        c.Step.START: START_S,
        c.Step.VERIFY: limits.verify_timeout_ms / 1000,
    }
    return own_s[step] + SLACK_S


async def act(cluster: Cluster, task: Task) -> c.ClusterEvent:
    """Do the step and give its outcome; a failure is an outcome too."""
    try:
        async with asyncio.timeout(_call_limit_s(task.begun.step, task.limits)):
            return await _STEPS[task.begun.step](cluster, task)
    except ClusterError as error:
        return await _after_failure(cluster, task, error)
    except TimeoutError:
        return await _look_up(cluster, task, UncertainError("the cluster did not answer in time", code="timeout"))
    except Exception as error:
        logger.exception("a step failed in a way that no adapter should", step=task.begun)
        return await _look_up(cluster, task, UncertainError(f"{type(error).__name__}: {error}", code="bug"))


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
        at_least=_step_wanted(task),
        timeout_s=task.limits.verify_timeout_ms / 1000,
    )
    return _job_resumed(begun, step)


_STEPS = {c.Step.CHECKPOINT: _checkpoint, c.Step.STOP: _stop, c.Step.START: _start, c.Step.VERIFY: _verify}


async def _after_failure(cluster: Cluster, task: Task, error: ClusterError) -> c.ClusterEvent:
    """The outcome of a call that failed.

    A start or stop that was refused may have been done before, by a migrator that did not live to tell.
    """
    if error.definite and task.begun.step not in {c.Step.START, c.Step.STOP}:
        return _failed(task, error)
    return await _look_up(cluster, task, error)


async def _look_up(cluster: Cluster, task: Task, error: ClusterError) -> c.ClusterEvent:
    """What became of a step whose effect is not known: asked of the cluster, never assumed."""
    try:
        async with asyncio.timeout(LOOK_UP_S):
            if task.begun.step is c.Step.CHECKPOINT:
                await cluster.release(task.replica, task.begun.incarnation, request=task.request)
                return _failed(task, RefusedError(str(error), code=error.code))
            return _told(task, await cluster.lookup(task.replica), error)
    except Exception as second:  # noqa: BLE001 - whatever it is, it is not known what became of the step
        logger.warning("could not look up what became of a step", step=task.begun, why=repr(second))
        return _failed(task, UncertainError(str(error), code=error.code))


def _told(task: Task, status: ReplicaStatus | None, error: ClusterError) -> c.ClusterEvent:
    """What became of a step, by what is so."""
    begun = task.begun
    if status is not None and status.incarnation == begun.incarnation:
        match begun.step:
            case c.Step.START if status.phase is ReplicaPhase.STARTING:
                # Its process is not proven to run: beginning again completes the start.
                return _failed(task, UncertainError(str(error), code=error.code))
            case c.Step.START:
                return _job_placed(task)
            case c.Step.STOP if _has_ended(status):
                return _job_stopped(begun, status.exit_status, status.step, status.checkpoint)
            case c.Step.VERIFY if status.exit_status == 0 or (status.step or -1) >= _step_wanted(task):
                return _job_resumed(begun, status.step)
            case c.Step.VERIFY if _has_ended(status):
                return _failed(task, RefusedError(str(error), code="ended"))
    return _failed(task, RefusedError(str(error), code=error.code))


def _step_wanted(task: Task) -> int:
    """The step that proves that the job goes on from where it was saved."""
    return task.restore.step if task.restore else 0


def _has_ended(status: ReplicaStatus) -> bool:
    return status.phase in {ReplicaPhase.EXITED, ReplicaPhase.GONE}


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


def _job_resumed(begun: c.StepBegun, step: int | None) -> c.JobResumed:
    return c.JobResumed(plan=begun.plan, attempt=begun.attempt, job=begun.job, incarnation=begun.incarnation, step=step)


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
