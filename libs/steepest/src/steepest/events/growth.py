"""What follows from a job's losses and use: its growth and category, its goal, and what is wrong with it."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from steepest.events.common import Count, Millis, Name, Text


class Category(enum.StrEnum):
    """SpeCon's three categories of a job, by the growth of its evaluation function (thesis §5.2.1)."""

    PROGRESSING = "PC"
    WATCHED = "WC"
    CONVERGED = "CC"


class GrowthMeasured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """An interval with reports has ended: its bucket, and its growth G = |E(t_i) − E(t_(i−1))|.

    Attributes:
        interval: Number of the interval since the first report, from 1.
        total: Sum of the values reported in it.
        count: How many values.
        largest: Largest magnitude so far, of all intervals of this evaluation function; under ``settled`` without spikes.
        first_ms: Time of its first report.
        last_ms: Time of its last report.
        growth: G by the parameters' normalisation, rounded to 9 digits; the first one is a baseline only.
        per_second: FlowCon's progress P_c: growth divided by the seconds between the two intervals' means.
        category: The job's category from here on.
        threshold: The α that ``per_second`` was compared with, where it is fitted to the job.
        metric: The evaluation function, in its first interval after another one; what was measured before is of that one.
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
    threshold: float | None = None
    metric: Text = ""


class CategoryChanged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job moved from one category to another (Algorithm 3, with lines 10–12 read as WC → CC)."""

    job: Name
    before: Category
    after: Category
    growth: float


class ReallocationRequested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A converged job still grows by less than α: it requests another place (Algorithm 3, last branch)."""

    job: Name
    growth: float
    interval: Count


class GoalReached(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A job has reached the goal that its user set: it is asked to save, and ends as finished.

    Attributes:
        reason: Which part of the goal, in words.
        value: The mean of the evaluation function in the newest interval.
        cpu_ms_saved: CPU time that it still needed up to its announced end; None: that is unknown.
    """

    job: Name
    incarnation: Count
    reason: Text
    value: float
    cpu_ms_saved: Millis | None = None


RungNumber = Annotated[int, msgspec.Meta(ge=0, le=63)]
"""The number of a rung; each is at least twice as far as the one before."""


class RungReached(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A trial has reached a rung; the ones that it passed between two reports are left out.

    Attributes:
        rung: Its number, from 0.
        at: Where it is, in the unit of :class:`~steepest.events.requests.Rungs`.
        value: The mean of the evaluation function over the last quarter of the way there, or the first value beyond. None:
            it is not finite.
    """

    job: Name
    incarnation: Count
    rung: RungNumber
    at: Count
    value: float | None = None


class TrialJudged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A trial goes on from its rung, or is saved and suspended until it may.

    Attributes:
        reason: Its rank among the trials that have reached the rung, in words.
    """

    job: Name
    rung: RungNumber
    goes_on: bool
    reason: Text


class FindingKind(enum.StrEnum):
    """What may be found. ``docs/watching.md`` has the rule of each, and how often it is wrong."""

    DIVERGED = "diverged"  # its training loss is not finite, or above its start for long
    LOST = "lost"  # it learned, and lost most of that
    STUCK = "stuck"  # it never learned
    PLATEAU = "plateau"  # it learned, and has not for long
    SPIKE = "spike"  # its loss is far above its own scale
    HUNG = "hung"  # it makes no step for much longer than it ever took
    IDLE = "idle"  # it holds its place and uses nothing
    UNREAD = "unread"  # it works, and nothing that it prints says how far it is
    SLOWED = "slowed"  # its steps take longer than they did
    STRAGGLER = "straggler"  # a replica of it computes longer than its peers, which wait for it
    GPU = "gpu"  # a GPU of it has failed


class Reaction(enum.StrEnum):
    """What to do about a finding."""

    NOTIFY = "notify"
    RESTART = "restart"  # from its newest checkpoint, or from before its loss went wrong; a few times
    SUSPEND = "suspend"  # saved and stopped, until its user lets it go on
    FAIL = "fail"


class Reactions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to do about a job that holds its place without effect; None: as the pool says.

    Attributes:
        diverged: A restart goes on from before that.
    """

    hung: Reaction | None = None
    diverged: Reaction | None = None
    idle: Reaction | None = None


class FindingOpened(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Something is wrong with a job, until ``FindingEnded`` or its next incarnation.

    Attributes:
        since: The step since when, for what is found in losses; None: no step is known.
        since_ms: The counted time since when, for what is found in use.
        why: A sentence for people, with the figures that they can check.
        figures: The rule's figures, by name: what was measured, and the bars that it passed.
    """

    job: Name
    incarnation: Count
    kind: FindingKind
    since: Count | None = None
    since_ms: Count | None = None
    why: Text
    figures: dict[str, float] = {}


class FindingEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """It is over: the job has recovered."""

    job: Name
    incarnation: Count
    kind: FindingKind
    why: Text


class TargetNotified(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A message about a finding was sent.

    Attributes:
        to: The target, by its name in the file of targets.
        over: Whether it says that the finding has ended.
    """

    job: Name
    incarnation: Count
    kind: FindingKind
    to: Name
    over: bool = False


class ReactionPlanned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job is stopped because of a finding, as its user or the pool has asked for.

    Attributes:
        restarts: Whether it waits for a place again afterwards; else it has failed.
        suspends: Whether it is saved and suspended instead, until its user lets it go on; it runs on if it cannot save.
        avoids: The node that is the cause, which it stays away from for a while; None: there is none.
    """

    job: Name
    incarnation: Count
    kind: FindingKind
    restarts: bool
    reason: Text
    suspends: bool = False
    avoids: Name | None = None
