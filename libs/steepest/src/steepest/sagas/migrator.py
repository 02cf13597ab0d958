"""The migrator: carries out every valid plan on the cluster, one step after the other, each fenced by ``StepBegun``.

It appends ``StepBegun`` and acts only once it has read it back where the view still holds the plan; so a cancel that came
before wins, and one that comes later is handled after the step. A migrator that starts anew takes over the steps that it
finds begun, under a new attempt, which outdates whatever an older migrator may still report.
"""

from __future__ import annotations

import asyncio

import structlog

from steepest.clock import Clock
from steepest.cluster.port import Cluster, ReplicaId
from steepest.errors import ClusterError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.runtime.effector import Effector, Send
from steepest.sagas.act import Task, act, task
from steepest.sagas.next_action import begin, next_action
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Plan

logger = structlog.get_logger(__name__)

ACT_WITHIN_S = 10.0
"""Age of a ``StepBegun`` of ours beyond which it is begun anew before acting: we may have been paused meanwhile, and others
may have taken over."""


class Migrator(Effector):
    """Carries out placements, migrations and cancels."""

    name = "migrator"

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._work: asyncio.Queue[c.ClusterEvent | Task | str] = asyncio.Queue()
        self._sent: dict[str, dict[int, float]] = {}
        self._holds: dict[str, str] = {}
        self._delayed: dict[str, None] = {}

    # --- following the log (nothing here waits) ------------------------------------------------------------------------

    def caught_up(self, view: ClusterView) -> None:
        """Take over what is under way."""
        self._sent.clear()
        self._delayed.clear()
        for plan in list(view.in_flight.values()):
            if plan.begun:
                self._append(plan, begin(plan, view.jobs[plan.job]))
            else:
                self._move_on(view, plan, self._clock.now_ms())

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, counts: bool) -> None:
        """Move on the plan that a record is about."""
        event = received.event
        if isinstance(event, c.StepBegun) and counts:
            self._read_back(view, event)
        elif isinstance(event, c.JobEnded) and counts:
            self._work.put_nowait(event.job)
        elif isinstance(event, c.Tick):
            for plan_id in list(self._delayed):
                del self._delayed[plan_id]
                if (plan := view.in_flight.get(plan_id)) is not None:
                    self._move_on(view, plan, received.at_ms)
        if view.touched is not None and (plan := view.plan_of(view.touched)) is not None:
            self._move_on(view, plan, received.at_ms)
        over = getattr(event, "plan", None)
        if over is not None and over not in view.in_flight:
            self._sent.pop(over, None)

    def _move_on(self, view: ClusterView, plan: Plan, now_ms: int) -> None:
        action = next_action(view, plan, now_ms)
        if action is not None:
            self._append(plan, action)
        elif not plan.begun:
            self._delayed[plan.id] = None

    def _append(self, plan: Plan, event: c.ClusterEvent) -> None:
        """Send each beginning and each conclusion once; the attempt tells them apart."""
        attempt = event.attempt if isinstance(event, c.StepBegun) else -1 - plan.attempt
        sent = self._sent.setdefault(plan.id, {})
        if attempt not in sent:
            sent[attempt] = self._clock.monotonic()
            self._work.put_nowait(event)

    def _read_back(self, view: ClusterView, begun: c.StepBegun) -> None:
        sent = self._sent.get(begun.plan, {}).get(begun.attempt)
        if sent is None:
            return  # somebody else's
        job, plan = view.jobs[begun.job], view.in_flight[begun.plan]
        if self._clock.monotonic() - sent > ACT_WITHIN_S:
            self._append(plan, begin(plan, job))
        else:
            self._work.put_nowait(task(begun, job, view.parameters.limits))

    # --- doing ---------------------------------------------------------------------------------------------------------

    async def run(self, send: Send) -> None:
        """Do what was queued; steps of different plans run side by side."""
        async with asyncio.TaskGroup() as group:
            while True:
                match await self._work.get():
                    case Task() as step:
                        group.create_task(self._do(step, send))
                    case str(job):
                        group.create_task(self._forget(job))
                    case event:
                        group.create_task(self._tell(event, send))

    async def _do(self, step: Task, send: Send) -> None:
        if step.begun.step is c.Step.CHECKPOINT:
            self._holds[step.begun.plan] = step.request
        outcome = await act(self._cluster, step)
        if isinstance(outcome, c.StepFailed):
            logger.warning("step failed", plan=outcome.plan, step=outcome.step, code=outcome.code, why=outcome.message)
        await send(outcome)

    async def _tell(self, event: c.ClusterEvent, send: Send) -> None:
        match event:
            case c.MigrationFinished():
                self._holds.pop(event.plan, None)
            case c.MigrationFailed() | c.PlanAbandoned():
                await self._release(event.plan, event.job)
        await send(event)

    async def _release(self, plan: str, job: str) -> None:
        """A process that waits after its checkpoint trains on when its move is given up."""
        request = self._holds.pop(plan, None)
        if request is None:
            return  # nothing was asked for, or by a migrator before us: then the process waits until its hold is over
        try:
            status = await self._cluster.lookup(ReplicaId(job))
            if status is not None:
                await self._cluster.release(ReplicaId(job), status.incarnation, request=request)
        except ClusterError as error:
            logger.warning("could not release; the process waits until its hold is over", job=job, why=str(error))

    async def _forget(self, job: str) -> None:
        try:
            await self._cluster.forget(job)
        except ClusterError as error:
            logger.warning("could not forget an ended job", job=job, why=str(error))
