"""Checker: no job is stopped for a move before its target is reserved."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker

_ASKED = (CheckpointMode.ON_REQUEST, CheckpointMode.SYSTEM)


class ReservedFirst(Checker):
    """A job is stopped for a move only when it is proven where it continues, and from what.

    Each STOP of a migration, or of a plan that suspends, scales or moves a whole job, that counts and names the
    incarnation to be stopped is checked; the STOP of a cancel needs no next place. Where it begins, the targets that the
    plan names must be known and have room for the job besides all that they hold; the step must act where the plan says
    the job is, and of a gang also where replicas of it have ended; and a job that saves on request must have saved for
    this plan: its ``CheckpointSaved`` must count. A job that saves when it is stopped must have proven before that it
    can. Where surplus replicas leave, the job is not stopped. Where a target was declared gone while STOP was under way,
    the job may be stopped in part: STOP begins again without a target, and the job goes back.
    """

    name = "reserved-first"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._stopping = 0

    def before(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.before``."""
        self._stopping = self._stopping_of(received.event)

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        if isinstance(event, c.StepBegun) and self._stopping_of(event) and not self._stopping:
            self._check(event, received.offset)

    def _stopping_of(self, event: c.ClusterEvent) -> int:
        """The attempt of the STOP under way in the event's plan; 0 without one."""
        progress = self._folds.steps.plans.get(event.plan) if isinstance(event, c.StepBegun) else None
        return progress.attempt if progress is not None and progress.stopping else 0

    def _check(self, stop: c.StepBegun, offset: int) -> None:
        progress = self._folds.steps.plans[stop.plan]
        planned = progress.planned
        if not isinstance(planned, c.MigrationPlanned | c.TransitionPlanned) or stop.incarnation != planned.incarnation:
            return
        if isinstance(planned, c.TransitionPlanned) and planned.kind is c.Transition.SHED:
            return  # those that stay are where the job continues
        if progress.has_no_target:
            return  # an earlier beginning of this STOP was checked
        for why in self._why_not(planned, stop, has_saved=(c.Step.CHECKPOINT, stop.incarnation) in progress.done):
            self.breach(f"plan {progress.plan} stops job {progress.job}: {why}", progress.made, offset)

    def _why_not(
        self, plan: c.MigrationPlanned | c.TransitionPlanned, stop: c.StepBegun, *, has_saved: bool
    ) -> list[str]:
        mode = self._folds.modes.of(plan.job)
        targets, sources = (
            ((plan.target,), (plan.source,)) if isinstance(plan, c.MigrationPlanned) else (plan.nodes, plan.sources)
        )
        missed = [source for source in sources if source not in (stop.nodes or (stop.node,))]
        reasons = [
            "" if all(map(self._folds.reservations.fits, targets)) else "its target has no room",
            f"on {stop.node}, and not on {missed[0]}" if missed else "",
            self._folds.modes.why_immovable(plan.job),
            "it has not saved" if mode in _ASKED and not has_saved else "",
        ]
        return [why for why in reasons if why]
