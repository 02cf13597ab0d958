"""The effector that counts what happens in a pool, and samples the view for gauges.

It owns when to sample: after a tick of the pool's clock, and of many jobs only after several. It appends nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.events.registry import members
from steepest.pool_metrics.bounded_label import BoundedLabel
from steepest.pool_metrics.counters import CPU_TIME, RUN_TIME, PoolCounters
from steepest.pool_metrics.gauges import PoolGauges
from steepest.pool_metrics.learning_course import LearningCourse
from steepest.pool_metrics.plan_watch import PlanWatch
from steepest.pool_metrics.sample import PoolSample, sampling
from steepest.runtime.effector import Effector, Send
from steepest.trace_context import exemplar_of
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import cpu_ms_left
from steepest.view.state import Job

QUEUES_MOST = 16
"""Queues that have series of their own."""

JOBS_A_TICK = 5_000
"""A pool with this many jobs is sampled at every second tick, one with twice as many at every third, so that sampling
takes about a hundredth of the process's time at most."""

ABOUT_PLANS = frozenset(
    kind for kind in members(c.ClusterEvent) if any(field.name == "plan" for field in msgspec.structs.fields(kind))
)
"""Every event that names a plan, also those that are still to come."""


class PoolMetrics(Effector):
    """The metrics of one pool, as long as it is this process's. What happened before it caught up is not counted."""

    name = "pool-metrics"

    def __init__(self, counters: PoolCounters, gauges: PoolGauges, pool: str) -> None:
        self._counters = counters
        self._gauges = gauges
        self._pool = pool
        self._plans = PlanWatch(counters, pool)
        self._queue = BoundedLabel(QUEUES_MOST)
        self._courses: dict[str, LearningCourse] = {}
        self._predicted_cpu_ms: dict[str, int] = {}
        self._predicted_run_ms: dict[str, int] = {}
        self._view = ClusterView()
        self._ticked = asyncio.Event()
        self._ticks = 0
        self._counted: Mapping[type, Callable[[ClusterView, Received[Any]], None]] = {
            c.Tick: self._tick,
            c.NodeGone: self._node_gone,
            c.GrowthMeasured: self._growth,
            c.CategoryChanged: self._category,
            c.StayDecided: self._stay,
            c.LimitsPlanned: self._limits_planned,
            c.LimitsApplied: self._limit_applied,
            c.LimitsRefused: self._limit_refused,
            c.RetryPlanned: self._retry,
            c.GoalReached: self._goal,
            c.FindingOpened: self._found,
            c.ReactionPlanned: self._reaction,
            c.JobPlaced: self._placed,
            c.JobEnded: self._ended,
            c.JobRejected: self._ended,
            c.OverheadMeasured: self._overhead,
            c.RunTimePredicted: self._run_time,
        }

    def caught_up(self, view: ClusterView) -> None:
        """Begin with what the view holds."""
        self._view = view
        self._counters.begin(self._pool)
        self._plans.begin(view)
        self._courses = {name: course for name, course in self._courses.items() if _goes_on(view, name)}
        self._predicted_cpu_ms = {name: ms for name, ms in self._predicted_cpu_ms.items() if _goes_on(view, name)}
        self._predicted_run_ms = {name: ms for name, ms in self._predicted_run_ms.items() if _goes_on(view, name)}
        self._ticked.set()

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Count a record."""
        kind = type(received.event)
        if kind in ABOUT_PLANS:
            self._plans.observe(view, received, accepted=accepted)
        if accepted and (count := self._counted.get(kind)) is not None:
            count(view, received)

    async def run(self, send: Send) -> None:
        """Sample the view until cancelled; then show nothing of the pool any more."""
        del send  # it reports to people, not to the log
        try:
            while True:
                await self._ticked.wait()
                self._ticked.clear()
                await self._sample()
        finally:
            self._counters.forget(self._pool)
            self._gauges.forget(self._pool)

    async def _sample(self) -> None:
        """Take a sample, in parts between which other tasks run."""
        sample = PoolSample()
        for _ in sampling(sample, self._view, self._gauges.jobs_named, self._note_prediction):
            await asyncio.sleep(0)
        self._gauges.show(self._pool, sample)

    def _note_prediction(self, job: Job) -> None:
        """Keep the first prediction of what a job needs in all."""
        if job.name in self._predicted_cpu_ms or job.progress.cpu_ms is None:
            return
        if (left := cpu_ms_left(job)) is not None:
            self._predicted_cpu_ms[job.name] = job.progress.cpu_ms + left

    # --- what is counted of an event -----------------------------------------------------------------------------------

    def _tick(self, view: ClusterView, _: Received[Any]) -> None:
        self._ticks += 1
        if self._ticks > len(view.jobs) // JOBS_A_TICK:
            self._ticks = 0
            self._ticked.set()

    def _node_gone(self, view: ClusterView, received: Received[Any]) -> None:
        self._plans.sweep(view, received)

    def _growth(self, _: ClusterView, received: Received[Any]) -> None:
        event: c.GrowthMeasured = received.event
        course = None if event.metric else self._courses.get(event.job)
        if course is None:
            if event.interval > 1 and not event.metric:
                return  # how it began is not known
            course = self._courses[event.job] = LearningCourse()
        course.add(received.at_ms, event.total / event.count)

    def _category(self, _: ClusterView, received: Received[Any]) -> None:
        event: c.CategoryChanged = received.event
        self._counters.category_changes.labels(self._pool, event.before.value, event.after.value).inc()

    def _stay(self, _: ClusterView, __: Received[Any]) -> None:
        self._counters.stays.labels(self._pool).inc()

    def _limits_planned(self, _: ClusterView, received: Received[Any]) -> None:
        event: c.LimitsPlanned = received.event
        for seen in event.because.jobs:
            if seen.efficiency is not None:
                self._counters.efficiency.labels(self._pool, seen.before.value).observe(seen.efficiency)

    def _limit_applied(self, _: ClusterView, __: Received[Any]) -> None:
        self._counters.limits.labels(self._pool, "applied").inc()

    def _limit_refused(self, _: ClusterView, received: Received[Any]) -> None:
        event: c.LimitsRefused = received.event
        self._counters.limits.labels(self._pool, "refused" if event.definite else "unclear").inc()

    def _retry(self, _: ClusterView, received: Received[Any]) -> None:
        event: c.RetryPlanned = received.event
        self._counters.retries.labels(self._pool, str(event.charged).lower()).inc()

    def _goal(self, _: ClusterView, received: Received[Any]) -> None:
        event: c.GoalReached = received.event
        self._counters.goals.labels(self._pool).inc()
        self._counters.goals_saved.labels(self._pool).inc((event.cpu_ms_saved or 0) / 1000)

    def _found(self, _: ClusterView, received: Received[Any]) -> None:
        event: c.FindingOpened = received.event
        self._counters.findings.labels(self._pool, event.kind.value).inc()

    def _reaction(self, _: ClusterView, received: Received[Any]) -> None:
        event: c.ReactionPlanned = received.event
        then = "suspend" if event.suspends else "restart" if event.restarts else "fail"
        self._counters.reactions.labels(self._pool, event.kind.value, then).inc()

    def _overhead(self, _: ClusterView, received: Received[Any]) -> None:
        event: c.OverheadMeasured = received.event
        if event.predicted_ms is not None:
            self._prediction(event.kind.value, event.predicted_ms, event.measured_ms)

    def _run_time(self, _: ClusterView, received: Received[Any]) -> None:
        """Keep the first prediction of how long a job runs in all."""
        event: c.RunTimePredicted = received.event
        if event.total is not None:
            self._predicted_run_ms.setdefault(event.job, event.total.p50)

    def _prediction(self, of: str, predicted: float, measured: float) -> None:
        if measured > 0:
            self._counters.prediction_errors.labels(self._pool, of).observe(abs(predicted - measured) / measured)

    def _placed(self, view: ClusterView, received: Received[Any]) -> None:
        job = view.jobs.get(received.event.job)
        if job is not None and job.first_placed_ms == received.at_ms:
            seconds = max(0, received.at_ms - job.submitted_ms) / 1000
            self._counters.wait_seconds.labels(self._pool, self._queue(job.spec.queue)).observe(
                seconds, exemplar_of(received.headers)
            )

    def _ended(self, view: ClusterView, received: Received[Any]) -> None:
        event: c.JobEnded | c.JobRejected = received.event
        self._plans.forget(event.job)
        course = self._courses.pop(event.job, None)
        predicted = self._predicted_cpu_ms.pop(event.job, None)
        predicted_run_ms = self._predicted_run_ms.pop(event.job, None)
        job = view.jobs.get(event.job)
        if job is None or isinstance(event, c.JobRejected):
            return
        exemplar = exemplar_of(received.headers)
        seconds = max(0, received.at_ms - job.submitted_ms) / 1000
        self._counters.completion_seconds.labels(self._pool, event.outcome.value).observe(seconds, exemplar)
        if event.outcome is not c.Outcome.FINISHED:
            return
        done_ms = course.done_ms() if course else None
        if done_ms is not None:
            self._counters.t90_seconds.labels(self._pool).observe(max(0, done_ms - job.submitted_ms) / 1000, exemplar)
        if predicted is not None and job.progress.cpu_ms is not None:
            self._prediction(CPU_TIME, predicted, job.progress.cpu_ms)
        if predicted_run_ms is not None:
            self._prediction(RUN_TIME, predicted_run_ms, job.held_ms)


def _goes_on(view: ClusterView, name: str) -> bool:
    job = view.jobs.get(name)
    return job is not None and job.outcome is None
