"""Plans from the record that makes them to the one that ends them, as counts and durations.

It reads the kind, the step and the status of a plan from the view, so it knows no kind of plan.
"""

from __future__ import annotations

from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.pool_metrics.bounded_label import BoundedLabel
from steepest.pool_metrics.counters import PoolCounters
from steepest.trace_context import exemplar_of
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Plan, PlanStatus

CODES_MOST = 30
"""Codes of failed steps; adapters add their own."""

NODES_LEFT_MOST = 16
"""Nodes that a job has left which are remembered of it."""


class WatchedPlan(msgspec.Struct):
    """A plan in flight.

    Attributes:
        begun_ms: When its newest step was begun; None between two steps.
    """

    plan: Plan
    resumes: bool
    step: str = ""
    begun_ms: int | None = None


class PlanWatch:
    """Follows the plans of one pool."""

    def __init__(self, counters: PoolCounters, pool: str) -> None:
        self._counters = counters
        self._pool = pool
        self._code = BoundedLabel(CODES_MOST)
        self._flying: dict[str, WatchedPlan] = {}
        self._left: dict[str, dict[str, None]] = {}

    def begin(self, view: ClusterView) -> None:
        """Begin with the view's state; plans that ended before are not counted."""
        self._flying = {plan.id: WatchedPlan(plan, plan.resumes) for plan in view.in_flight.values()}
        self._left = {job: left for job, left in self._left.items() if job in view.jobs}

    def observe(self, view: ClusterView, received: Received[Any], *, accepted: bool) -> None:
        """A record about a plan was folded."""
        event = received.event
        plan = view.plan(event.plan)
        if not accepted:
            if view.refused:
                kind = plan.kind.value if plan else "limits"
                self._counters.plans.labels(self._pool, kind, PlanStatus.VOID.value).inc()
                self._counters.void_plans.labels(self._pool, kind, view.refused.value).inc()
            return
        if plan is None:
            return
        watched = self._flying.get(plan.id)
        if watched is None:
            watched = self._flying[plan.id] = WatchedPlan(plan, plan.resumes)
        self._step(watched, received)
        if plan.status is not PlanStatus.IN_FLIGHT:
            self._conclude(watched, received)

    def sweep(self, view: ClusterView, received: Received[Any]) -> None:
        """A record may have ended plans that it does not name."""
        for plan, watched in list(self._flying.items()):
            if plan not in view.in_flight:
                self._conclude(watched, received)

    def forget(self, job: str) -> None:
        """A job has ended."""
        self._left.pop(job, None)

    def _step(self, watched: WatchedPlan, received: Received[Any]) -> None:
        event, at_ms = received.event, received.at_ms
        if isinstance(event, c.StepBegun):
            watched.step, watched.begun_ms = event.step.value, at_ms
            return
        if watched.begun_ms is None or getattr(event, "attempt", None) is None:
            return
        kind = watched.plan.kind.value
        if isinstance(event, c.StepFailed):
            self._counters.step_failures.labels(self._pool, kind, watched.step, self._code(event.code)).inc()
        else:
            seconds = max(0, at_ms - watched.begun_ms) / 1000
            self._counters.step_seconds.labels(self._pool, kind, watched.step).observe(
                seconds, exemplar_of(received.headers)
            )
        watched.begun_ms = None

    def _conclude(self, watched: WatchedPlan, received: Received[Any]) -> None:
        plan, event = watched.plan, received.event
        kind = plan.kind.value
        del self._flying[plan.id]
        self._counters.plans.labels(self._pool, kind, plan.status.value).inc()
        if lost := getattr(event, "steps_lost", 0):
            self._counters.steps_lost.labels(self._pool, kind).inc(lost)
        if plan.status is not PlanStatus.FINISHED:
            return
        exemplar = exemplar_of(received.headers)
        seconds = max(0, received.at_ms - plan.made_ms) / 1000
        self._counters.plan_seconds.labels(self._pool, kind).observe(seconds, exemplar)
        if watched.resumes:
            self._counters.resumptions.labels(self._pool).inc()
        if plan.sources and plan.targets:
            paused_ms = getattr(event, "paused_ms", None)
            if paused_ms is not None:
                self._counters.pause_seconds.labels(self._pool, kind).observe(paused_ms / 1000, exemplar)
            self._moved(plan)

    def _moved(self, plan: Plan) -> None:
        rule = plan.move.value if plan.move else plan.kind.value
        arrived = [node for node in plan.targets if node not in plan.sources]
        if not arrived:
            return
        self._counters.moves.labels(self._pool, rule).inc()
        left = self._left.setdefault(plan.job, {})
        if any(node in left for node in arrived):
            self._counters.moves_back.labels(self._pool, rule).inc()
        left |= dict.fromkeys(plan.sources)
        while len(left) > NODES_LEFT_MOST:
            del left[next(iter(left))]
