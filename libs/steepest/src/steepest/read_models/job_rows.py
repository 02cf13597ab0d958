"""A job as programs see it: ``steepest jobs --json``, the API and the live page give the same row.

It owns the row's fields. It must never know where a view comes from, or how a row is printed.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Protocol

import msgspec

from steepest.describe.masking import masked_command
from steepest.events.growth import Category
from steepest.events.plans import GrowthList
from steepest.events.requests import Hold
from steepest.policies import rising
from steepest.policies.forecast import remaining
from steepest.read_models.job_progress import steps
from steepest.view.cluster_view import ClusterView
from steepest.view.places.gangs import gpus_on
from steepest.view.progress import TimeLeft, checkpoint_step, cpu_ms_left, shown_total
from steepest.view.state import Job, Phase

if TYPE_CHECKING:
    from steepest.policies.placement.standing import Standing

WHAT_LETTERS = 40


class PoolMoment(Protocol):
    """A pool at one moment.

    Attributes:
        now_ms: Wall clock; of a recording, and of a pool that no system runs, the time of the newest record.
    """

    @property
    def view(self) -> ClusterView:
        """The pool."""

    @property
    def now_ms(self) -> int: ...  # noqa: D102 - see above

    def has_stopped(self, job: Job) -> bool:
        """Whether the processes of a job that the log holds to be running have ended since."""


class NewestReport(msgspec.Struct, kw_only=True):
    """A job's newest report of its training loss.

    Attributes:
        step: None where its output names none; ``epoch`` likewise.
        loss: None: it is not a number, or infinite.
    """

    incarnation: int
    step: int | None
    epoch: float | None
    loss: float | None


class JobRow(msgspec.Struct, kw_only=True):
    """A job. Times are milliseconds, ``…_m`` millicores, ``growth`` is a share of the largest value; None is unknown.

    Attributes:
        steps: How far it is, in words: ``300/1000``, ``epoch 3/10``.
        what: The model, or the beginning of the command.
        command: Without what looks like a secret.
        deadline_ms: In what time from its submission it should end; ``due_in_ms`` counts from now.
        measured: Whether its growth was measured, so that ``category`` means something.
        user: Who submitted it; empty: that is not known.
        gpus: The ids of its GPUs, by node; without those that its nodes' adapter does not say.
        params: Its values in the command, by name, which tell it from the others of its array.
        rises: Whether its metric is better when it is larger.
        rungs: Its value at each rung that it has reached, by the rung's number; None: it was not finite.
        at_rung: Whether it waits at its rung.
        held: Whether it is kept from starting, or was suspended, until it is released.
        limited: Whether a limit was ever planned for this incarnation.
        findings: What is wrong with it, a sentence for each kind.
        goal_reached: The part of its goal because of which it was stopped, in words; empty: none.
        cpu_ms_saved: CPU time that it still needed then up to its announced end.
    """

    step: int | None
    steps_total: int | None
    steps: str
    epoch: float | None
    epochs_total: float | None
    loss: float | None
    cpu_ms: int | None
    cpu_ms_left: int | None
    remaining_ms: TimeLeft | None
    job: str
    model: str
    what: str
    command: tuple[str, ...]
    admitted: bool
    phase: str
    outcome: str | None
    node: str | None
    nodes: tuple[str, ...]
    gpus: dict[str, tuple[int, ...]]
    incarnation: int
    alive: bool
    category: Category
    measured: bool
    growth: float | None
    unknown: bool
    limited: bool
    limit_m: int | None
    limit_planned_m: int | None
    growth_list: GrowthList | None
    moves: int
    moves_failed: int
    steps_lost: int
    retries_used: int
    retries: int
    checkpoint_mode: str
    checkpoint_step: int | None
    exit_status: int | None
    reason: str
    findings: dict[str, str]
    goal_reached: str
    cpu_ms_saved: int | None
    plan: str | None
    cpu_m: int
    memory_mib: int
    submitted_ms: int
    ended_ms: int | None
    waited_ms: int
    waited_total_ms: int
    preemptions: int
    deadline_ms: int | None
    due_in_ms: int | None
    queue: str
    user: str
    array: str
    params: dict[str, str]
    rises: bool
    rungs: dict[int, float | None]
    at_rung: bool
    held: bool
    priority: int
    priority_class: str
    queue_position: int | None
    queue_length: int | None
    waits_for: str | None
    waits_because: str
    start_expected_ms: int | None
    running_ms: int | None


def job_row(
    pool: PoolMoment, job: Job, progress: NewestReport | None = None, standing: Standing | None = None
) -> JobRow:
    """A job's row.

    Args:
        pool: What the job is in.
        job: The job.
        progress: Its newest report, where one is known that is newer than the pool's facts.
        standing: Its position in the queue, if it waits.
    """
    stopped, limit, command = pool.has_stopped(job), job.limit, masked_command(job.spec.command)
    return JobRow(
        step=progress.step if progress else job.progress.step,
        steps_total=shown_total(job),
        steps=steps(job, progress.step, progress.epoch) if progress else steps(job),
        epoch=job.progress.epoch,
        epochs_total=job.progress.epochs,
        loss=progress.loss if progress else job.progress.loss,
        cpu_ms=job.progress.cpu_ms,
        cpu_ms_left=cpu_ms_left(job),
        remaining_ms=None if stopped else remaining(pool.view, job, pool.now_ms),
        job=job.name,
        model=job.spec.model,
        what=_what(job.spec.model, command),
        command=command,
        admitted=job.admitted,
        phase=Phase.STOPPED if stopped else job.phase,
        outcome=job.outcome,
        node=job.node,
        nodes=tuple(dict.fromkeys(job.nodes)),
        gpus={node: gpus for node in dict.fromkeys(job.nodes) if (gpus := gpus_on(job, node))},
        incarnation=job.incarnation,
        alive=job.alive and not stopped,
        category=job.category,
        measured=job.measured,
        growth=job.growth,
        unknown=job.unknown,
        limited=limit is not None,
        limit_m=limit.in_force_m if limit else None,
        limit_planned_m=limit.cpu_m if limit else None,
        growth_list=limit.growth_list if limit else None,
        moves=job.moves,
        moves_failed=job.moves_failed,
        steps_lost=job.steps_lost,
        retries_used=job.retries_used,
        retries=job.spec.retries,
        checkpoint_mode=job.mode,
        checkpoint_step=checkpoint_step(job),
        exit_status=job.exit_status,
        reason=job.stop_reason or job.mode_reason,
        findings={kind.value: found.why for kind, found in job.findings.items()},
        goal_reached=job.goal_reached,
        cpu_ms_saved=job.cpu_ms_saved,
        plan=job.plan,
        cpu_m=job.spec.chief_requests.cpu_m,
        memory_mib=job.spec.chief_requests.memory_mib,
        submitted_ms=job.submitted_ms,
        ended_ms=job.ended_ms,
        waited_ms=waited_ms(job, pool.now_ms),
        waited_total_ms=waited_total_ms(pool, job),
        preemptions=job.suspensions,
        deadline_ms=job.spec.deadline_ms,
        due_in_ms=_due_in_ms(job, pool.now_ms),
        queue=job.spec.queue,
        user=job.user,
        array=job.spec.array,
        params=job.spec.params,
        rises=rising.rises(job.spec.metric),
        rungs=job.trial.values,
        at_rung=job.hold is Hold.RUNG,
        held=bool(job.hold),
        priority=job.spec.priority,
        priority_class=job.spec.priority_class,
        queue_position=standing.position if standing else None,
        queue_length=standing.waiting if standing else None,
        waits_for=standing.waits_for if standing else None,
        waits_because=standing.reason if standing else "",
        start_expected_ms=standing.start_ms if standing else None,
        running_ms=running_ms(job, pool.view.counted_ms),
    )


def waited_ms(job: Job, now_ms: int) -> int:
    """How long a job waited for its first place."""
    until = next(at for at in (job.first_placed_ms, job.ended_ms, now_ms) if at is not None)
    return max(0, until - job.submitted_ms)


def waited_total_ms(pool: PoolMoment, job: Job) -> int:
    """How long it held no place, before its first one and after it lost one. Times in which the log was away count."""
    held_ms = running_ms(job, pool.view.counted_ms) or 0
    return max(0, (pool.now_ms if job.ended_ms is None else job.ended_ms) - job.submitted_ms - held_ms)


def running_ms(job: Job, counted_ms: int) -> int | None:
    """How long it has held a place, without the time in which the log was away; None before its first place."""
    if job.first_placed_ms is None:
        return None
    return job.held_ms + (counted_ms - job.started_counted_ms if job.phase is Phase.RUNNING else 0)


def _due_in_ms(job: Job, now_ms: int) -> int | None:
    return None if job.spec.deadline_ms is None else job.submitted_ms + job.spec.deadline_ms - now_ms


def _what(model: str, command: tuple[str, ...]) -> str:
    program = [word.rpartition("/")[2] for word in command[:1]]
    text = model or shlex.join((*program, *(word[:WHAT_LETTERS] for word in command[1:9])))
    return text if len(text) <= WHAT_LETTERS else f"{text[: WHAT_LETTERS - 1]}…"


def prints_no_more(view: ClusterView, job: str, incarnation: int | None) -> bool:
    """Whether nothing more will be printed by a job, or by one incarnation of it, as far as its pool is known."""
    found = view.jobs.get(job)
    if found is None or found.outcome is not None:
        return True
    newer = incarnation is not None and found.incarnation > incarnation
    return newer or (found.incarnation == incarnation and not found.alive and found.stopped_incarnation == incarnation)
