"""The outcomes of requests and plans."""

from __future__ import annotations

import enum

import msgspec

from steepest.events.common import CheckpointRef, Count, ExitStatus, Millis, Name, Positive, Text


class JobAdmitted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job may wait for a place."""

    job: Name
    request: Text


class JobRejected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job is rejected, with the reason."""

    job: Name
    request: Text
    reason: Text


class Step(enum.StrEnum):
    """The steps of a plan that act on the cluster. STOP is the one that cannot be undone."""

    CHECKPOINT = "checkpoint"
    STOP = "stop"
    START = "start"
    VERIFY = "verify"


class ReplicaAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of one replica of a gang to a step.

    Attributes:
        code: Why the step failed for it; empty where it did not.
        definite: Whether that failure surely had no effect.
        exit_status: How its process ended, where the step stopped it.
        step: The last step that it reported.
    """

    replica: Count
    code: Text = ""
    definite: bool = True
    exit_status: ExitStatus | None = None
    step: Count | None = None


class StepBegun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A step is about to be acted on, but only after this is read back, and only if the plan still holds there.

    Attributes:
        attempt: Rises with each beginning within the plan; an outcome of an earlier one no longer counts.
        incarnation: The incarnation that is acted on, or started.
        node: The node that is acted on; of a gang, that of replica 0.
        nodes: Of a gang, the node of each replica; empty for a job of one replica.
    """

    plan: Text
    step: Step
    attempt: Count
    job: Name
    incarnation: Count
    node: Name
    nodes: tuple[Name, ...] = ()


class StepFailure(enum.StrEnum):
    """Codes of failed steps that decide what follows; clusters have others, which only describe."""

    ENDED = "ended"
    UNKNOWN_INCARNATION = "unknown-incarnation"
    NO_SUCH_PROGRAM = "no-such-program"
    NO_SUCH_JOB = "no-such-job"
    CHECKPOINT_REFUSED = "checkpoint-refused"
    STALE_INCARNATION = "stale-incarnation"
    UNKNOWN_NODE = "unknown-node"
    STEP_TIMEOUT = "step-timeout"


class StepFailed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A step failed.

    Attributes:
        definite: It definitely had no effect; of a gang's START and VERIFY: no replica runs because of it.
        replicas: Of a gang, what each replica answered that was asked.
    """

    plan: Text
    step: Step
    attempt: Count
    job: Name
    code: Text
    definite: bool
    message: Text
    replicas: tuple[ReplicaAnswer, ...] = ()


class CheckpointSaved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The process saved and waits for its stop. ``replica``: the one of a gang that saves for all."""

    plan: Text
    attempt: Count
    job: Name
    incarnation: Count
    checkpoint: CheckpointRef
    replica: Count = 0


class JobStopped(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The incarnation was stopped for the plan, or had ended before.

    Attributes:
        exit_status: Of a gang, that of replica 0.
        replicas: Of a gang, how each replica ended that was stopped.
    """

    plan: Text
    attempt: Count
    job: Name
    incarnation: Count
    exit_status: ExitStatus | None = None
    step: Count | None = None
    checkpoint: CheckpointRef | None = None
    replicas: tuple[ReplicaAnswer, ...] = ()


class SurplusStopped(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The surplus replicas of a gang were stopped for the plan, or had ended before; the others train on.

    Attributes:
        replicas: How each of those ended that were stopped.
    """

    plan: Text
    attempt: Count
    job: Name
    incarnation: Count
    replicas: tuple[ReplicaAnswer, ...] = ()


class JobPlaced(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The incarnation was accepted by its node, to resume from ``restore``.

    Attributes:
        node: Of a gang, the node of replica 0.
        nodes: Of a gang, the node of each replica: all of them were accepted.
        sizes: Of a gang, how many replicas of each role these are.
    """

    plan: Text
    attempt: Count
    job: Name
    incarnation: Count
    node: Name
    restore: CheckpointRef | None = None
    nodes: tuple[Name, ...] = ()
    sizes: tuple[Count, ...] = ()


class JobResumed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The incarnation reported its first step (or, where it never reports, runs)."""

    plan: Text
    attempt: Count
    job: Name
    incarnation: Count
    step: Count | None = None


class MigrationFinished(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The move is done.

    Attributes:
        steps_lost: Steps that the job has to do again.
        took_ms: From the plan to the first step at the new place.
        paused_ms: From the stop of the process to the first step at the new place.
    """

    plan: Text
    job: Name
    target: Name
    steps_lost: Count
    took_ms: Millis
    paused_ms: Millis


class MigrationFailed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The move failed; the job runs where it was, or waits for a place (``node`` None)."""

    plan: Text
    job: Name
    code: Text
    message: Text
    node: Name | None = None
    steps_lost: Count = 0


class JobSuspended(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The suspension is done: no process of the job is left, it holds nothing, and waits to be resumed.

    Attributes:
        step: The step of the checkpoint that it will resume from; 0: it will start from its beginning.
        steps_lost: Steps that the job has to do again.
        took_ms: From the plan to the end of the last process.
    """

    plan: Text
    job: Name
    step: Count = 0
    steps_lost: Count = 0
    took_ms: Millis = 0


class TransitionFinished(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job was scaled, or moved whole.

    Attributes:
        nodes: The node of each replica.
        sizes: How many replicas of each role there are; empty: as many as its roles name.
        steps_lost: Steps that the job has to do again.
        took_ms: From the plan to the first step at the new place.
        paused_ms: From the stop of the processes to the first step at the new place.
    """

    plan: Text
    job: Name
    nodes: tuple[Name, ...]
    sizes: tuple[Count, ...] = ()
    steps_lost: Count = 0
    took_ms: Millis = 0
    paused_ms: Millis = 0


class TransitionFailed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The transition failed: the job runs, or waits for a place.

    Attributes:
        nodes: The node of each replica that runs; empty: none does.
        steps_lost: Steps that the job has to do again.
    """

    plan: Text
    job: Name
    code: Text
    message: Text
    nodes: tuple[Name, ...] = ()
    steps_lost: Count = 0


class PlanAbandoned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The plan is given up, and nothing is half done: its job ended or was cancelled, or it could not be placed."""

    plan: Text
    job: Name
    code: Text
    message: Text = ""


class LimitsApplied(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The engine accepted the limit that the plan has for this job: from here on it is in force."""

    plan: Text
    node: Name
    job: Name
    incarnation: Count
    cpu_m: Positive | None = None


class LimitsRefused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The engine refused the limit, with its answer. ``definite``: the limit definitely is unchanged."""

    plan: Text
    node: Name
    job: Name
    incarnation: Count
    code: Text
    definite: bool
    message: Text
