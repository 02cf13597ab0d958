"""Checker: no step of a void plan begins."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.allowed_nodes import AllowedNodes
from steepest.invariants.checkers.step_rules import ObservedPlan, Planned
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker


class ValidPlans(Checker):
    """No step begins of a plan that the log does not hold, or that is void at its position.

    A plan is void if the incarnation that it names is not its job's current one, if another plan of the job is in
    flight, if its target is unknown, lost or full, or a node that the job may not run on, or if it moves a job that never
    ran, is on the target already or cannot be checkpointed. Which nodes a gang may run on holds for each of its replicas;
    where some are already, they may stay. One that lets replicas leave which are no surplus is void as well. Void plans
    are harmless and stay in the log; a ``StepBegun`` of one is a breach. Of two plans of one job whose times in flight
    overlap at most one may begin. A cancel is not planned by an event of its own: a STOP of an unknown plan is one if the
    job's cancel was requested before, or if it stops what is left of a gang.
    """

    name = "valid-plans"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._allowed = AllowedNodes()
        self._attempt = 0
        self._newest: dict[str, int] = {}
        self._placed: dict[str, int] = {}
        self._stopped_without: dict[str, None] = {}  # jobs that a STOP may stop whose plan no event has made
        self._void: dict[str, str] = {}
        self._begun: dict[str, list[ObservedPlan]] = {}

    def before(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.before``: a plan is void or not where it is made, and a beginning counts after that."""
        event = received.event
        self._attempt = self._attempt_of(event)
        self._allowed.feed(event)
        match event:
            case c.PlacementPlanned() | c.MigrationPlanned() | c.TransitionPlanned() if (
                event.plan not in self._folds.steps.plans
            ):
                self._void[event.plan] = self._why_void(event)
            case c.JobCancelRequested() | c.GoalReached() | c.ReactionPlanned():
                self._stopped_without[event.job] = None
            case c.JobSubmitted() if event.spec.is_gang:
                self._stopped_without[event.job] = None
            case c.StepBegun():
                self._check(event, received.offset)

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        match event:
            case c.StepBegun() if self._attempt_of(event) > self._attempt:
                self._follow(event, received.offset)
            case c.JobPlaced() if event.incarnation == self._newest.get(event.job):
                self._placed[event.job] = event.incarnation
            case c.JobEnded():
                # That it may be stopped so stays: the beginning may come behind its end.
                for fold in (self._begun, self._newest, self._placed):
                    fold.pop(event.job, None)

    def _attempt_of(self, event: c.ClusterEvent) -> int:
        progress = self._folds.steps.plans.get(event.plan) if isinstance(event, c.StepBegun) else None
        return progress.attempt if progress else 0

    def _why_void(self, plan: Planned) -> str:
        """Why a plan is certainly void at its position; empty if it may be valid."""
        job = plan.job
        if job not in self._folds.reservations.specs:
            return f"job {job} was never submitted"
        current = {self._newest.get(job, 0), self._placed.get(job, 0)}
        if plan.incarnation not in current:
            return f"it names incarnation {plan.incarnation}, but the job's is {max(current)}"
        if why := "" if isinstance(plan, c.PlacementPlanned) else self._why_not_moved(plan):
            return why
        if (node := self._allowed.refused(plan)) is not None:
            return f"the job may not run on node {node}"
        if not isinstance(plan, c.MigrationPlanned) and plan.after:
            return ""  # it waits for room; whether there is any shows when it begins
        return self._folds.reservations.why_no_places(plan)

    def _why_not_moved(self, plan: c.MigrationPlanned | c.TransitionPlanned) -> str:
        if plan.incarnation == 0:
            return "the job never ran"
        if isinstance(plan, c.MigrationPlanned) and plan.source == plan.target:
            return f"the job is already on {plan.target}"
        if isinstance(plan, c.TransitionPlanned) and plan.kind is c.Transition.SHED:
            return self._why_not_shed(plan)
        return self._folds.modes.why_immovable(plan.job)

    def _why_not_shed(self, plan: c.TransitionPlanned) -> str:
        """Why surplus replicas cannot leave; those that stay restore nothing."""
        spec = self._folds.reservations.specs[plan.job]
        if not any(role.may_leave for role in spec.all_roles) or spec.success is not c.SuccessRule.CHIEF:
            return "no replica of it may leave"
        if not plan.leaving or 0 in plan.leaving:
            return "replica 0 leaves, or none"
        return "" if spec.allows(plan.sizes) else f"it cannot run with {plan.sizes} replicas"

    def _check(self, event: c.StepBegun, offset: int) -> None:
        progress = self._folds.steps.plans.get(event.plan)
        if progress is None:
            if event.step is not c.Step.STOP or event.job not in self._stopped_without:
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
        progress = self._folds.steps.plans[event.plan]
        begun = self._begun.setdefault(event.job, [])
        for other in begun:
            earlier, later = sorted((other, progress), key=lambda one: one.made)
            if (earlier.over is None or earlier.over > later.made) and not earlier.gone:
                message = f"plan {progress.plan} begins while plan {other.plan} of job {event.job} was in flight"
                self.breach(message, other.made, progress.made, offset)
        begun.append(progress)
