"""Estimates from repetitions, and their verdicts against a published effect.

The rule. Ours is the mean over the repetitions, with the 95 % confidence interval that Student's t gives. What is judged is
an *effect*: a change by the policy, or a number of jobs beyond the half that a policy without effect would make faster. A
published effect is one run's. The two settings that the thesis prints twice (−8.0 and −3.2 %; −26.2 and −19.0 %) differ from
their mean by 43 and by 16 % of it, so a third of the published effect to either side counts as the same: the *band*.

* *within*: our whole interval lies in the band;
* *inconclusive*: it reaches into the band and out of it, as any interval does that is wider than the effect;
* otherwise they differ. *Opposite*: ours has the other sign, and its interval excludes zero. *Overshoots*: ours is more than
  twice the effect. *Better* or *worse*: less time, a deeper cut, a smaller rise and more jobs that gain are better.

A wider interval never turns another verdict into *within*, so fewer repetitions do not flatter.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence

import msgspec

CONFIDENCE = 0.95
BAND = 1 / 3
"""Half the width of the band, as a share of the published effect."""

OVERSHOOT = 2.0

DIGITS = 6
"""Mathematical libraries differ in the last bits; a report must not."""


class Unit(enum.StrEnum):
    """The unit of a figure."""

    SECONDS = "s"
    PERCENT = "%"
    JOBS = "jobs"


class Agreement(enum.StrEnum):
    """How our figure compares with the published one."""

    WITHIN = "within"
    INCONCLUSIVE = "inconclusive"
    BETTER = "better"
    WORSE = "worse"
    OVERSHOOTS = "overshoots"
    OPPOSITE = "opposite"


class Estimate(msgspec.Struct, frozen=True):
    """A mean, its confidence interval, and the standard deviation of a single repetition."""

    mean: float
    low: float
    high: float
    deviation: float


def estimate(values: Sequence[float]) -> Estimate:
    """The estimate from some repetitions, at least one; the interval around a single one is infinite."""
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Estimate(round(mean, DIGITS) + 0.0, -math.inf, math.inf, 0.0)
    # Imported here: scipy is an optional dependency, and a demo without pairs imports this module as well.
    from scipy.special import stdtrit  # noqa: PLC0415

    deviation = statistics.stdev(values)
    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * deviation / math.sqrt(len(values)) if deviation else 0.0
    rounded = (round(value, DIGITS) + 0.0 for value in (mean, mean - half, mean + half, deviation))
    return Estimate(*rounded)


def verdict(ours: Estimate, published: float, unit: Unit, jobs: int, slack: float | None = None) -> Agreement:
    """How our figure compares with a published one.

    Args:
        ours: Our estimate.
        published: The figure, an effect.
        unit: Of both.
        jobs: Of the experiment; without any effect half of them would be faster.
        slack: Half the band's width, where it is not a third of the effect.
    """
    nothing = jobs / 2 if unit is Unit.JOBS else 0.0
    effect, mean, low, high = (value - nothing for value in (published, ours.mean, ours.low, ours.high))
    half = BAND * abs(effect) if slack is None else slack
    if effect - half <= low and high <= effect + half:
        return Agreement.WITHIN
    if low <= effect + half and effect - half <= high:
        return Agreement.INCONCLUSIVE
    if mean * effect < 0 and not low <= 0 <= high:
        return Agreement.OPPOSITE
    if mean * effect > 0 and abs(mean) > OVERSHOOT * abs(effect):
        return Agreement.OVERSHOOTS
    more_is_better = unit is Unit.JOBS
    return Agreement.BETTER if (mean > effect) == more_is_better else Agreement.WORSE
