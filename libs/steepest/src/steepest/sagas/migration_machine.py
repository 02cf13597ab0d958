"""Decides the migrator's next action for plans in flight: begin a step, act on one that was read back, or conclude.

It owns the rules of the saga. A step is begun once, and acted on only where its ``StepBegun`` is read back and the view
still holds the plan. A step whose migrator is gone is taken over under a new attempt, which makes any later report of the
older attempt outdated. Pure: it leaves what is due to a shell, which works in real or in virtual time.
"""

from __future__ import annotations

import msgspec

from steepest.events import cluster as c
from steepest.events.received import SOURCE, Received
from steepest.sagas.calls import SLACK_S
from steepest.sagas.next_action import begin, next_action
from steepest.sagas.placing_turns import PlacingTurns
from steepest.sagas.step_calls import patient, time_limit_s
from steepest.sagas.step_task import StepTask, request_of, step_task, step_trace
from steepest.view.cluster_view import ClusterView
from steepest.view.plans import UNSAVED
from steepest.view.state import Plan, PlanKind


class SendEvent(msgspec.Struct, frozen=True):
    """An event to append.

    Attributes:
        release: The checkpoint request after which the job's process may be waiting: the shell releases it first. Empty
            where no process waits.
        saver: The replica that may be waiting.
        trace: The ``traceparent`` that the event belongs to: its plan's, or its step's.
    """

    event: c.ClusterEvent
    release: str = ""
    saver: int = 0
    trace: str = ""


class PlanProgress(msgspec.Struct):
    """This migrator's actions for a plan in flight, and its observations.

    Attributes:
        sent: The attempts that it has begun; a conclusion after attempt n has the number −1 − n.
        acting: The attempt of its own that is acted on, until its outcome is in the log.
        first_start: The attempt of its own that is the first START of an incarnation.
        attempt: The newest beginning seen that counts, of any migrator.
        since_counted_ms: When it was seen.
        request: The checkpoint that was requested.
    """

    sent: dict[int, None] = {}
    acting: int | None = None
    first_start: int | None = None
    attempt: int = 0
    since_counted_ms: int = 0
    request: str = ""


class MigrationMachine:
    """Carries out plans.

    Attributes:
        due: What the shell is to do, in order; it empties the list.
    """

    def __init__(self, source: str = "", placed_at_once: int | None = None) -> None:
        """A machine without plans.

        Args:
            source: The name under which this migrator's events are numbered, by which it knows its own.
            placed_at_once: The most first placements that are under way together; the others wait for their turn. None:
                all may begin.
        """
        self.due: list[SendEvent | StepTask] = []
        self._source = source
        self._plans: dict[str, PlanProgress] = {}
        self._turns = PlacingTurns(placed_at_once) if placed_at_once is not None else None

    def caught_up(self, view: ClusterView, now_ms: int) -> None:
        """Take over running plans that this migrator does not handle yet. ``now_ms`` is the time of the wall clock."""
        self._plans = {plan: progress for plan, progress in self._plans.items() if plan in view.in_flight}
        for progress in self._plans.values():
            # What was sent may have been read as history, where it did not count and nothing took it back.
            progress.sent.clear()
        if self._turns is not None:
            placing = (plan.id for plan in view.in_flight.values() if plan.kind is PlanKind.PLACE and plan.begun)
            self._turns.restart(dict.fromkeys(placing))
        for plan in list(view.in_flight.values()):
            if not plan.begun:
                self._move_on(view, plan, now_ms)
            elif self._of(plan).acting != plan.attempt:
                self._begin(view, plan)

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Move on the plan that a record is about."""
        event = received.event
        if isinstance(event, c.Tick):
            for plan in list(view.in_flight.values()):
                self._look_after(view, plan, received.at_ms)
        elif isinstance(event, c.StepBegun):
            ours = received.headers.get(SOURCE, "") == self._source
            (self._read_back if accepted else self._take_back)(view, event, ours=ours)
        if view.touched is not None and (touched := view.plan_of(view.touched)) is not None:
            self._move_on(view, touched, received.at_ms)
        for due in view.newly_due:
            self._move_on(view, due, received.at_ms)
        if self._plans:
            over = getattr(event, "plan", None)
            if over is not None and over not in view.in_flight:
                self._plans.pop(over, None)

        if self._turns is not None:
            self._turns.note(event, view.in_flight)
            while (waiting := self._turns.next()) is not None:
                if waiting in view.in_flight:
                    self._move_on(view, view.in_flight[waiting], received.at_ms)

    def begin_again(self, view: ClusterView, begun: c.StepBegun) -> None:
        """Begin a step that was read back under a new attempt, because the shell may not act on this one."""
        self.finish(begun)
        self._begin(view, view.in_flight[begun.plan])

    def finish(self, begun: c.StepBegun) -> None:
        """A step is not acted on any more: its outcome is in the log, or the shell has given it up."""
        progress = self._plans.get(begun.plan)
        if progress is not None and progress.acting == begun.attempt:
            progress.acting = None

    def _of(self, plan: Plan) -> PlanProgress:
        return self._plans.setdefault(plan.id, PlanProgress())

    def _move_on(self, view: ClusterView, plan: Plan, now_ms: int) -> None:
        action = next_action(view, plan, now_ms)
        if isinstance(action, c.StepBegun):
            self._send_beginning(plan, action)
        elif action is not None:
            # A process waits only after a checkpoint, and trains on only when the plan is given up.
            given_up = isinstance(action, c.MigrationFailed | c.TransitionFailed | c.PlanAbandoned)
            may_wait = given_up and plan.kind not in UNSAVED and view.jobs[plan.job].alive
            # What a migrator before this one requested had this name, if it was requested once.
            request = (self._of(plan).request or request_of(plan.id)) if may_wait else ""
            self._send_once(plan, -1 - plan.attempt, SendEvent(action, request, view.jobs[plan.job].saver, plan.trace))

    def _begin(self, view: ClusterView, plan: Plan) -> None:
        """Begin the step that is due, or take over the one under way."""
        self._send_beginning(plan, begin(plan, view.jobs[plan.job]))

    def _send_beginning(self, plan: Plan, event: c.StepBegun) -> None:
        if self._turns is not None and plan.kind is PlanKind.PLACE and not self._turns.take(plan.id):
            return
        # If the cluster knows an incarnation that was never begun, the log has lost its newest records (was_forgotten).
        if event.step is c.Step.START and event.incarnation != plan.next_incarnation:
            self._of(plan).first_start = event.attempt
        self._send_once(plan, event.attempt, SendEvent(event, trace=step_trace(plan, event.attempt)))

    def _send_once(self, plan: Plan, number: int, action: SendEvent) -> None:
        sent = self._of(plan).sent
        if number not in sent:
            sent[number] = None
            self.due.append(action)

    def _take_back(self, _: ClusterView, begun: c.StepBegun, *, ours: bool) -> None:
        """Forget a begun step that does not count: an earlier record has changed the due step."""
        if ours and (progress := self._plans.get(begun.plan)) is not None:
            progress.sent.pop(begun.attempt, None)

    def _read_back(self, view: ClusterView, begun: c.StepBegun, *, ours: bool) -> None:
        job, plan = view.jobs[begun.job], view.in_flight[begun.plan]
        progress = self._of(plan)
        progress.attempt, progress.since_counted_ms = begun.attempt, view.counted_ms
        # The migrator that began the step acts on it; this one takes over only if it hears nothing (_look_after).
        if not ours:
            return
        first_start = begun.attempt == progress.first_start
        step = step_task(begun, job, plan, patient(plan, view.parameters.limits), first_start=first_start)
        progress.acting = begun.attempt
        progress.request = step.request if begun.step is c.Step.CHECKPOINT else progress.request
        self.due.append(step)

    def _look_after(self, view: ClusterView, plan: Plan, now_ms: int) -> None:
        """Move on what had to wait for counted time, and take over what no migrator reports about."""
        if self._turns is not None and self._turns.waits(plan.id):
            return
        if not plan.begun:
            self._move_on(view, plan, now_ms)
            return
        progress = self._of(plan)
        if progress.acting != plan.attempt:
            limit_ms = 1000 * (time_limit_s(plan.steps[0], patient(plan, view.parameters.limits)) + SLACK_S)
            if view.counted_ms - progress.since_counted_ms >= limit_ms:
                self._begin(view, plan)
