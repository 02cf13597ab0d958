"""Shapes of a training's expected loss over its progress, from 0 at the start to 1 at the end of the run.

It owns the formulas. It must never know whose run a curve describes, nor draw at random: noise is in
:mod:`steepest_lab.sim.losses.noise`.
"""

from __future__ import annotations

import bisect
import math

import msgspec


class Inverse(msgspec.Struct, frozen=True, tag="inverse", tag_field="shape"):
    """``floor + drop / (1 + rate·p)``: the 1/(a·k + b) + c of Optimus (Peng and others, EuroSys 2018), a = rate/drop."""

    floor: float
    drop: float
    rate: float

    def expected(self, progress: float) -> float:
        """The loss that is expected at a progress in [0, 1]."""
        return self.floor + self.drop / (1 + self.rate * progress)


class Power(msgspec.Struct, frozen=True, tag="power", tag_field="shape"):
    """``floor + drop · (1 + rate·p)^−exponent``: the power law of learning curves (Hestness and others, 2017)."""

    floor: float
    drop: float
    rate: float
    exponent: float

    def expected(self, progress: float) -> float:
        """The loss that is expected at a progress in [0, 1]."""
        return self.floor + self.drop * float((1 + self.rate * progress) ** -self.exponent)


class Exponential(msgspec.Struct, frozen=True, tag="exponential", tag_field="shape"):
    """``floor + drop · e^(−rate·p)``: linear convergence, as of a strongly convex problem."""

    floor: float
    drop: float
    rate: float

    def expected(self, progress: float) -> float:
        """The loss that is expected at a progress in [0, 1]."""
        return self.floor + self.drop * math.exp(-self.rate * progress)


class TwoPhase(msgspec.Struct, frozen=True, tag="two-phase", tag_field="shape"):
    """``floor + fast·e^(−fast_rate·p) + slow·e^(−slow_rate·p)``: a steep beginning, then a long gentle slope."""

    floor: float
    fast: float
    fast_rate: float
    slow: float
    slow_rate: float

    def expected(self, progress: float) -> float:
        """The loss that is expected at a progress in [0, 1]."""
        return (
            self.floor
            + self.fast * math.exp(-self.fast_rate * progress)
            + self.slow * math.exp(-self.slow_rate * progress)
        )


class Points(msgspec.Struct, frozen=True, tag="points", tag_field="shape"):
    """A real run's points, with straight lines between them.

    Attributes:
        progress: Ascending, at least one.
        losses: As many.
    """

    progress: tuple[float, ...]
    losses: tuple[float, ...]

    def expected(self, progress: float) -> float:
        """The loss between the neighbouring points; beyond the first or last, theirs."""
        right = bisect.bisect_right(self.progress, progress)
        if right == 0:
            return self.losses[0]
        if right == len(self.progress):
            return self.losses[-1]
        left = right - 1
        share = (progress - self.progress[left]) / (self.progress[right] - self.progress[left])
        return self.losses[left] + share * (self.losses[right] - self.losses[left])


Fitted = Inverse | Power | Exponential | TwoPhase
"""The parametric shapes."""

Curve = Fitted | Points
"""Any shape."""
