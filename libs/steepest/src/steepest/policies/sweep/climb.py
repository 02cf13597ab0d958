"""The value of a trial at a rung, from its reports.

A report's place is its step, else its epoch, else its number. From the first report with a step on, those without one do not
count; so it is with epochs.
"""

from __future__ import annotations

import enum
import math

import msgspec

from steepest.events.common import LARGEST
from steepest.events.loss import LossDiverged, LossReported
from steepest.events.requests import Rungs

QUARTER = 0.25
"""A trial's value is a mean over this share of the way to the rung: a single loss is noise, and older ones say less."""


class PlaceUnit(enum.IntEnum):
    """The unit of a report's place, the most telling one last."""

    VALUES = 0
    EPOCHS = 1
    STEPS = 2


class RungValue(msgspec.Struct, frozen=True, gc=False):
    """A rung that is reached, where it is, and what the trial is worth there; None: its loss is not finite."""

    rung: int
    at: int
    value: float | None


class Climb(msgspec.Struct, kw_only=True, gc=False):
    """How far a trial has come.

    Attributes:
        rung: The next one, ``at`` there.
        unit: Of its places so far.
        values: Reports so far; ``last``: the newest place.
        total: Sum of the finite values of the last quarter of the way; ``count`` of them.
    """

    rung: int = 0
    at: int
    unit: PlaceUnit = PlaceUnit.VALUES
    values: int = 0
    last: float = 0.0
    total: float = 0.0
    count: int = 0

    def add(self, report: LossReported | LossDiverged, value: float, rungs: Rungs) -> RungValue | None:
        """Take a report of the evaluation function; the rung that is reached with it. ``value``: its value, or NaN."""
        self.values += 1
        unit, place = _place_of(report, self.values)
        if unit < self.unit:
            return None
        if unit > self.unit:
            self.unit = unit
            self.begin_again()
        if place < self.last:
            self.begin_again()  # it goes on from an older checkpoint
        self.last = place
        if math.isfinite(value) and (1 - QUARTER) * self.at < place <= self.at:
            self.total += value
            self.count += 1
        if place < self.at or self.at > LARGEST:
            return None
        return self._reach(place, value, rungs.factor)

    def begin_again(self) -> None:
        """Forget the reports since the last rung."""
        self.total, self.count = 0.0, 0

    def _reach(self, place: float, value: float, factor: int) -> RungValue:
        worth = self.total / self.count if self.count else value
        while self.at * factor <= place:  # it has passed several since its last report
            self.rung, self.at, worth = self.rung + 1, self.at * factor, value
        is_finite = math.isfinite(value) and math.isfinite(worth)
        reached = RungValue(self.rung, self.at, worth if is_finite else None)
        self.rung, self.at = self.rung + 1, min(self.at * factor, LARGEST + 1)
        self.begin_again()
        return reached


def _place_of(report: LossReported | LossDiverged, number: int) -> tuple[PlaceUnit, float]:
    if report.step is not None:
        return PlaceUnit.STEPS, report.step
    if isinstance(report, LossReported) and report.epoch is not None:
        return PlaceUnit.EPOCHS, min(report.epoch, LARGEST)
    return PlaceUnit.VALUES, number
