"""Verdicts on figures and claims of papers, in one vocabulary.

The rule for figures. Ours is the mean over the repetitions, with its 95 % confidence interval. What is judged is an
*effect*: a change by the policy, or a number of jobs beyond the half that a policy without effect would make faster. A
published effect is one run's. The two settings that the thesis prints twice (−8.0 and −3.2 %; −26.2 and −19.0 %) differ from
their mean by 43 and by 16 % of it, so a third of the published effect to either side counts as the same: the *band*.

* *within*: our whole interval lies in the band;
* *inconclusive*: it reaches into the band and out of it, as any interval does that is wider than the effect;
* otherwise they differ. *Opposite*: ours has the other sign, and its interval excludes zero. *Overshoots*: ours is more than
  twice the effect. *Better* or *worse*: less time, a deeper cut, a smaller rise and more jobs that gain are better.

A wider interval never turns another verdict into *within*, so fewer repetitions do not flatter.

A claim without a figure, as that waiting gets shorter, is *within* where it holds and *worse* where it does not. It is
*inconclusive* where the interval of the change contains zero, and *unmeasured* where nothing was measured.
"""

from __future__ import annotations

import enum

from steepest_lab.sim.estimate import Estimate

BAND = 1 / 3
"""Half the width of the band, as a share of the published effect."""

OVERSHOOT = 2.0


class Unit(enum.StrEnum):
    """The unit of a figure."""

    SECONDS = "s"
    PERCENT = "%"
    JOBS = "jobs"


class Agreement(enum.StrEnum):
    """How ours compares with what was published."""

    WITHIN = "within"
    INCONCLUSIVE = "inconclusive"
    BETTER = "better"
    WORSE = "worse"
    OVERSHOOTS = "overshoots"
    OPPOSITE = "opposite"
    UNMEASURED = "unmeasured"


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


def fall(low: float, high: float, *, or_equal: bool = False) -> Agreement:
    """The verdict on the claim that a figure falls, by the interval of its change; ``or_equal``: that it does not rise."""
    if high < 0 or (or_equal and high <= 0):
        return Agreement.WITHIN
    return Agreement.WORSE if low > 0 else Agreement.INCONCLUSIVE
