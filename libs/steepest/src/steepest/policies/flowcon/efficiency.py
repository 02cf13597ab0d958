"""What a run of FlowCon knows of one job: its progress, its use over the same span, and G, the one by the other.

It owns the windows and the arithmetic, and must never know lists, limits, or when a run is due.

The reading. The authors take the mean E of the values of the last itval seconds and of the itval before, each divided
by the largest value so far. Here values come as the categorizer's buckets (``GrowthMeasured``), so a window is the last
k complete buckets, with k·(SpeCon's interval) ≥ itval, and the one before it the last k that end before the window
begins: growth is taken between neighbours that have reports, as in SpeCon's categorizer. A run between two buckets
looks at the last complete one. Use is the mean of the node's measurements from the end of the reports of the bucket
before to the end of the bucket's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steepest.events.cluster import GrowthMeasured
from steepest.events.common import LARGEST
from steepest.events.parameters import ProgressUnit
from steepest.policies.specon.growth import DIGITS, LARGEST_VALUE

SAMPLES_KEPT = 128
"""Measurements of use that wait for their bucket; beyond, neighbours are added up, so that a slow epoch fills no memory."""


class Sample(msgspec.Struct, gc=False):
    """Some measurements of use, in millicores, the last of them at ``at_ms``."""

    at_ms: int
    total: int
    count: int = 1


class Bucket(msgspec.Struct, gc=False):
    """An interval of the categorizer, and the use within it: sum and number of measurements."""

    interval: int
    total: float
    count: int
    first_ms: int
    last_ms: int
    used_m: int = 0
    used_count: int = 0


class Course(msgspec.Struct):
    """How an incarnation has grown and what it has used.

    Attributes:
        since_ms: When it began, on the wall clock; what was reported before is not its own.
        buckets: The newest complete ones, oldest first.
        samples: Use that belongs to no complete bucket yet.
        largest: Largest magnitude of the evaluation function so far.
    """

    since_ms: int
    buckets: list[Bucket] = []
    samples: list[Sample] = []
    largest: float = 0.0

    @property
    def newest(self) -> int:
        """The number of the newest complete bucket; 0 before the first."""
        return self.buckets[-1].interval if self.buckets else 0

    def use(self, at_ms: int, cpu_m: int, measured: int = 1) -> None:
        """The node measured the job's use, so many times with this mean, the last time at ``at_ms``."""
        self.samples.append(Sample(at_ms, min(cpu_m * measured, LARGEST), measured))
        if len(self.samples) > SAMPLES_KEPT:
            pairs = zip(self.samples[::2], self.samples[1::2], strict=False)
            odd = self.samples[len(self.samples) // 2 * 2 :]
            self.samples = [Sample(b.at_ms, a.total + b.total, a.count + b.count) for a, b in pairs] + odd

    def measure(self, event: GrowthMeasured, kept: int) -> None:
        """A bucket is complete; remember the newest ``kept``."""
        if event.first_ms < self.since_ms or event.count == 0:
            return
        if event.interval <= self.newest:
            self.buckets = []  # the job's reports are counted anew
        before = [one for one in self.samples if one.at_ms <= event.last_ms]
        self.samples = [one for one in self.samples if one.at_ms > event.last_ms]
        self.buckets.append(
            Bucket(
                interval=event.interval,
                total=event.total,
                count=event.count,
                first_ms=event.first_ms,
                last_ms=event.last_ms,
                used_m=sum(one.total for one in before),
                used_count=sum(one.count for one in before),
            )
        )
        self.buckets = self.buckets[-kept:]
        self.largest = event.largest

    def progress(self, span: int, unit: ProgressUnit, interval_ms: int) -> float | None:
        """P over the last ``span`` buckets, rounded; None without growth between two windows."""
        last = self._window(span, self.newest)
        before = [bucket for bucket in self.buckets if bucket.interval <= self.newest - span]
        if not before:
            return None
        first = self._window(span, before[-1].interval)
        between_ms = (last[0].first_ms + last[-1].last_ms - first[0].first_ms - first[-1].last_ms) / 2
        if between_ms <= 0:
            return None
        if not self.largest:
            return 0.0
        grown = abs(_mean(last) / self.largest - _mean(first) / self.largest)
        return finite(grown / between_ms * (interval_ms if unit is ProgressUnit.INTERVAL else 1000))

    def mean_use_m(self, span: int) -> float | None:
        """Mean use over the last ``span`` buckets in millicores, or, where nobody measured in them, over all kept."""
        for buckets in (self._window(span, self.newest), self.buckets):
            count = sum(bucket.used_count for bucket in buckets)
            if count:
                return sum(bucket.used_m for bucket in buckets) / count
        return None

    def _window(self, span: int, end: int) -> list[Bucket]:
        return [bucket for bucket in self.buckets if end - span < bucket.interval <= end]


def efficiency(progress: float | None, use: float | None, least_use: float) -> float | None:
    """G = P / R: progress for each whole node's worth of use, rounded; None where one of them is not known.

    Args:
        progress: P.
        use: R, a share of the node.
        least_use: The least share that could be measured; below it, use is taken for that.
    """
    if progress is None or use is None:
        return None
    return finite(progress / max(use, least_use))


def finite(value: float) -> float | None:
    """A number, rounded; None for one that is none, or so large that a sum of such could be none."""
    return round(value, DIGITS) if value <= LARGEST_VALUE else None


def _mean(buckets: Sequence[Bucket]) -> float:
    return sum(bucket.total for bucket in buckets) / sum(bucket.count for bucket in buckets)
