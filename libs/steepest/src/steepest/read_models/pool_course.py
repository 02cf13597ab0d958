"""A pool's whole log at one look: its use by category, what went wrong, and how long jobs waited under each policy. Pure.

It owns how a log of any length is kept in a bounded number of points. It must never know what is drawn of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from steepest.describe.rules import policy_name
from steepest.events.parameters import PoolParameters
from steepest.view.state import Job

POINTS_MOST = 600
"""Points that are kept; of more, every second goes, and from then on they are twice as far apart."""

FIRST_APART_MS = 250
CATEGORY_CODES = 5
PERIODS_MOST = 100


class CoursePoint(msgspec.Struct, frozen=True, array_like=True):
    """A moment.

    Attributes:
        offset: The record in the pool's log.
        at_ms: Wall clock.
        use: Thousandths of the pool's CPU that runs of each category use, as the timeline counts categories.
    """

    offset: int
    at_ms: int
    use: tuple[int, ...]


class PolicyPeriod(msgspec.Struct, kw_only=True):
    """A time under one policy.

    Attributes:
        finished: Jobs that finished in it.
        took_ms: From their submission to their end, all of them together.
        waited_ms: For how much of that they held no place.
    """

    policy: str
    since_ms: int
    finished: int = 0
    took_ms: int = 0
    waited_ms: int = 0


class PoolCourse:
    """The course of a pool.

    Attributes:
        points: Its moments, oldest first.
        periods: Its policies, oldest first.
    """

    def __init__(self) -> None:
        self.points: list[CoursePoint] = []
        self.periods: list[PolicyPeriod] = []
        self._apart_ms = FIRST_APART_MS

    def is_due(self, now_ms: int) -> bool:
        """Whether a point at this time would be far enough from the last one."""
        return not self.points or now_ms - self.points[-1].at_ms >= self._apart_ms

    def add(self, before: CoursePoint, now: CoursePoint) -> None:
        """Add a moment, and where nothing was written for long, the one of the record before it."""
        if self.points and now.at_ms - before.at_ms >= self._apart_ms:
            self.points.append(before)
        self.points.append(now)
        if len(self.points) > POINTS_MOST:
            del self.points[1::2]
            self._apart_ms *= 2

    def configured(self, parameters: PoolParameters, now_ms: int) -> None:
        """Note the parameters in force from here on."""
        name = policy_name(parameters)
        if not self.periods or self.periods[-1].policy != name:
            self.periods.append(PolicyPeriod(policy=name, since_ms=now_ms))
            del self.periods[:-PERIODS_MOST]

    def finished(self, job: Job, now_ms: int) -> None:
        """Note a job that has finished."""
        if not self.periods:
            return
        period, took_ms = self.periods[-1], max(0, now_ms - job.submitted_ms)
        period.finished += 1
        period.took_ms += took_ms
        period.waited_ms += max(0, took_ms - job.held_ms)


def point(offset: int, at_ms: int, runs: Iterable[tuple[int, int]], capacity_m: int) -> CoursePoint:
    """A moment of a pool of this CPU; ``runs``: the category of each, and its CPU in millicores."""
    used = [0] * CATEGORY_CODES
    for category, cpu_m in runs:
        used[category] += cpu_m
    share = (min(1_000, 1_000 * cpu_m // capacity_m) if capacity_m > 0 else 0 for cpu_m in used)
    return CoursePoint(offset, at_ms, tuple(share))
