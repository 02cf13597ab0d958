"""Everything that anyone knows of a pool: the events of the ``cluster`` topic, keyed by pool, totally ordered.

An event's time is its record's. A decider stamps what it decides with the time of the record that made it decide.
Fields are only ever added, with defaults; :mod:`steepest.events.registry` names each event's only writer.
"""

from __future__ import annotations

import enum

import msgspec

from steepest.events.common import CheckpointMode, CheckpointRef, Count, Millis, Name, Resources, Text
from steepest.events.parameters import PoolParameters

# --- the log itself -------------------------------------------------------------------------------------------------


class LogOpened(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The first record of every partition: a random identity. Ids, positions and snapshots contain it."""

    epoch: Text


class PoolConfigured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """These parameters and behaviour flags are in force from here on.

    Attributes:
        reads: The lowest event version that a reader must know; one that knows less stops before this record.
        flags: Numbers of the behaviour changes that are switched on.
    """

    reads: Count = 1
    flags: tuple[int, ...] = ()
    parameters: PoolParameters = PoolParameters()


class Tick(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The pool's clock. ``counted_ms`` grows by at most two periods a tick, so an outage expires nothing."""

    counted_ms: Millis


# --- facts ----------------------------------------------------------------------------------------------------------


class NodeJoined(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A node is here with this capacity, or its capacity is another one now."""

    node: Name
    capacity: Resources


class NodeLost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A node was silent for too long. This frees nothing: its replicas may still run."""

    node: Name
    silent_ms: Millis


class NodeUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Measured use of a node; the resource use R(w, t) of SpeCon's Algorithm 4."""

    node: Name
    used: Resources
    jobs: dict[Name, Count] = {}
    """CPU of each job on the node, in millicores."""


class ReplicaStarted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A replica's process runs on this node."""

    job: Name
    replica: Count = 0
    incarnation: Count
    node: Name


class CheckpointModeDeclared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The process said how it can be checkpointed."""

    job: Name
    incarnation: Count
    mode: CheckpointMode


class CheckpointVerified(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The incarnation's first good checkpoint is on its job's volume: it has proven that it can save."""

    job: Name
    incarnation: Count
    checkpoint: CheckpointRef


class ReplicaStopped(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A replica's process surely does not run any more.

    Attributes:
        exit_status: 0–255 or minus the signal's number; None where nobody saw it.
        step: The last step it reported.
        checkpoint: The newest verified checkpoint on the job's volume.
    """

    job: Name
    replica: Count = 0
    incarnation: Count
    node: Name
    exit_status: int | None = None
    step: Count | None = None
    checkpoint: CheckpointRef | None = None
    reason: Text = ""


class Outcome(enum.StrEnum):
    """How a job ended."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job is over and holds nothing any more."""

    job: Name
    outcome: Outcome
    exit_status: int | None = None
    reason: Text = ""


# --- requests -------------------------------------------------------------------------------------------------------


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a user asks to run.

    Attributes:
        command: Program and arguments; no shell.
        working_dir: Where it runs.
        env: Variables added to its environment.
        requests: Reserved resources of each replica.
        replicas: How many processes; SpeCon's jobs have one.
        checkpoint_mode: What the user says; where None, what the process declares counts, else ``none``.
        retries: Failures after which it is started again.
        model: A name for people, of what is trained.
        metric: The evaluation function's name in the output.
        log_format: The format of its printed lines.
        first_node: Where to place it first (a paired comparison needs the same start); later moves are free.
    """

    command: tuple[str, ...]
    working_dir: str | None = None
    env: dict[str, str] = {}
    requests: Resources = Resources(cpu_m=50)
    replicas: Count = 1
    checkpoint_mode: CheckpointMode | None = None
    retries: Count = 0
    model: Text = ""
    metric: Text = "loss"
    log_format: Text = "auto"
    first_node: Name | None = None


class JobSubmitted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A user wants a job to run. ``request`` is made by the client, so that sending it twice submits once."""

    job: Name
    request: Text
    spec: JobSpec


class JobCancelRequested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A user wants a job to stop for good."""

    job: Name
    request: Text


# --- from the categorizer -------------------------------------------------------------------------------------------


class Category(enum.StrEnum):
    """SpeCon's three categories of a job, by the growth of its evaluation function (thesis §4.2)."""

    PROGRESSING = "PC"
    WATCHED = "WC"
    CONVERGED = "CC"


class GrowthMeasured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """An interval with reports has ended: its bucket, and its growth G = |E(t_i) − E(t_(i−1))|.

    Attributes:
        interval: Number of the interval since the first report, from 1.
        total: Sum of the values reported in it.
        count: How many values.
        largest: Largest magnitude so far, of all intervals.
        first_ms: Time of its first report.
        last_ms: Time of its last report.
        growth: G by the parameters' normalisation, rounded to 9 digits; None in the first interval of a job.
        per_second: FlowCon's progress P_c: growth divided by the seconds between the two intervals' means.
        category: The job's category from here on.
    """

    job: Name
    interval: Count
    total: float
    count: Count
    largest: float
    first_ms: Millis
    last_ms: Millis
    growth: float | None = None
    per_second: float | None = None
    category: Category


class CategoryChanged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job passed from one category to another (Algorithm 3, with lines 10–12 read as WC → CC)."""

    job: Name
    before: Category
    after: Category
    growth: float


class ReallocationRequested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A converged job still grows by less than α: it asks for another place (Algorithm 3, last branch)."""

    job: Name
    growth: float
    interval: Count


# --- plans ----------------------------------------------------------------------------------------------------------


class NodeScore(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node as a decision saw it: its score, what it used, how many replicas it had."""

    node: Name
    score: float
    used_cpu_m: Count = 0
    replicas: Count = 0
    rejected: Text = ""
    """Why the node was out of the question; empty where it was not."""


class Because(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a decision was made from, so that it can explain itself.

    Attributes:
        rule: The algorithm and branch that decided.
        nodes: The nodes looked at, best first; at most 16 of them.
        growing: |PC| + |WC| on the job's node, where the rule looks at it.
        balance_factor: bf of Algorithm 5, where the rule looks at it.
        converged_ms: Counted time since the job converged, where the rule looks at it.
    """

    rule: Text
    nodes: tuple[NodeScore, ...] = ()
    growing: Count | None = None
    balance_factor: Count | None = None
    converged_ms: Millis | None = None


class PlacementPlanned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Start a waiting job: ``nodes[i]`` is the node of replica i. ``incarnation`` is the one before it."""

    plan: Text
    job: Name
    incarnation: Count
    nodes: tuple[Name, ...]
    because: Because


class MoveKind(enum.StrEnum):
    """Which algorithm moves a job; a job is moved at most once by each."""

    REALLOCATION = "reallocation"  # Algorithm 4
    REBALANCE = "rebalance"  # Algorithm 5


class MigrationPlanned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Move one replica, checkpoint and all. ``incarnation`` is the one to be moved."""

    plan: Text
    job: Name
    replica: Count = 0
    incarnation: Count
    source: Name
    target: Name
    kind: MoveKind
    because: Because


class StayDecided(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job asked for another place, and its own is as good as any: it stays (Algorithm 4)."""

    job: Name
    incarnation: Count
    node: Name
    because: Because


class RetryPlanned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A job that stopped before it was done waits for a place again.

    Attributes:
        charged: Whether it counts against the job's retries.
        not_before_ms: Counted time before which it is not placed.
    """

    job: Name
    incarnation: Count
    charged: bool
    not_before_ms: Millis
    reason: Text


# --- outcomes -------------------------------------------------------------------------------------------------------


class JobAdmitted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job may wait for a place."""

    job: Name
    request: Text


class JobRejected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job is not taken, and why."""

    job: Name
    request: Text
    reason: Text


class Step(enum.StrEnum):
    """The steps of a plan that act on the cluster. STOP is the one that cannot be undone."""

    CHECKPOINT = "checkpoint"
    STOP = "stop"
    START = "start"
    VERIFY = "verify"


class StepBegun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A step is about to be acted on: only after this is read back, and only if the plan still holds there.

    Attributes:
        attempt: Rises with each beginning within the plan; an outcome of an earlier one counts no more.
        incarnation: The incarnation that is acted on, or started.
        node: The node that is acted on.
    """

    plan: Text
    step: Step
    attempt: Count
    job: Name
    incarnation: Count
    node: Name


class StepFailed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A step did not work. ``definite``: it surely had no effect."""

    plan: Text
    step: Step
    attempt: Count
    job: Name
    code: Text
    definite: bool
    message: Text


class CheckpointSaved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The process saved and waits for its stop."""

    plan: Text
    attempt: Count
    job: Name
    incarnation: Count
    checkpoint: CheckpointRef


class JobStopped(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The incarnation was stopped for the plan, or had ended before."""

    plan: Text
    attempt: Count
    job: Name
    incarnation: Count
    exit_status: int | None = None
    step: Count | None = None
    checkpoint: CheckpointRef | None = None


class JobPlaced(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The incarnation was accepted by its node, to resume from ``restore``."""

    plan: Text
    attempt: Count
    job: Name
    incarnation: Count
    node: Name
    restore: CheckpointRef | None = None


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
    """The move did not work out; the job runs where it was, or waits for a place (``node`` None)."""

    plan: Text
    job: Name
    code: Text
    message: Text
    node: Name | None = None
    steps_lost: Count = 0


class PlanAbandoned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The plan is given up, with nothing left half done: its job ended or was cancelled, or it could not be placed."""

    plan: Text
    job: Name
    code: Text
    message: Text = ""


ClusterEvent = (
    LogOpened
    | PoolConfigured
    | Tick
    | NodeJoined
    | NodeLost
    | NodeUsage
    | ReplicaStarted
    | CheckpointModeDeclared
    | CheckpointVerified
    | ReplicaStopped
    | JobEnded
    | JobSubmitted
    | JobCancelRequested
    | GrowthMeasured
    | CategoryChanged
    | ReallocationRequested
    | PlacementPlanned
    | MigrationPlanned
    | StayDecided
    | RetryPlanned
    | JobAdmitted
    | JobRejected
    | StepBegun
    | StepFailed
    | CheckpointSaved
    | JobStopped
    | JobPlaced
    | JobResumed
    | MigrationFinished
    | MigrationFailed
    | PlanAbandoned
)
"""Everything that may stand on ``cluster``."""
