"""The live shell of the migration machine: its events go to the log, its steps to the cluster.

It owns what only real time brings. A process may be paused between sending a ``StepBegun`` and acting on it, and another
migrator may have taken over meanwhile: a beginning that is too old is begun again instead.
"""

from __future__ import annotations

import asyncio
import secrets

from steepest.clock import Clock
from steepest.cluster.port import Cluster, ReplicaId
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.logger import Logger
from steepest.runtime.effector import Effector, Send
from steepest.sagas.act import act, release
from steepest.sagas.janitor import Janitor
from steepest.sagas.migration_machine import MigrationMachine, SendEvent
from steepest.sagas.placing_turns import MOST
from steepest.sagas.step_task import StepTask
from steepest.view.cluster_view import ClusterView

logger = Logger()

ACT_WITHIN_S = 10.0
"""Age of a ``StepBegun`` of ours beyond which the step is begun again before acting."""


class Migrator(Effector):
    """Carries out placements, migrations and cancels."""

    name = "migrator"

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._source = f"migrator-{secrets.token_hex(4)}"
        self._sequence = 0
        self._machine = MigrationMachine(self._source, MOST)
        self._sent_s: dict[tuple[str, int], float] = {}
        self._work: asyncio.Queue[SendEvent | StepTask] = asyncio.Queue()
        self._janitor = Janitor(cluster)

    # --- following the log (nothing here waits) ------------------------------------------------------------------------

    def caught_up(self, view: ClusterView) -> None:
        """Take over running plans that this migrator does not handle yet."""
        self._machine.caught_up(view, self._clock.now_ms())
        self._queue_due(view)
        self._janitor.caught_up(view)

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Move on the plan that a record is about."""
        self._machine.observe(view, received, accepted=accepted)
        if self._machine.due:
            self._queue_due(view)
        self._janitor.observe(view, received.event, accepted=accepted)

    def _queue_due(self, view: ClusterView) -> None:
        for action in self._machine.due:  # which may grow meanwhile
            if isinstance(action, StepTask) and self._is_stale(action.begun):
                self._machine.begin_again(view, action.begun)
                continue
            if isinstance(action, SendEvent) and isinstance(action.event, c.StepBegun):
                self._note_sent(action.event)
            self._work.put_nowait(action)
        self._machine.due.clear()

    def _note_sent(self, begun: c.StepBegun) -> None:
        now_s = self._clock.monotonic()
        while self._sent_s and now_s - self._sent_s[oldest := next(iter(self._sent_s))] > ACT_WITHIN_S:
            del self._sent_s[oldest]
        self._sent_s[begun.plan, begun.attempt] = now_s

    def _is_stale(self, begun: c.StepBegun) -> bool:
        sent_s = self._sent_s.get((begun.plan, begun.attempt))
        return sent_s is None or self._clock.monotonic() - sent_s > ACT_WITHIN_S

    # --- doing ---------------------------------------------------------------------------------------------------------

    async def run(self, send: Send) -> None:
        """Do the queued steps; steps of different plans run concurrently."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._janitor.run(send))
            while True:
                match await self._work.get():
                    case StepTask() as step:
                        group.create_task(self._do(step, send))
                    case SendEvent() as action:
                        group.create_task(self._send(action, send))

    async def _do(self, step: StepTask, send: Send) -> None:
        try:
            if self._is_stale(step.begun):
                return  # we were held up; the migrator that looks after the plan begins it again
            outcome = await act(self._cluster, step)
            if isinstance(outcome, c.StepFailed):
                logger.warning(
                    "step failed", plan=outcome.plan, step=outcome.step, code=outcome.code, why=outcome.message
                )
            await send(outcome, trace=step.trace)
        finally:
            self._machine.finish(step.begun)

    async def _send(self, action: SendEvent, send: Send) -> None:
        event = action.event
        if action.release and isinstance(event, c.MigrationFailed | c.TransitionFailed | c.PlanAbandoned):
            await release(self._cluster, event, ReplicaId(event.job, action.saver), action.release)
        self._sequence += 1
        await send(event, source=self._source, numbers=(self._sequence,), trace=action.trace)
