"""The running jobs of a view: those that may be worth suspending, as a rule looks at them, and all by their ends.

It owns these orders and keeps them up to date with the records; each costs O(log n). All of it follows from the view, so
nothing of it is kept in a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from steepest.events.parameters import PreemptionRule
from steepest.policies.queueing.ranks import service_level
from steepest.view.cluster_view import ClusterView
from steepest.view.movable import immovable
from steepest.view.orders.order import Order
from steepest.view.progress import TimeLeft, attained_ms
from steepest.view.state import Job, Phase

BY_PREDICTION = frozenset({PreemptionRule.PICKYMAN, PreemptionRule.SRTF})
"""The rules that need to know how much of a job is left."""


def remaining_ms(job: Job, counted_ms: int) -> int | None:
    """Predicted time until a job is trained, once it runs; None where nothing was predicted."""
    left = None if job.forecast is None else job.forecast.predicted.remaining
    if job.forecast is None or left is None:
        return None
    if not job.alive:
        return left.p50
    since_ms = max(job.forecast.counted_ms, job.placed_counted_ms)
    return max(left.p50 - max(counted_ms - since_ms, 0), 0)


def predicted_left(job: Job, counted_ms: int) -> TimeLeft | None:
    """The predicted time until a job is trained, with its interval; None where nothing was predicted."""
    left = remaining_ms(job, counted_ms)
    said = None if job.forecast is None else job.forecast.predicted.remaining
    if left is None or said is None:
        return None
    gone_ms = said.p50 - left
    return TimeLeft(left, max(said.low - gone_ms, 0), max(said.high - gone_ms, 0))


def level(job: Job, counted_ms: int, limits: tuple[int, ...]) -> int:
    """The Tiresias level of a job by now."""
    return service_level(attained_ms(job, counted_ms) / 1000, limits)


class RunningJobs:
    """The jobs of one view that run, and may be saved and stopped: those that end last come first, or ran for longest."""

    def __init__(self, view: ClusterView, rule: PreemptionRule) -> None:
        """Put all of them in order. Work: O(n log n)."""
        self._view = view
        self._rule = rule
        self._order = Order()
        self._ending = Order()
        for job in view.jobs:
            self.look_at(job)

    def is_of(self, view: ClusterView, rule: PreemptionRule) -> bool:
        """Whether this is the order of that view under that rule."""
        return self._view is view and self._rule is rule

    def look_at(self, job: Job) -> None:
        """A job may have changed. Work: O(log n)."""
        end_ms = _end_ms(job) if self._rule in BY_PREDICTION and job.alive and job.plan is None else None
        _put(self._ending, job, end_ms)
        if job.phase is not Phase.RUNNING or job.plan is not None or job.cancel or immovable(job) is not None:
            _put(self._order, job, None)
        elif self._rule not in BY_PREDICTION:
            _put(self._order, job, job.placed_counted_ms)
        else:
            _put(self._order, job, None if end_ms is None else -end_ms)

    def __iter__(self) -> Iterator[Job]:
        return (self._view.jobs[name] for name in self._order)

    def ending(self) -> Iterator[Job]:
        """All running jobs whose end is predicted, whether they may be stopped or not: those that end first come first."""
        return (self._view.jobs[name] for name in self._ending)


def _put(order: Order, job: Job, key: int | None) -> None:
    if key is not None:
        order.put((key, job.name))
    elif job.name in order:
        order.drop(job.name)


def _end_ms(job: Job) -> int | None:
    """When a job is trained, by its prediction, in counted time."""
    left = remaining_ms(job, 0)
    if job.forecast is None or left is None:
        return None
    return left + max(job.forecast.counted_ms, job.placed_counted_ms)
