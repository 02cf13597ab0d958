"""A job's evaluation function cut into intervals, and the growth from one to the next (SpeCon thesis, Algorithm 3).

It owns the interval grid and the arithmetic. It must never know a record, a category, or what growth decides.

With t₀ and E₀ the time and value of the first report of the job's life, interval k is (t₀ + (k−1)·itval, t₀ + k·itval],
and E_k is the mean of the reports in it, as FlowCon's authors compute it. The reports are the only clock: an interval
ends with the first report beyond its end. One without a report does not exist: growth is taken between neighbours
that have reports, so a slow epoch is not convergence. Time never goes back: a report that is older than the one before
it counts as if it had come at that one's time. But a clock may have been ahead, and be right again: a report that is
older by more than BACK_INTERVALS intervals begins the grid again, with the open interval and what was reported in it. The
time between that interval and the one before is not known then.

Growth is G = |E_k − E_before|; with ``Normalisation.MAX`` both are first divided by the largest magnitude reported up
to the interval's end. One spike makes that so large that all later growth is below α. ``Normalisation.SETTLED`` forgets
it once it is over; without a spike it is the same.
"""

from __future__ import annotations

import msgspec

from steepest.events.common import LARGEST
from steepest.events.parameters import Normalisation

DIGITS = 9
"""Decimals that growth is rounded to before it decides or is written; what lies beyond is noise of floating point."""

BACK_INTERVALS = 2
"""Intervals by which the reports of one job may overtake each other: on their way, or by the clocks of two nodes."""

SPIKE, LASTS = 10.0, 3
"""A magnitude above ``SPIKE`` times all before it is a spike, if values are back within ``LASTS`` intervals. The first
report is one above the square of that, compared with the mean of the first interval."""

LARGEST_VALUE = 1e290
"""Greatest magnitude that may be added: sums of greater values could leave the range of a float."""


class Intervals(msgspec.Struct, kw_only=True, gc=False):
    """One job's open interval, and what is kept of those before it. Times are integer milliseconds.

    Attributes:
        end_ms: Last millisecond of the open interval.
        interval: Number of the open interval, from 1.
        now_ms: Time of the newest report.
        total: Sum of the values reported in the open interval.
        count: How many values; 0 only before the second report of the job's life.
        first_ms: Time of the open interval's first report.
        largest: Largest magnitude reported so far, E₀ included; under ``SETTLED`` since the open interval began.
        before: E of the last interval that ended with reports; E₀ until then.
        before_doubled_ms: Twice the middle of its reports' times (the sum of its first and last report's).
        baseline: Whether no interval with reports has ended yet, so that the next G judges nothing.
        growth_before: G of the last interval that ended with reports; None until then.
        settled: Under ``SETTLED`` the largest magnitude up to the end of that interval.
        spike: Under ``SETTLED`` the largest magnitude before the newest spike, and the last interval in which it may end.
    """

    end_ms: int
    interval: int = 1
    now_ms: int
    total: float = 0.0
    count: int = 0
    first_ms: int = 0
    largest: float
    before: float
    before_doubled_ms: int
    baseline: bool = True
    growth_before: float | None = None
    settled: float = 0.0
    spike: tuple[float, int] = (0.0, 0)

    @classmethod
    def begin(cls, at_ms: int, value: float, interval_ms: int) -> Intervals:
        """From the first report of the job's life: it is E₀ at t₀, and in no interval."""
        return cls(
            end_ms=at_ms + interval_ms, now_ms=at_ms, largest=abs(value), before=value, before_doubled_ms=2 * at_ms
        )

    def add(self, at_ms: int, value: float) -> None:
        """Count a report into the open interval."""
        if at_ms > self.now_ms:  # noqa: PLR1730 - a call of max costs as much as all the rest, for every report
            self.now_ms = at_ms
        if not self.count:
            self.first_ms = self.now_ms
        self.count += 1
        self.total += value
        if not -self.largest <= value <= self.largest:
            self.largest = abs(value)

    def growth(self, normalisation: Normalisation) -> float:
        """G from the interval before to the open one, which has reports and is over; rounded. Call it once for each."""
        unit = self._unit(normalisation)
        if not unit:
            return 0.0
        grown = round(abs(self.total / self.count / unit - self.before / unit), DIGITS)
        return min(grown, 2 * LARGEST_VALUE)  # after a spike it may be infinite

    def _unit(self, normalisation: Normalisation) -> float:
        if normalisation is not Normalisation.SETTLED:
            return max(self.largest, self.settled) if normalisation is Normalisation.MAX else 1.0
        high, self.largest = self.largest, 0.0
        mean, (calm, until) = abs(self.total / self.count), self.spike
        self.settled = abs(self.before) if self.baseline else self.settled
        if self.baseline and self.settled > SPIKE**2 * mean:
            high = self.settled = mean
        elif self.interval <= until and high <= SPIKE * calm:
            self.settled, self.spike = calm, (0.0, 0)
        elif self.interval > until and high > SPIKE * self.settled > 0:
            self.spike = (self.settled, self.interval + LASTS)
        self.settled = max(self.settled, high)
        return self.settled

    def per_second(self, growth: float) -> float | None:
        """FlowCon's P_c: growth over the seconds between the middles of the two intervals' reports, rounded.

        None where no time lies between them, or the time is not known.
        """
        doubled_ms = self.first_ms + self.now_ms - self.before_doubled_ms
        return round(growth / (doubled_ms / 2000), DIGITS) if doubled_ms > 0 else None

    def turn(self, at_ms: int, interval_ms: int) -> None:
        """End the open interval, and open the one that ``at_ms``, a time beyond its end, falls into."""
        if self.count:
            self.before = self.total / self.count
            self.before_doubled_ms = self.first_ms + self.now_ms
            self.baseline = False
        passed = -((self.end_ms - at_ms) // interval_ms)
        interval = self.interval + passed
        self.interval = interval if interval < LARGEST else LARGEST  # noqa: FURB136 - a call would cost more
        self.end_ms += passed * interval_ms
        self.total = 0.0
        self.count = 0

    def begin_again(self, at_ms: int, interval_ms: int) -> None:
        """The clock was ahead: the open interval begins at ``at_ms``, and keeps what was reported in it."""
        self.end_ms = at_ms + interval_ms
        self.first_ms = self.now_ms = at_ms

    def resize(self, before_ms: int, after_ms: int) -> None:
        """Go on with intervals of another length: the open one keeps its beginning."""
        self.end_ms += after_ms - before_ms
