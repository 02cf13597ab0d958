"""Growth efficiency G of one job: its progress P divided by its resource use R over the same window.

It owns the windows and the arithmetic, and must never know lists, limits, or when a run is due.

Interpretation. The authors take the mean E of the values of the last itval seconds and of the itval before, each divided by
the largest value so far. Here values come as the categorizer's buckets (``GrowthMeasured``), so a window consists of
the last k complete buckets, with k·(SpeCon's interval) ≥ itval, and the window before it of the last k that end before
it starts: growth is measured between neighbours that have reports, as in SpeCon's categorizer. A run between two
buckets uses the last complete one. Use is the mean of the node's measurements between the last report of the previous
bucket and the last report of the bucket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from steepest.events.cluster import GrowthMeasured, OtherUse
from steepest.events.common import LARGEST
from steepest.events.parameters import ProgressUnit, Resource
from steepest.policies.monitor.others import FIELDS, Measured
from steepest.policies.specon.growth import DIGITS, LARGEST_VALUE

SAMPLES_KEPT = 128
"""Bound on measurements of use that wait for their bucket; more are merged in pairs, so that a slow epoch uses no memory."""


class UseSample(msgspec.Struct):
    """Measurements of use, the last of them at ``at_ms``.

    Attributes:
        total: The sum of ``count`` measurements of CPU, in millicores.
        others: Those of other resources, in the units of the facts.
    """

    at_ms: int
    total: int
    count: int = 1
    others: dict[Resource, Measured] = {}


class Bucket(msgspec.Struct):
    """An interval of the categorizer, with the sum and number of measurements of use in it."""

    interval: int
    total: float
    count: int
    first_ms: int
    last_ms: int
    used_m: int = 0
    used_count: int = 0
    others: dict[Resource, Measured] = {}


class GrowthHistory(msgspec.Struct):
    """The growth and resource use of an incarnation.

    Attributes:
        since_ms: Its start, on the wall clock; earlier reports belong to another incarnation.
        buckets: The newest complete ones, oldest first.
        samples: Measurements that do not belong to a complete bucket yet.
        largest: Largest magnitude of the evaluation function so far.
    """

    since_ms: int
    buckets: list[Bucket] = []
    samples: list[UseSample] = []
    largest: float = 0.0

    @property
    def newest(self) -> int:
        """The number of the newest complete bucket; 0 before the first."""
        return self.buckets[-1].interval if self.buckets else 0

    def use(self, at_ms: int, cpu_m: int, measured: int = 1, others: OtherUse | None = None) -> None:
        """Add ``measured`` measurements of the job's use with mean ``cpu_m`` and ``others``, the last one at ``at_ms``."""
        known = {} if others is None else {one: getattr(others, field) for one, field in FIELDS.items()}
        sums = {
            one: Measured(min(mean * measured, LARGEST), measured) for one, mean in known.items() if mean is not None
        }
        self.samples.append(UseSample(at_ms, min(cpu_m * measured, LARGEST), measured, sums))
        if len(self.samples) > SAMPLES_KEPT:
            pairs = zip(self.samples[::2], self.samples[1::2], strict=False)
            odd = self.samples[len(self.samples) // 2 * 2 :]
            self.samples = [_merged(*pair) for pair in pairs] + odd

    def measure(self, event: GrowthMeasured, kept: int) -> None:
        """Add a complete bucket; keep the newest ``kept``."""
        if event.first_ms < self.since_ms or event.count == 0:
            return
        if event.interval <= self.newest or event.metric:
            self.buckets = []  # the categorizer has started to count the job's intervals again
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
                others=_sum([one.others for one in before]),
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
        """Mean use over the last ``span`` buckets in millicores; without measurements in them, over all buckets kept."""
        for buckets in (self._window(span, self.newest), self.buckets):
            count = sum(bucket.used_count for bucket in buckets)
            if count:
                return sum(bucket.used_m for bucket in buckets) / count
        return None

    def mean_use(self, span: int) -> dict[Resource, float]:
        """Mean use of each resource that was measured, likewise; CPU in millicores, the others as in the facts."""
        found: dict[Resource, float] = {}
        cpu_m = self.mean_use_m(span)
        if cpu_m is not None:
            found[Resource.CPU] = cpu_m
        for buckets in (self.buckets, self._window(span, self.newest)):
            sums = _sum([bucket.others for bucket in buckets])
            found |= {one: sums[one].total / sums[one].count for one in FIELDS if one in sums}
        return found

    def _window(self, span: int, end: int) -> list[Bucket]:
        return [bucket for bucket in self.buckets if end - span < bucket.interval <= end]


def efficiency(progress: float | None, use: float | None, least_use: float) -> float | None:
    """G = P / R: progress for each node's worth of use, rounded; None if P or R is unknown.

    Args:
        progress: P.
        use: R, as a share of the node.
        least_use: The smallest measurable share; a smaller ``use`` is replaced by it.
    """
    if progress is None or use is None:
        return None
    return finite(progress / max(use, least_use))


def finite(value: float) -> float | None:
    """A rounded number; None for NaN, infinity, or a number so large that a sum could become infinite."""
    return round(value, DIGITS) if value <= LARGEST_VALUE else None


def _merged(one: UseSample, next_: UseSample) -> UseSample:
    others = _sum([one.others, next_.others])
    return UseSample(next_.at_ms, one.total + next_.total, one.count + next_.count, others)


def _sum(parts: Sequence[Mapping[Resource, Measured]]) -> dict[Resource, Measured]:
    sums: dict[Resource, Measured] = {}
    for part in parts:
        for resource, measured in part.items():
            sums.setdefault(resource, Measured()).add(measured.total, measured.count)
    return sums


def _mean(buckets: Sequence[Bucket]) -> float:
    return sum(bucket.total for bucket in buckets) / sum(bucket.count for bucket in buckets)
