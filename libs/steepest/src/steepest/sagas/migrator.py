"""The migrator: carries out every valid plan on the cluster, one step after the other, each fenced by ``StepBegun``.

It appends ``StepBegun`` and acts only once it has read it back where the view still holds the plan; so a cancel that came
before wins, and one that comes later is handled after the step. A step whose migrator is gone is taken over under a new
attempt, which outdates whatever the older one may still report: at once by a migrator that starts, and after the step's
time limit by one that was there before.
"""

from __future__ import annotations

import asyncio
import secrets

import msgspec
import structlog

from steepest.clock import Clock
from steepest.cluster.port import Cluster, ReplicaId
from steepest.events import cluster as c
from steepest.events.received import SOURCE, Received
from steepest.runtime.effector import Effector, Send
from steepest.sagas.act import LOOK_UP_S, SLACK_S, act, time_limit_s
from steepest.sagas.janitor import Janitor
from steepest.sagas.next_action import begin, next_action
from steepest.sagas.task import Task, request_of, task
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Plan, PlanKind

logger = structlog.get_logger(__name__)

ACT_WITHIN_S = 10.0
"""Age of a ``StepBegun`` of ours beyond which it is begun anew before acting: we may have been paused meanwhile, and others
may have taken over."""


class Telling(msgspec.Struct, frozen=True):
    """An event to append; before it, a process that may wait after its checkpoint is to be released."""

    event: c.ClusterEvent
    release: bool = False


class Known(msgspec.Struct):
    """What this process has done about a plan in flight, and seen of it.

    Attributes:
        sent: When each beginning of ours was sent; a conclusion after attempt n stands under −1 − n.
        acting: The attempt of ours that is acted on, until its outcome is in the log.
        attempt: The newest beginning seen that counts, of whomever.
        since_counted_ms: When it was seen.
        request: The checkpoint that was asked for.
    """

    sent: dict[int, float] = {}
    acting: int | None = None
    attempt: int = 0
    since_counted_ms: int = 0
    request: str = ""


class Migrator(Effector):
    """Carries out placements, migrations and cancels."""

    name = "migrator"

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._source = f"migrator-{secrets.token_hex(4)}"
        self._sequence = 0
        self._work: asyncio.Queue[Telling | Task] = asyncio.Queue()
        self._known: dict[str, Known] = {}
        self._janitor = Janitor(cluster)

    # --- following the log (nothing here waits) ------------------------------------------------------------------------

    def caught_up(self, view: ClusterView) -> None:
        """Take over what is under way and not in our own hands."""
        self._known = {plan: known for plan, known in self._known.items() if plan in view.in_flight}
        for plan in list(view.in_flight.values()):
            known = self._of(plan)
            if not plan.begun:
                self._move_on(view, plan, self._clock.now_ms())
            elif known.acting != plan.attempt:
                self._begin(view, plan)
        self._janitor.caught_up(view)

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Move on the plan that a record is about."""
        event = received.event
        if isinstance(event, c.StepBegun) and accepted:
            self._read_back(view, event, ours=received.headers.get(SOURCE) == self._source)
        elif isinstance(event, c.Tick):
            for plan in list(view.in_flight.values()):
                self._look_after(view, plan, received.at_ms)
        if view.touched is not None and (touched := view.plan_of(view.touched)) is not None:
            self._move_on(view, touched, received.at_ms)
        over = getattr(event, "plan", None)
        if over is not None and over not in view.in_flight:
            self._known.pop(over, None)
        self._janitor.observe(view, event)

    def _of(self, plan: Plan) -> Known:
        return self._known.setdefault(plan.id, Known())

    def _move_on(self, view: ClusterView, plan: Plan, now_ms: int) -> None:
        action = next_action(view, plan, now_ms)
        if isinstance(action, c.StepBegun):
            self._begin(view, plan)
        elif action is not None:
            may_wait = plan.kind is PlanKind.MIGRATE and view.jobs[plan.job].alive
            self._send_once(plan, -1 - plan.attempt, Telling(action, release=may_wait))

    def _begin(self, view: ClusterView, plan: Plan) -> None:
        """Begin the step that is due, or take over the one under way."""
        event = begin(plan, view.jobs[plan.job])
        self._send_once(plan, event.attempt, Telling(event))

    def _send_once(self, plan: Plan, number: int, telling: Telling) -> None:
        sent = self._of(plan).sent
        if number not in sent:
            sent[number] = self._clock.monotonic()
            self._work.put_nowait(telling)

    def _read_back(self, view: ClusterView, begun: c.StepBegun, *, ours: bool) -> None:
        job, plan = view.jobs[begun.job], view.in_flight[begun.plan]
        known = self._of(plan)
        known.attempt, known.since_counted_ms = begun.attempt, view.counted_ms
        if not ours:
            return
        if self._is_stale(begun):
            self._begin(view, plan)
            return
        step = task(begun, job, plan, view.parameters.limits)
        known.acting = begun.attempt
        known.request = step.request if begun.step is c.Step.CHECKPOINT else known.request
        self._work.put_nowait(step)

    def _is_stale(self, begun: c.StepBegun) -> bool:
        known = self._known.get(begun.plan)
        sent = known.sent.get(begun.attempt) if known else None
        return sent is None or self._clock.monotonic() - sent > ACT_WITHIN_S

    def _look_after(self, view: ClusterView, plan: Plan, now_ms: int) -> None:
        """Move on what had to wait for counted time, and take over what nobody reports about."""
        known = self._of(plan)
        if not plan.begun:
            self._move_on(view, plan, now_ms)
        elif known.acting != plan.attempt:
            limit_ms = 1000 * (time_limit_s(plan.steps[0], view.parameters.limits) + SLACK_S)
            if view.counted_ms - known.since_counted_ms >= limit_ms:
                self._begin(view, plan)

    # --- doing ---------------------------------------------------------------------------------------------------------

    async def run(self, send: Send) -> None:
        """Do what was queued; steps of different plans run side by side."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._janitor.run())
            while True:
                match await self._work.get():
                    case Task() as step:
                        group.create_task(self._do(step, send))
                    case telling:
                        group.create_task(self._tell(telling, send))

    async def _do(self, step: Task, send: Send) -> None:
        try:
            if self._is_stale(step.begun):
                return  # we were held up; whoever looks after the plan begins it anew
            outcome = await act(self._cluster, step)
            if isinstance(outcome, c.StepFailed):
                logger.warning(
                    "step failed", plan=outcome.plan, step=outcome.step, code=outcome.code, why=outcome.message
                )
            await send(outcome)
        finally:
            known = self._known.get(step.begun.plan)
            if known is not None and known.acting == step.begun.attempt:
                known.acting = None

    async def _tell(self, telling: Telling, send: Send) -> None:
        event = telling.event
        if telling.release and isinstance(event, c.MigrationFailed | c.PlanAbandoned):
            await self._release(event.plan, event.job)
        self._sequence += 1
        await send(event, source=self._source, numbers=(self._sequence,))

    async def _release(self, plan: str, job: str) -> None:
        """A process that waits after its checkpoint trains on when its move is given up."""
        known = self._known.get(plan)
        # What a migrator before us asked for had this name, if it was asked for once.
        request = (known.request if known else "") or request_of(plan)
        try:
            async with asyncio.timeout(LOOK_UP_S):
                status = await self._cluster.lookup(ReplicaId(job))
                if status is not None:
                    await self._cluster.release(ReplicaId(job), status.incarnation, request=request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the hold is over some time
            logger.warning("could not release; the process waits until its hold is over", job=job, why=repr(error))
