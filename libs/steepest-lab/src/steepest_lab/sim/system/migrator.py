"""The virtual-time shell of the migration machine: its events go to a simulated log, its steps to simulated nodes.

It owns when an act happens. What is due is :mod:`steepest.sagas.migration_machine`, the calls of a step and their
outcome are :mod:`steepest.sagas.step_calls`: the same as live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from steepest.cluster.port import ReplicaId
from steepest.errors import ClusterError
from steepest.events import cluster as c
from steepest.sagas.calls import (
    Call,
    Calls,
    CheckpointCall,
    GatherCall,
    LookupCall,
    ReleaseCall,
    StartCall,
    StopCall,
    WaitCall,
)
from steepest.sagas.migration_machine import MigrationMachine, SendEvent
from steepest.sagas.step_calls import release_calls, step_calls
from steepest.sagas.step_task import StepTask
from steepest.view.cluster_view import ClusterView
from steepest.view.plans import UNSAVED
from steepest_lab.simulated.nodes import SimulatedNodes

GIVEN_UP = (c.MigrationFailed, c.TransitionFailed, c.PlanAbandoned)
"""The conclusions of plans that leave a process waiting after its checkpoint."""

Answered = Callable[[Any], None]
"""Is called once, with the answer to a call or with its error."""


class SimulatedMigrator:
    """Carries out plans.

    Attributes:
        machine: Says what is due; :meth:`act` does it.
        observe: Notices what is due.
    """

    def __init__(
        self, nodes: SimulatedNodes, append: Callable[[c.ClusterEvent], None], now_ms: Callable[[], int], act_s: float
    ) -> None:
        """A migrator on some nodes.

        Args:
            nodes: On which to act.
            append: Appends an event.
            now_ms: The time of records.
            act_s: Seconds that a stop or a start of a move takes in addition to the process's own time.
        """
        self.machine = MigrationMachine()
        self.observe = self.machine.observe
        self._nodes = nodes
        self._append = append
        self._now_ms = now_ms
        self._act_s = act_s

    def caught_up(self, view: ClusterView) -> None:
        """Take over the running plans of a log."""
        self.machine.caught_up(view, self._now_ms())

    def act(self) -> None:
        """Do the due actions. Actions that become due by them need another call, once the log has their cause."""
        due, self.machine.due = self.machine.due, []
        for action in due:
            match action:
                case StepTask():
                    self._act(action)
                case SendEvent(event, release, saver) if release and isinstance(event, GIVEN_UP):
                    self._go_on(release_calls(event, ReplicaId(event.job, saver), release), self._append)
                case SendEvent(event):
                    self._append(event)

    def _act(self, step: StepTask) -> None:
        def end(outcome: c.ClusterEvent) -> None:
            self._append(outcome)
            self.machine.finish(step.begun)

        slow = step.kind not in UNSAVED and step.begun.step in {c.Step.STOP, c.Step.START}
        if slow and self._act_s:
            timeline = self._nodes.timeline
            timeline.call_at(timeline.now_s() + self._act_s, lambda: self._go_on(step_calls(step), end))
        else:
            self._go_on(step_calls(step), end)

    def _go_on(self, calls: Calls, end: Callable[[c.ClusterEvent], None], answer: Any = None) -> None:
        """Make the next call, and those after it as the answers come; ``end`` takes the event."""
        try:
            call = calls.throw(answer) if isinstance(answer, ClusterError) else calls.send(answer)
        except StopIteration as stop:
            end(stop.value)
            return
        self._call(call, lambda answer: self._go_on(calls, end, answer))

    def _call(self, call: Call, answered: Answered) -> None:
        answer: Any = None
        try:
            match call:
                case CheckpointCall(replica, incarnation, request, hold_s, timeout_s):
                    self._nodes.checkpoint(
                        replica, incarnation, request=request, hold_s=hold_s, timeout_s=timeout_s, then=answered
                    )
                    return
                case StopCall(replica, incarnation, grace_s):
                    self._nodes.stop(replica, incarnation, grace_s=grace_s, then=answered)
                    return
                case WaitCall(replica, incarnation, at_least, timeout_s):
                    self._nodes.wait_for_step(
                        replica, incarnation, at_least=at_least, timeout_s=timeout_s, then=answered
                    )
                    return
                case GatherCall(calls):
                    self._gather(calls, answered)
                    return
                case StartCall(replica, incarnation, node, spec, restore):
                    self._nodes.start(replica, incarnation, node, spec, restore)
                case ReleaseCall(replica, incarnation, request):
                    self._nodes.release(replica, incarnation, request=request)
                case LookupCall(replica):
                    answer = self._nodes.lookup(replica)
        except ClusterError as error:
            answer = error
        answered(answer)

    def _gather(self, calls: Sequence[Call], answered: Answered) -> None:
        """Make several calls; simulated nodes answer each in time."""
        answers: list[Any] = [None] * len(calls)
        missing = len(calls)

        def take(index: int, answer: Any) -> None:
            nonlocal missing
            answers[index] = answer
            missing -= 1
            if not missing:
                answered(tuple(answers))

        for index, call in enumerate(calls):
            self._call(call, partial(take, index))
        if not calls:
            answered(())
