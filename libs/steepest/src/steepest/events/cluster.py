"""Everything that anyone knows of a pool: the events of the ``cluster`` topic, keyed by pool, totally ordered.

An event's time is its record's. A decider stamps what it decides with the time of the record that made it decide.
Fields are only ever added, with defaults; :mod:`steepest.events.registry` names each event's writers. The events are
defined in a module per kind of writer, and this module exports all of them.
"""

from __future__ import annotations

from steepest.events.facts import (
    CheckpointModeDeclared,
    CheckpointVerified,
    FailedGpu,
    GpuUse,
    JobEnded,
    LogOpened,
    NodeGone,
    NodeJoined,
    NodeLost,
    NodeUsage,
    OtherUse,
    Outcome,
    PoolConfigured,
    ReplicaProgress,
    ReplicaStarted,
    ReplicaStopped,
    Tick,
)
from steepest.events.forecasts import (
    EpochMeasured,
    GangAhead,
    Overhead,
    OverheadMeasured,
    OverheadPredicted,
    PredictedSpan,
    PredictionMethod,
    PromiseRevised,
    RunTimePredicted,
)
from steepest.events.growth import (
    Category,
    CategoryChanged,
    FindingEnded,
    FindingKind,
    FindingOpened,
    GoalReached,
    GrowthMeasured,
    Reaction,
    ReactionPlanned,
    Reactions,
    ReallocationRequested,
    RungReached,
    TargetNotified,
    TrialJudged,
)
from steepest.events.outcomes import (
    CheckpointSaved,
    JobAdmitted,
    JobPlaced,
    JobRejected,
    JobResumed,
    JobStopped,
    JobSuspended,
    LimitsApplied,
    LimitsRefused,
    MigrationFailed,
    MigrationFinished,
    PlanAbandoned,
    ReplicaAnswer,
    Step,
    StepBegun,
    StepFailed,
    StepFailure,
    SurplusStopped,
    TransitionFailed,
    TransitionFinished,
)
from steepest.events.plans import (
    Because,
    FairStanding,
    GrowthList,
    GrowthSeen,
    JobLimit,
    LimitsBecause,
    LimitsPlanned,
    MigrationPlanned,
    MoveKind,
    MoveOption,
    NodeScore,
    PlacementPlanned,
    PreemptionSeen,
    RetryPlanned,
    StayDecided,
    Transition,
    TransitionPlanned,
    VictimSeen,
)
from steepest.events.requests import (
    Goal,
    Hold,
    JobCancelRequested,
    JobChangeRequested,
    JobSpec,
    JobSubmitted,
    NodeDrainRequested,
    Role,
    Rungs,
    SuccessRule,
)

ClusterEvent = (
    LogOpened
    | PoolConfigured
    | Tick
    | NodeJoined
    | NodeLost
    | NodeGone
    | NodeUsage
    | ReplicaStarted
    | CheckpointModeDeclared
    | CheckpointVerified
    | ReplicaStopped
    | JobEnded
    | JobSubmitted
    | JobCancelRequested
    | JobChangeRequested
    | NodeDrainRequested
    | GrowthMeasured
    | GoalReached
    | RungReached
    | TrialJudged
    | FindingOpened
    | FindingEnded
    | TargetNotified
    | ReactionPlanned
    | EpochMeasured
    | RunTimePredicted
    | OverheadPredicted
    | OverheadMeasured
    | CategoryChanged
    | ReallocationRequested
    | PlacementPlanned
    | MigrationPlanned
    | TransitionPlanned
    | PromiseRevised
    | StayDecided
    | RetryPlanned
    | JobAdmitted
    | JobRejected
    | StepBegun
    | StepFailed
    | CheckpointSaved
    | JobStopped
    | SurplusStopped
    | JobPlaced
    | JobResumed
    | MigrationFinished
    | MigrationFailed
    | JobSuspended
    | TransitionFinished
    | TransitionFailed
    | PlanAbandoned
    | LimitsPlanned
    | LimitsApplied
    | LimitsRefused
)
"""The events of ``cluster``."""

__all__ = [
    "Because",
    "Category",
    "CategoryChanged",
    "CheckpointModeDeclared",
    "CheckpointSaved",
    "CheckpointVerified",
    "ClusterEvent",
    "EpochMeasured",
    "FailedGpu",
    "FairStanding",
    "FindingEnded",
    "FindingKind",
    "FindingOpened",
    "GangAhead",
    "Goal",
    "GoalReached",
    "GpuUse",
    "GrowthList",
    "GrowthMeasured",
    "GrowthSeen",
    "Hold",
    "JobAdmitted",
    "JobCancelRequested",
    "JobChangeRequested",
    "JobEnded",
    "JobLimit",
    "JobPlaced",
    "JobRejected",
    "JobResumed",
    "JobSpec",
    "JobStopped",
    "JobSubmitted",
    "JobSuspended",
    "LimitsApplied",
    "LimitsBecause",
    "LimitsPlanned",
    "LimitsRefused",
    "LogOpened",
    "MigrationFailed",
    "MigrationFinished",
    "MigrationPlanned",
    "MoveKind",
    "MoveOption",
    "NodeDrainRequested",
    "NodeGone",
    "NodeJoined",
    "NodeLost",
    "NodeScore",
    "NodeUsage",
    "OtherUse",
    "Outcome",
    "Overhead",
    "OverheadMeasured",
    "OverheadPredicted",
    "PlacementPlanned",
    "PlanAbandoned",
    "PoolConfigured",
    "PredictedSpan",
    "PredictionMethod",
    "PreemptionSeen",
    "PromiseRevised",
    "Reaction",
    "ReactionPlanned",
    "Reactions",
    "ReallocationRequested",
    "ReplicaAnswer",
    "ReplicaProgress",
    "ReplicaStarted",
    "ReplicaStopped",
    "RetryPlanned",
    "Role",
    "RunTimePredicted",
    "RungReached",
    "Rungs",
    "StayDecided",
    "Step",
    "StepBegun",
    "StepFailed",
    "StepFailure",
    "SuccessRule",
    "SurplusStopped",
    "TargetNotified",
    "Tick",
    "Transition",
    "TransitionFailed",
    "TransitionFinished",
    "TransitionPlanned",
    "TrialJudged",
    "VictimSeen",
]
