"""The mean of some repetitions with its 95 % confidence interval, which is that of Student's t.

SciPy has the quantile too, but is an optional dependency, and a demo without pairs imports this module as well.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache

import msgspec

CONFIDENCE = 0.95

MOST_T = 16.0
"""No quantile is larger: with one degree of freedom it is 12.7."""

HALVINGS = 60
"""Of that range: then a float can hold no better one."""

DIGITS = 6
"""Mathematical libraries differ in the last bits; a report must not."""


class Estimate(msgspec.Struct, frozen=True):
    """A mean, its confidence interval, and the standard deviation of a single repetition."""

    mean: float
    low: float
    high: float
    deviation: float


def estimate(values: Sequence[float]) -> Estimate:
    """The estimate from some repetitions, at least one; the interval around a single one is infinite."""
    mean, half = statistics.fmean(values), half_width(values)
    if half is None:
        return Estimate(round(mean, DIGITS) + 0.0, -math.inf, math.inf, 0.0)
    rounded = (round(value, DIGITS) + 0.0 for value in (mean, mean - half, mean + half, statistics.stdev(values)))
    return Estimate(*rounded)


def half_width(values: Sequence[float]) -> float | None:
    """Half of the 95 % confidence interval of the mean of some values; None of a single one."""
    if len(values) < 2:  # noqa: PLR2004 - one value does not show how far it may be off
        return None
    return t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


@cache
def t_quantile(freedom: int) -> float:
    """The t that Student's distribution exceeds to either side, together, with a probability of 5 %.

    Args:
        freedom: Degrees of freedom, at least 1.
    """
    low, high = 0.0, MOST_T
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < CONFIDENCE else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """The probability of values from -t to t: a finite sum (Abramowitz & Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, odd = math.cos(angle), freedom % 2
    total, term = 0.0, cosine if odd else 1.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * cosine**2
    share = math.sin(angle) * total
    return 2 / math.pi * (angle + share) if odd else share
