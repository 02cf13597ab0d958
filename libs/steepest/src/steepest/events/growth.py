"""What follows from a job's losses: how much it still learns, its category, that it asks for another place, its goal."""

from __future__ import annotations

import enum

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
