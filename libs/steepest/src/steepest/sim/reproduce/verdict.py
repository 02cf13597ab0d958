"""What repetitions come to, and how that stands to a published figure.

The rule. Ours is the mean over the repetitions, with the 95 % confidence interval that Student's t gives. Published
figures are single runs, and the thesis prints one setting twice with −8.0 % and −3.2 %: five points lie between two runs
of the same thing. So a published figure is *within* if it lies in our interval widened at both ends by 5 points (where it
is a percentage), by 5 % of itself (seconds), or by 5 % of the jobs (a number of jobs). Otherwise ours is *better* or
*worse*: less time, a deeper cut and more jobs that gain are better. Of the default run, whose length our models were
chosen by, that says no more than how near the choice comes.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence

import msgspec
from scipy import stats

CONFIDENCE = 0.95
NOISE = 0.05
"""The share by which intervals are widened at each end."""

DIGITS = 6
"""Mathematical libraries differ in the last bits; a report must not."""


class Unit(enum.StrEnum):
    """What a figure is in."""

    SECONDS = "s"
    PERCENT = "%"
    JOBS = "jobs"


class Verdict(enum.StrEnum):
    """How ours stands to what was published."""

    WITHIN = "within"
    BETTER = "better"
    WORSE = "worse"
    UNPUBLISHED = "unpublished"  # there is nothing to compare with; ours is for information


class Estimate(msgspec.Struct, frozen=True):
    """A mean, its confidence interval, and the standard deviation of a single repetition."""

    mean: float
    low: float
    high: float
    deviation: float


def estimate(values: Sequence[float]) -> Estimate:
    """The estimate from some repetitions, at least one; a single one has no interval around it."""
    mean = statistics.fmean(values)
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    half = 0.0
    if deviation:
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
        half = quantile * deviation / math.sqrt(len(values))
    rounded = (round(value, DIGITS) + 0.0 for value in (mean, mean - half, mean + half, deviation))
    return Estimate(*rounded)


def slack(published: float, unit: Unit, jobs: int) -> float:
    """By how much the interval is widened at each end, in the figure's unit; ``jobs`` are those of the experiment."""
    match unit:
        case Unit.PERCENT:
            return 100 * NOISE
        case Unit.SECONDS:
            return abs(published) * NOISE
        case Unit.JOBS:
            return jobs * NOISE


def verdict(ours: Estimate, published: float | None, unit: Unit, jobs: int) -> Verdict:
    """How ours stands to a published figure; None: there is none."""
    if published is None:
        return Verdict.UNPUBLISHED
    wider = slack(published, unit, jobs)
    if ours.low - wider <= published <= ours.high + wider:
        return Verdict.WITHIN
    more_is_better = unit is Unit.JOBS
    return Verdict.BETTER if (ours.mean > published) == more_is_better else Verdict.WORSE
