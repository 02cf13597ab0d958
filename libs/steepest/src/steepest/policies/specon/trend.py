"""A threshold that is fitted to a job's own growth: the variant ``specon-adaptive`` of SpeCon's categorizer.

It owns the regression and its comparison. It must never know reports or intervals.

The rule is that of the code of haverzard/container-migration, read off it and not printed in any paper: the score of an
evaluation is |ΔE/Δt|; a linear regression of ln(score) on time runs along and gives α(t) = exp(fit) and β = 1 − R². A
score above α(t) makes a job progressing. Any other makes a progressing one watched, and a watched one converged if
score·(1 + β) is below the score before.

The reading. An evaluation is an interval's mean, so that one noisy report decides nothing, and the score is its growth
a second. The fit includes the newest score. A line goes through any two points, so nothing is judged before the third.
A score of zero has no logarithm: it is compared, and not fitted.
"""

from __future__ import annotations

import math

import msgspec

from steepest.events.cluster import Category
from steepest.policies.specon.category_machine import Comparison
from steepest.policies.specon.growth import DIGITS

POINTS = 3
"""Scores before the first judgement."""

LARGEST_EXPONENT = 600.0
"""Beyond e to this, a fit is no threshold for anything; it stays within what a float holds."""


class Trend(msgspec.Struct, gc=False):
    """A running regression of ln(score) on time: means and co-moments, by Welford's update.

    Attributes:
        origin_ms: What time is counted from.
        count: Points fitted.
        previous: The score before the newest.
    """

    origin_ms: int
    count: int = 0
    mean_t: float = 0.0
    mean_y: float = 0.0
    s_tt: float = 0.0
    s_ty: float = 0.0
    s_yy: float = 0.0
    previous: float = 0.0

    def compare(self, before: Category, score: float | None, at_ms: int) -> tuple[Comparison, float | None]:
        """Take in the score of an interval, and say how it compares for a job of that category, and with which α(t).

        Args:
            before: The category held when the interval began.
            score: Growth a second, rounded; None where no time lay between two intervals, which judges nothing.
            at_ms: The end of the interval's reports.
        """
        if score is None:
            return _nothing(before), None
        previous, self.previous = self.previous, score
        seconds = (at_ms - self.origin_ms) / 1000
        self._fit(seconds, score)
        if self.count < POINTS:
            return _nothing(before), None
        alpha = self._alpha(seconds)
        if score > alpha:
            return Comparison.ABOVE, alpha
        clearly = round(score * (1 + self._beta()), DIGITS) < previous
        stays = before is Category.WATCHED and not clearly
        return (Comparison.EQUAL if stays else Comparison.BELOW), alpha

    def _fit(self, seconds: float, score: float) -> None:
        if score <= 0:
            return
        self.count += 1
        logarithm = round(math.log(score), DIGITS)
        from_t, from_y = seconds - self.mean_t, logarithm - self.mean_y
        self.mean_t += from_t / self.count
        self.mean_y += from_y / self.count
        self.s_tt += from_t * (seconds - self.mean_t)
        self.s_ty += from_t * (logarithm - self.mean_y)
        self.s_yy += from_y * (logarithm - self.mean_y)

    def _alpha(self, seconds: float) -> float:
        """α(t) = exp(fit), rounded."""
        slope = self.s_ty / self.s_tt if self.s_tt else 0.0
        exponent = self.mean_y + slope * (seconds - self.mean_t)
        return round(math.exp(min(exponent, LARGEST_EXPONENT)), DIGITS)

    def _beta(self) -> float:
        """Β = 1 − R², rounded; 0 where all points lie on a line, or all are the same."""
        spread = self.s_tt * self.s_yy
        return round(min(max(1 - self.s_ty**2 / spread, 0.0), 1.0), DIGITS) if spread else 0.0


def _nothing(before: Category) -> Comparison:
    """What judges nothing, for a job of that category."""
    return Comparison.BASELINE if before is Category.PROGRESSING else Comparison.EQUAL
