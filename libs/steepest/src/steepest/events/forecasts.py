"""The measurements of a job's epochs, the predictions of its run time and of a preemption's cost, and promised ends.

All but the promises are PickyMan's events (Chen et al., IPCCC 2022). Only the abstract of the paper is public: they are a
reconstruction.
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from steepest.events.common import Count, Millis, Name, Positive, Text

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class EpochMeasured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """An incarnation has read its data set once more, as the traffic from the storage to its replicas shows.

    Attributes:
        epoch: Number of this epoch among those seen of the incarnation, from 1.
        epoch_ms: Length of the epoch, by the nodes' clocks, without pauses in which the job did not run.
        epoch_bytes: Bytes that all replicas read in it.
        read_bytes: Bytes that all replicas of the incarnation have read up to its end.
        ended_ms: When it ended, by the nodes' clocks.
        confidence: How sure it is that this is a whole epoch: 1 is certain.
        load_bytes: Bytes that the incarnation read before its first epoch (program, model, checkpoint); None: unknown.
        load_ms: Time from its start to the beginning of its first epoch; None: unknown.
    """

    job: Name
    incarnation: Count
    epoch: Positive
    epoch_ms: Positive
    epoch_bytes: Positive
    read_bytes: Count
    ended_ms: Millis
    confidence: Share = 1.0
    load_bytes: Count | None = None
    load_ms: Millis | None = None


class PredictionMethod(enum.StrEnum):
    """The basis of a prediction, the best first."""

    EPOCHS = "epochs"  # the incarnation's own epochs, and how many there will be
    TIME_MODEL = "time-model"  # the four-parameter model, fitted to profiles of the same model
    HISTORY = "history"  # the mean of the profiles of the same model, too few for the time model
    TOTALS = "totals"  # announced totals and the pace of the last minutes
    UNKNOWN = "unknown"  # nothing says how long it runs


class PredictedSpan(msgspec.Struct, frozen=True):
    """A predicted span of time in milliseconds: the middle estimate, and the interval that holds 80 % of the outcomes."""

    p50: Millis
    low: Millis
    high: Millis


class RunTimePredicted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """How long the job runs, without the time for which it waits. Written before it is placed, and when that changes.

    Attributes:
        incarnation: The job's newest incarnation; 0 before the first.
        total: Run time of the whole training; None where the method is ``unknown``.
        remaining: What is left of it from here on.
        model: The key of its profiles: the name of what is trained; empty where its user gives none.
        profiles: How many profiled jobs of that model the prediction uses.
        epochs: Epochs of the whole training, as far as they are known.
        epoch_ms: Predicted length of an epoch.
        load_ms: Predicted time from a start to the first step.
    """

    job: Name
    incarnation: Count
    method: PredictionMethod
    total: PredictedSpan | None = None
    remaining: PredictedSpan | None = None
    model: Text = ""
    profiles: Count = 0
    epochs: float | None = None
    epoch_ms: Positive | None = None
    load_ms: Millis | None = None


class Overhead(enum.StrEnum):
    """The two overheads of a preemption."""

    SUSPENSION = "suspension"  # from the request to save to the end of the last process
    RESUMPTION = "resumption"  # from the request to start to the first step


class OverheadMeasured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A suspension or a resumption is over: what it took, and what was predicted when it began.

    Attributes:
        plan: The plan that suspended or resumed the job.
        incarnation: The one that was stopped or started.
        predicted_ms: None where nothing was known to predict it from.
        readers: Jobs of the pool that were starting meanwhile, on average over that time, rounded, this one included;
            they share the storage's bandwidth.
    """

    plan: Text
    job: Name
    incarnation: Count
    kind: Overhead
    measured_ms: Millis
    predicted_ms: Millis | None = None
    readers: Count = 1


class OverheadPredicted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A suspension or a resumption begins: how long it will take.

    Attributes:
        plan: The plan that suspends or resumes the job.
        incarnation: The one that is stopped or started.
        predicted_ms: None where nothing is known to predict it from.
        readers: Jobs of the pool that are expected to start meanwhile, on average over that time, rounded, this one
            included.
        because: What the prediction was made from, in words.
    """

    plan: Text
    job: Name
    incarnation: Count
    kind: Overhead
    predicted_ms: Millis | None = None
    readers: Count = 1
    because: Text = ""


class GangAhead(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job that holds devices before one that waits; ``left_ms``: until its end as estimated; None: unknown."""

    job: Name
    left_ms: Millis | None = None


class PromiseRevised(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A job with devices is promised an end, for the first time or another one than before.

    Attributes:
        tier: How often it was put off so far.
        fair_in_ms: Until it would end under fair sharing of the devices; 0: it would have ended.
        due_in_ms: Until the end that it is promised; None: none is, any more.
        ahead: Some of those that hold devices before it, those first that end first; empty where it runs.
        reason: Why it was put off; empty where it was not.
    """

    job: Name
    tier: Count = 0
    fair_in_ms: Millis
    due_in_ms: Millis | None = None
    ahead: tuple[GangAhead, ...] = ()
    reason: Text = ""
