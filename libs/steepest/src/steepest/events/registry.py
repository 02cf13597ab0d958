"""The one registry of topics and events: who writes what, and how an event becomes bytes and back.

It owns the encoding (JSON, one spelling for each event, no NaN and no infinity) and must never know what an event does.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec

from steepest.errors import BugError, UndecodableError
from steepest.events import cluster as c
from steepest.events import heartbeat, loss
from steepest.events.dead_letter import DeadLetter

READS = 1
"""The event version that this code knows: raise it with every new event type on ``cluster`` and every new flag."""

SINCE: Mapping[type, int] = {}
"""The event version since which ``cluster`` may hold an event; 1 for all that are not named."""

E = TypeVar("E")


class Flag(msgspec.Struct, frozen=True):
    """A change of behaviour that ``PoolConfigured.flags`` switches on; where it is off, logs replay as they were decided.

    Attributes:
        says: What holds where it is on.
        since: The event version whose readers know it.
    """

    says: str
    since: int


FLAGS: Mapping[int, Flag] = {}
"""The behaviour flags that this code knows, by number.

Code asks ``view.has(NUMBER)``. A flag goes after two releases: the second release after the one that brought it keeps the
new behaviour alone, and refuses pools that have not switched it on. No number is used twice.
"""


class Topic(msgspec.Struct, Generic[E], frozen=True, kw_only=True, dict=True):
    """A topic.

    Attributes:
        key: What its records are keyed by, in words.
        writers: The services that write each event type, with commas between them.
        partitions: How many partitions it gets unless configured otherwise.
    """

    name: str
    key: str
    description: str
    events: Any
    writers: Mapping[type, str]
    partitions: int = 1

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[E]:
        """Made when it is first needed: that takes milliseconds, and a command reads few topics."""
        return msgspec.json.Decoder(self.events)

    @property
    def types(self) -> tuple[type, ...]:
        """The event types in the order of their definition."""
        return members(self.events)

    def decode(self, value: bytes) -> E:
        """Bytes to an event.

        Raises:
            UndecodableError: They are no event of this topic; the message says where and why. Its code is
                ``UNKNOWN_VALUE`` where all is as it should be up to a name that this version does not know.
        """
        try:
            return self.decoder.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            code = UNKNOWN_VALUE if str(error).startswith(UNKNOWN_NAMES) else None
            raise UndecodableError(f"no event of topic {self.name}: {error}", code=code) from error


UNKNOWN_VALUE = "unknown-value"
UNKNOWN_NAMES = ("Invalid enum value ", "Invalid value ")
"""How msgspec begins to say that a member of an enum, or the type of a struct, is none that it was given."""

_encoder = msgspec.json.Encoder(order="deterministic")


def encode(event: msgspec.Struct) -> bytes:
    """An event to its only spelling.

    Raises:
        BugError: It holds a NaN or an infinity, which no topic may carry.
    """
    value = _encoder.encode(event)
    if b"null" in value and _holds_unfinite(msgspec.to_builtins(event)):
        raise BugError(f"{type(event).__name__} holds a number that is not finite", code="not-finite")
    return value


def _holds_unfinite(value: object) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case dict():
            return any(_holds_unfinite(item) for item in value.values())
        case list() | tuple():
            return any(_holds_unfinite(item) for item in value)
    return False


def members(events: Any) -> tuple[type, ...]:
    """The types in a union of events, or the one event itself."""
    if isinstance(events, types.UnionType) or typing.get_origin(events) is typing.Union:
        return typing.get_args(events)
    return (events,)


def reads_for(flags: Iterable[int]) -> int:
    """The event version that a pool with these flags needs of its readers.

    A flag that this code does not know asks for nothing: it is refused by its number.
    """
    return max([1, *(FLAGS[flag].since for flag in flags if flag in FLAGS)])


def _topic(
    name: str, events: Any, *, key: str, description: str, writers: Mapping[str, tuple[type, ...]], partitions: int = 1
) -> Topic[Any]:
    return Topic(
        name=name,
        key=key,
        description=description,
        events=events,
        writers={event: writer for writer, wrote in writers.items() for event in wrote},
        partitions=partitions,
    )


CLUSTER: Topic[c.ClusterEvent] = _topic(
    "cluster",
    c.ClusterEvent,
    key="pool",
    description="Everything that is known about a pool, in one order.",
    writers={
        "operator": (c.LogOpened, c.PoolConfigured),
        "user": (c.JobSubmitted,),
        "user, placer": (c.JobChangeRequested,),
        "user, placer, trial-judge": (c.JobCancelRequested,),
        "worker-monitor": (
            c.Tick,
            c.NodeJoined,
            c.NodeLost,
            c.NodeUsage,
            c.ReplicaStarted,
            c.CheckpointModeDeclared,
            c.CheckpointVerified,
            c.TargetNotified,
        ),
        "worker-monitor, migrator": (c.ReplicaStopped,),
        "operator, migrator": (c.NodeGone,),
        "goal-watcher": (c.GoalReached,),
        "trial-judge": (c.TrialJudged,),
        "profiler": (c.EpochMeasured,),
        "predictor": (c.RunTimePredicted, c.OverheadPredicted, c.OverheadMeasured),
        "categorizer": (c.GrowthMeasured, c.RungReached, c.CategoryChanged, c.ReallocationRequested),
        "categorizer, watcher": (c.FindingOpened, c.FindingEnded),
        "user, watcher": (c.NodeDrainRequested,),
        "watcher": (c.ReactionPlanned,),
        "placer": (c.RetryPlanned, c.JobAdmitted, c.JobEnded),
        "placer, gang-scheduler, device-planner": (c.JobRejected,),
        "placer, gang-scheduler, device-planner, preemption-planner, steepest-planner": (c.PlacementPlanned,),
        "device-planner": (c.PromiseRevised,),
        "any planner": (c.TransitionPlanned,),
        "node-scorer": (c.StayDecided,),
        "user, watcher, steepest-planner, node-scorer, rebalancer": (c.MigrationPlanned,),
        "steepest-planner, limit-planner": (c.LimitsPlanned,),
        "resizer": (c.LimitsApplied, c.LimitsRefused),
        "migrator": (
            c.StepBegun,
            c.StepFailed,
            c.CheckpointSaved,
            c.JobStopped,
            c.SurplusStopped,
            c.JobPlaced,
            c.JobResumed,
            c.MigrationFinished,
            c.MigrationFailed,
            c.JobSuspended,
            c.TransitionFinished,
            c.TransitionFailed,
            c.PlanAbandoned,
        ),
    },
)

LOSS: Topic[loss.LossEvent | c.LogOpened] = _topic(
    "loss",
    loss.LossEvent | c.LogOpened,
    key="job",
    description="How training progresses: values of each job's evaluation function.",
    writers={
        "operator": (c.LogOpened,),
        "log-collector": (loss.JobWatched, loss.LossReported, loss.LossDiverged, loss.JobUnwatched),
    },
    partitions=4,
)

HEARTBEATS: Topic[heartbeat.HeartbeatEvent | c.LogOpened] = _topic(
    "heartbeats",
    heartbeat.HeartbeatEvent | c.LogOpened,
    key="node",
    description="Nodes are alive, with their capacity, their use and their replicas.",
    writers={"operator": (c.LogOpened,), "log-collector": (heartbeat.NodeHeartbeat,)},
)

DEAD_LETTERS: Topic[DeadLetter | c.LogOpened] = _topic(
    "dead-letters",
    DeadLetter | c.LogOpened,
    key="source topic",
    description="Records that could not be read, each with its reason.",
    writers={"operator": (c.LogOpened,), "any reader": (DeadLetter,)},
)

TOPICS: Mapping[str, Topic[Any]] = {topic.name: topic for topic in (CLUSTER, LOSS, HEARTBEATS, DEAD_LETTERS)}

BY_POOL = ("cluster", "heartbeats")
"""Topics that have a partition for each pool and do not hash their keys, so that a pool can be added at any time."""
