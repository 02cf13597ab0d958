"""Checker: no step of a void plan begins."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.checkers.modes import Modes
from steepest.invariants.checkers.step_rules import ObservedPlan
from steepest.invariants.load import Reservations
from steepest.invariants.verdict import Checker


class ValidPlans(Checker):
    """No step begins of a plan that the log does not hold, or that is void at its position.

    A plan is void if the incarnation that it names is not its job's current one, if another plan of the job is in
    flight, if its target is unknown, lost or full, or if it moves a job that never ran, is on the target already or
    cannot be checkpointed. Void plans are harmless and stay in the log; a ``StepBegun`` of one is a breach. Of two
    plans of one job whose times in flight overlap at most one may begin. A cancel is not planned by an event of its
    own: a STOP of an unknown plan is one if the job's cancel was requested before.
    """

    name = "valid-plans"

    def __init__(self) -> None:
        super().__init__()
        self._reservations = Reservations()
        self._modes = Modes()
        self._newest: dict[str, int] = {}
        self._placed: dict[str, int] = {}
        self._cancels: dict[str, None] = {}
        self._void: dict[str, str] = {}
        self._begun: dict[str, list[ObservedPlan]] = {}

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        match event:
            case c.PlacementPlanned() | c.MigrationPlanned() if event.plan not in self._reservations.steps.plans:
                self._void[event.plan] = self._why_void(event)
            case c.JobCancelRequested():
                self._cancels[event.job] = None
            case c.StepBegun():
                self._check(event, received.offset)
        attempt = self._attempt(event)
        self._reservations.feed(received)
        self._modes.feed(event)
        match event:
            case c.StepBegun() if self._attempt(event) > attempt:
                self._follow(event, received.offset)
            case c.JobPlaced() if event.incarnation == self._newest.get(event.job):
                self._placed[event.job] = event.incarnation
            case c.JobEnded():
                for fold in (self._begun, self._newest, self._placed, self._cancels):
                    fold.pop(event.job, None)

    def _attempt(self, event: c.ClusterEvent) -> int:
        progress = self._reservations.steps.plans.get(event.plan) if isinstance(event, c.StepBegun) else None
        return progress.attempt if progress else 0

    def _why_void(self, plan: c.PlacementPlanned | c.MigrationPlanned) -> str:
        """Why a plan is certainly void at its position; empty if it may be valid."""
        job = plan.job
        if job not in self._reservations.requests:
            return f"job {job} was never submitted"
        current = {self._newest.get(job, 0), self._placed.get(job, 0)}
        if plan.incarnation not in current:
            return f"it names incarnation {plan.incarnation}, but the job's is {max(current)}"
        if isinstance(plan, c.PlacementPlanned):
            return next((why for node in plan.nodes if (why := self._reservations.why_no_place(node, job))), "")
        if plan.incarnation == 0 or plan.source == plan.target:
            return "the job never ran" if plan.incarnation == 0 else f"the job is already on {plan.target}"
        return self._modes.why_immovable(job) or self._reservations.why_no_place(plan.target, job)

    def _check(self, event: c.StepBegun, offset: int) -> None:
        progress = self._reservations.steps.plans.get(event.plan)
        if progress is None:
            if event.step is not c.Step.STOP or event.job not in self._cancels:
                self.breach(f"a step of plan {event.plan} begins, which is not in the log", offset)
        elif why := self._void.get(event.plan):
            self.breach(
                f"plan {event.plan} is void ({why}), but its step {event.step.value} begins", progress.made, offset
            )

    def _follow(self, event: c.StepBegun, offset: int) -> None:
        """Process a beginning that counts."""
        if event.step is c.Step.START:
            self._newest[event.job] = event.incarnation
        if event.attempt > 1:
            return
        progress = self._reservations.steps.plans[event.plan]
        begun = self._begun.setdefault(event.job, [])
        for other in begun:
            earlier, later = sorted((other, progress), key=lambda one: one.made)
            if earlier.over is None or earlier.over > later.made:
                message = f"plan {progress.plan} begins while plan {other.plan} of job {event.job} was in flight"
                self.breach(message, other.made, progress.made, offset)
        begun.append(progress)
