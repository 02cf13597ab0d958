"""How a plan moves on, step by step, until it is done or has failed.

Rules: all that moves a plan lives in this file; what follows from a step's result is in :data:`MOVES`; and the file
does not know who carries a plan out. Which plans are valid is in :mod:`steepest.view.validity`.

Theory. A valid plan is *in flight* from its record to the event that concludes it. Each of its steps is *due*, then *begun*
(``StepBegun``), then has a result. ``attempt`` numbers the beginnings: a step that is begun again, after a failure or
because its executor is gone, outdates all that its earlier beginning may still report.

A step's result is its outcome and the condition that decides what follows (:class:`Result`). A step whose effect is unclear
is due again after a hold, for as long as it takes. A step that surely had no effect is tried ``tries`` times; its failure's
code may say that another try cannot help (:data:`FAILURES`). A cancel is never given up while its job may run. A plan
that is given up fails, except a migration that has stopped its job: it turns *back*, and starts the job again at its
source. At DONE or FAILED, the plan waits only for the event that concludes it.

A job that ends by itself or is cancelled *dooms* its plan: the plan is abandoned as soon as no step is under way, and no
further step may begin. Only a START whose effect is unclear is begun again first, or a process might run unnoticed.
STOP is the step that cannot be undone; before it, a migration that fails leaves its job as it was.

A suspension ends where a move would start its job again: it checkpoints, stops and is done. A gang is scaled or moved as a
job of one replica is migrated, with all its replicas in each step; the way back starts as many as there were. A START that
definitely failed has left no replica running, and its incarnation is not used again. Where surplus replicas leave, STOP is
of these alone, and the only step: the others train on in the same incarnation. A replica that was to stay and ends before
that dooms the plan.

A plan that names others which make room for it *waits* until they are over: no step of it begins before.

Where an operator declares that a node is gone for good, a plan that has nowhere else to go is over; a migration loses that
node from its ``sources`` or ``targets``, and goes on or back with the other one.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from steepest.events.cluster import Step, StepBegun, StepFailure
from steepest.events.common import CheckpointMode
from steepest.events.parameters import MoveLimits
from steepest.view.refusal import Refusal
from steepest.view.state import CLEARING, Heading, Job, Plan, PlanKind, PlanStatus

RETRY_HOLD_MS = 1_000
"""Counted time before a step whose effect is unclear is begun again; doubles up to 32 times this."""


class Stage(enum.StrEnum):
    """Where a plan in flight stands: at a step, at a step of the way back, or at its end."""

    CHECKPOINT = "checkpoint"
    STOP = "stop"
    START = "start"
    VERIFY = "verify"
    START_BACK = "start_back"
    VERIFY_BACK = "verify_back"
    DONE = "done"
    FAILED = "failed"


class Result(enum.StrEnum):
    """The result of a step, and the condition that decides the next stage."""

    DONE = "done"
    DONE_TARGET_GONE = "done, target gone"  # an operator declared its node gone
    UNCLEAR = "unclear"
    RETRY = "failed, tries left"
    FAILED = "failed"  # for good
    FAILED_STOPPED = "failed, stopped"  # for good; the job has no process, and its source is there


class Doom(Refusal):
    """Why a plan must be given up as soon as no step is under way."""

    FINISHED = "finished", "the job finished"
    ENDED = "ended", "the job ended by itself"
    NODE_GONE = "node-gone", "node {node} is gone for good"
    CANCELLED = "cancelled", "cancelled"
    REPLICA_ENDED = "replica-ended", "replica {replica}, which was to stay, ended by itself"
    NO_ROOM_MADE = "no-room-made", "plan {plan}, which was to make room, has left too little"


class Meaning(enum.StrEnum):
    """What the code of a definite failure says."""

    PASSING = "passing"  # another try may help
    FINAL = "final"  # no other try can help
    NOT_RUNNING = "not running"  # likewise, because the incarnation surely does not run


FAILURES: Mapping[str, Meaning] = {
    StepFailure.ENDED: Meaning.NOT_RUNNING,
    StepFailure.UNKNOWN_INCARNATION: Meaning.NOT_RUNNING,
    StepFailure.NO_SUCH_PROGRAM: Meaning.FINAL,
    StepFailure.STALE_INCARNATION: Meaning.FINAL,
    StepFailure.UNKNOWN_NODE: Meaning.FINAL,
    StepFailure.STEP_TIMEOUT: Meaning.FINAL,
}
"""Meaning of each code; every other code is ``PASSING``."""

BEGINNINGS: Mapping[tuple[PlanKind, CheckpointMode | None], Stage] = {
    (PlanKind.PLACE, None): Stage.START,
    (PlanKind.MIGRATE, CheckpointMode.ON_REQUEST): Stage.CHECKPOINT,
    (PlanKind.MIGRATE, CheckpointMode.SYSTEM): Stage.CHECKPOINT,
    (PlanKind.MIGRATE, CheckpointMode.ON_STOP): Stage.STOP,
    (PlanKind.SUSPEND, CheckpointMode.ON_REQUEST): Stage.CHECKPOINT,
    (PlanKind.SUSPEND, CheckpointMode.SYSTEM): Stage.CHECKPOINT,
    (PlanKind.SUSPEND, CheckpointMode.ON_STOP): Stage.STOP,
    (PlanKind.SCALE, CheckpointMode.ON_REQUEST): Stage.CHECKPOINT,
    (PlanKind.SCALE, CheckpointMode.SYSTEM): Stage.CHECKPOINT,
    (PlanKind.SCALE, CheckpointMode.ON_STOP): Stage.STOP,
    (PlanKind.MOVE, CheckpointMode.ON_REQUEST): Stage.CHECKPOINT,
    (PlanKind.MOVE, CheckpointMode.SYSTEM): Stage.CHECKPOINT,
    (PlanKind.MOVE, CheckpointMode.ON_STOP): Stage.STOP,
    (PlanKind.SHED, None): Stage.STOP,
    (PlanKind.CANCEL, None): Stage.STOP,
    (PlanKind.CLEAR, None): Stage.STOP,
}
"""Where a plan begins; one that saves its job by how the job saves."""

MOVE_STEPS: Mapping[Stage, Mapping[Result, Stage]] = {
    Stage.CHECKPOINT: {
        Result.DONE: Stage.STOP,
        Result.DONE_TARGET_GONE: Stage.STOP,
        Result.UNCLEAR: Stage.CHECKPOINT,
        Result.RETRY: Stage.CHECKPOINT,
        Result.FAILED: Stage.FAILED,
        Result.FAILED_STOPPED: Stage.FAILED,
    },
    Stage.STOP: {
        Result.DONE: Stage.START,
        Result.DONE_TARGET_GONE: Stage.START_BACK,
        Result.UNCLEAR: Stage.STOP,
        Result.RETRY: Stage.STOP,
        Result.FAILED: Stage.FAILED,
        Result.FAILED_STOPPED: Stage.FAILED,
    },
    Stage.START: {
        Result.DONE: Stage.VERIFY,
        Result.DONE_TARGET_GONE: Stage.VERIFY,
        Result.UNCLEAR: Stage.START,
        Result.RETRY: Stage.START,
        Result.FAILED: Stage.FAILED,
        Result.FAILED_STOPPED: Stage.START_BACK,
    },
    Stage.VERIFY: {
        Result.DONE: Stage.DONE,
        Result.DONE_TARGET_GONE: Stage.DONE,
        Result.UNCLEAR: Stage.VERIFY,
        Result.RETRY: Stage.VERIFY,
        Result.FAILED: Stage.FAILED,
        Result.FAILED_STOPPED: Stage.START_BACK,
    },
    Stage.START_BACK: {
        Result.DONE: Stage.VERIFY_BACK,
        Result.DONE_TARGET_GONE: Stage.VERIFY_BACK,
        Result.UNCLEAR: Stage.START_BACK,
        Result.RETRY: Stage.START_BACK,
        Result.FAILED: Stage.FAILED,
        Result.FAILED_STOPPED: Stage.FAILED,
    },
    Stage.VERIFY_BACK: {
        Result.DONE: Stage.FAILED,
        Result.DONE_TARGET_GONE: Stage.FAILED,
        Result.UNCLEAR: Stage.VERIFY_BACK,
        Result.RETRY: Stage.VERIFY_BACK,
        Result.FAILED: Stage.FAILED,
        Result.FAILED_STOPPED: Stage.FAILED,
    },
}
"""The steps of a plan that stops a job and starts it again."""

STOP_STEPS: Mapping[Stage, Mapping[Result, Stage]] = {
    Stage.STOP: {
        Result.DONE: Stage.DONE,
        Result.DONE_TARGET_GONE: Stage.DONE,
        Result.UNCLEAR: Stage.STOP,
        Result.RETRY: Stage.STOP,
        Result.FAILED: Stage.FAILED,
        Result.FAILED_STOPPED: Stage.FAILED,
    },
}
"""The steps of a plan that stops a job, or a part of it, for good."""

MOVES: Mapping[PlanKind, Mapping[Stage, Mapping[Result, Stage]]] = {
    PlanKind.PLACE: {
        Stage.START: {
            Result.DONE: Stage.DONE,
            Result.DONE_TARGET_GONE: Stage.DONE,
            Result.UNCLEAR: Stage.START,
            Result.RETRY: Stage.START,
            Result.FAILED: Stage.FAILED,
            Result.FAILED_STOPPED: Stage.FAILED,
        },
    },
    PlanKind.MIGRATE: MOVE_STEPS,
    PlanKind.SUSPEND: {
        Stage.CHECKPOINT: MOVE_STEPS[Stage.CHECKPOINT],
        Stage.STOP: STOP_STEPS[Stage.STOP],
    },
    PlanKind.SCALE: MOVE_STEPS,
    PlanKind.MOVE: MOVE_STEPS,
    PlanKind.SHED: STOP_STEPS,
    PlanKind.CANCEL: STOP_STEPS,
    PlanKind.CLEAR: STOP_STEPS,
}
"""Kind of plan → stage → result of its step → the stage that is due then. Every stage has every result."""

BEFORE_STOP = (Stage.CHECKPOINT, Stage.STOP)
"""Stages of a plan whose job still runs where it was."""

AT: Mapping[Stage, tuple[Heading, Step | None]] = {
    Stage.CHECKPOINT: (Heading.FORWARD, Step.CHECKPOINT),
    Stage.STOP: (Heading.FORWARD, Step.STOP),
    Stage.START: (Heading.FORWARD, Step.START),
    Stage.VERIFY: (Heading.FORWARD, Step.VERIFY),
    Stage.START_BACK: (Heading.BACK, Step.START),
    Stage.VERIFY_BACK: (Heading.BACK, Step.VERIFY),
    Stage.DONE: (Heading.DONE, None),
    Stage.FAILED: (Heading.FAILED, None),
}
"""A plan's ``heading`` and ``step`` at each stage."""

UNSAVED = frozenset({PlanKind.PLACE, PlanKind.SHED, *CLEARING})
"""The kinds of plans that ask for no checkpoint."""

_STAGES: Mapping[tuple[Heading, Step | None], Stage] = {at: stage for stage, at in AT.items()}


def _steps_from(kind: PlanKind, stage: Stage) -> tuple[Step, ...]:
    heading, step = AT[stage]
    if step is None:
        return ()
    after = MOVES[kind][stage][Result.DONE]
    return (step, *(_steps_from(kind, after) if AT[after][0] is heading else ()))


_STEPS: Mapping[tuple[PlanKind, Stage], tuple[Step, ...]] = {
    (kind, stage): _steps_from(kind, stage)
    for kind, moves in MOVES.items()
    for stage in (*moves, Stage.DONE, Stage.FAILED)
}
"""The steps that are left at a stage, as far as its heading goes."""


# --- where a plan stands ----------------------------------------------------------------------------------------------


def begin_walk(plan: Plan, mode: CheckpointMode) -> None:
    """Put a new plan at its first step."""
    _enter(plan, BEGINNINGS[plan.kind, None if plan.kind in UNSAVED else mode])


def turn_back(plan: Plan) -> None:
    """Turn a plan back: its job is stopped, cannot continue at its target, and is started again at its source."""
    _enter(plan, Stage.START_BACK)


def stage_of(plan: Plan) -> Stage:
    """The stage of a plan."""
    return _STAGES[plan.heading, plan.step]


def _enter(plan: Plan, stage: Stage) -> None:
    _stand(plan, stage)
    plan.begun = False
    plan.failures = plan.unclear = plan.not_before_counted_ms = 0


def _stand(plan: Plan, stage: Stage) -> None:
    plan.heading, plan.steps = AT[stage][0], _STEPS[plan.kind, stage]
    if stage is Stage.START_BACK:
        plan.next_incarnation = 0


# --- beginnings -------------------------------------------------------------------------------------------------------


def may_begin(plan: Plan, event: StepBegun, job: Job) -> bool:
    """Whether a ``StepBegun`` counts where it stands: the plan still holds, and it is the next beginning."""
    return (
        plan.status is PlanStatus.IN_FLIGHT
        and event.step is plan.step
        and event.attempt == plan.attempt + 1
        and not plan.waits
        # A step under way may always be begun again: what it has done must be known before the plan is given up.
        and (plan.begun or not must_give_up(plan, job))
        and _acts_on_the_right_one(plan, event, job)
    )


def _acts_on_the_right_one(plan: Plan, event: StepBegun, job: Job) -> bool:
    if event.step is not Step.START:
        return event.incarnation == job.incarnation
    if event.nodes and event.nodes != plan.destinations:
        return False
    return event.incarnation == incarnation_to_start(plan, job) and event.node == plan.destination


def must_give_up(plan: Plan, job: Job) -> str | None:
    """Why no further step of the plan may begin, as the sentence of a :class:`Doom`; None if one may."""
    if plan.kind in CLEARING or (plan.unclear and plan.step is Step.START):
        return None
    return plan.doomed or (Doom.CANCELLED.sentence if job.cancel else None)


def incarnation_to_start(plan: Plan, job: Job) -> int:
    """The number that the plan's START gives: one more than any before, and the same again for a repeated attempt."""
    # An unclear START is repeated under its own number, because the cluster starts an incarnation at most once.
    return plan.next_incarnation or job.incarnation + 1


def begun(plan: Plan, event: StepBegun) -> None:
    """A step begins."""
    plan.begun = True
    plan.attempt = event.attempt
    if event.step is Step.START:
        plan.next_incarnation = event.incarnation


# --- results ----------------------------------------------------------------------------------------------------------


def counts(plan: Plan | None, step: Step, attempt: int) -> bool:
    """Whether an outcome is the first one of the newest beginning of the step that is under way."""
    return (
        plan is not None
        and plan.status is PlanStatus.IN_FLIGHT
        and plan.begun
        and plan.step is step
        and plan.attempt == attempt
    )


def step_done(plan: Plan) -> None:
    """The step under way is done: the next one is due."""
    result = Result.DONE if plan.targets or plan.kind is PlanKind.SUSPEND else Result.DONE_TARGET_GONE
    _enter(plan, MOVES[plan.kind][stage_of(plan)][result])


def step_failed(plan: Plan, job: Job, *, definite: bool, code: str, message: str, now: int, limits: MoveLimits) -> None:
    """The step under way failed: it is due again, or given up."""
    plan.begun = False
    if definite:
        if plan.step is Step.START and job.spec.is_gang:
            plan.next_incarnation = 0  # some replicas of it may have run
        # A definite answer also settles what the beginnings before it left unclear.
        plan.unclear = 0
        plan.failures += 1
        result = _failed(plan, job, meaning_of(code), limits)
    else:
        plan.unclear += 1
        result = Result.UNCLEAR
    stage = stage_of(plan)
    after = MOVES[plan.kind][stage][result]
    if after is stage:
        _hold(plan, result, now)
        return
    plan.code, plan.message = code, message
    if after is Stage.FAILED:
        _stand(plan, after)  # its failures are kept
    else:
        _enter(plan, after)


def meaning_of(code: str) -> Meaning:
    """What the code of a definite failure says."""
    return FAILURES.get(code, Meaning.PASSING)


def _failed(plan: Plan, job: Job, meaning: Meaning, limits: MoveLimits) -> Result:
    if plan.kind in CLEARING:
        is_tried_again = meaning is not Meaning.NOT_RUNNING
    else:
        is_tried_again = meaning is Meaning.PASSING and plan.failures < limits.tries
    if is_tried_again:
        return Result.RETRY
    return Result.FAILED_STOPPED if plan.sources and not job.alive else Result.FAILED


def _hold(plan: Plan, result: Result, now: int) -> None:
    """Let a step that is due again wait; one that is given up after ``tries`` failures need not."""
    if result is Result.UNCLEAR or plan.kind in CLEARING:
        failures = plan.unclear or plan.failures
        plan.not_before_counted_ms = now + int(RETRY_HOLD_MS * 2 ** min(failures - 1, 5))
