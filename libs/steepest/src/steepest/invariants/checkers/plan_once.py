"""Checker: no plan is carried out twice."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.checkers.step_rules import Steps, Walk
from steepest.invariants.verdict import Checker

Acted = c.StepFailed | c.CheckpointSaved | c.JobStopped | c.JobPlaced | c.JobResumed


class PlanOnce(Checker):
    """Each plan is made once, concluded in one way, and each of its steps is done once for each incarnation.

    A migrator acts on a step only after it has read back a beginning of it that counts: the plan's next attempt, while
    the plan is not over and the step not done. So an outcome of an attempt without a counting beginning is a breach: a
    migrator acted on a plan that was over, or again on a step that was done. An outcome of an older attempt is no
    breach; it comes from a migrator that another one has overtaken. Two conclusions of one plan must agree: migrators
    that overlap may both write the same one, but a move that finished did not fail.
    """

    name = "plan-once"

    def __init__(self) -> None:
        super().__init__()
        self._steps = Steps()

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """Take in the next record."""
        event, offset = received.event, received.offset
        match event:
            case c.PlacementPlanned() | c.MigrationPlanned():
                if (walk := self._steps.plans.get(event.plan)) is not None:
                    self.breach(f"plan {event.plan} is made twice", walk.made, offset)
            case c.StepFailed() | c.CheckpointSaved() | c.JobStopped() | c.JobPlaced() | c.JobResumed():
                self._check_outcome(event, offset)
            case c.MigrationFinished() | c.MigrationFailed() | c.PlanAbandoned():
                self._check_conclusion(self._steps.plans.get(event.plan), event, offset)
        self._steps.feed(received)

    def _check_outcome(self, event: Acted, offset: int) -> None:
        walk = self._steps.plans.get(event.plan)
        if walk is None or event.attempt > walk.attempt:
            message = (
                f"{type(event).__name__} tells of attempt {event.attempt} of plan {event.plan}, which never counted"
            )
            self.breach(message, *([] if walk is None else [walk.made]), offset)

    def _check_conclusion(self, walk: Walk | None, event: c.ClusterEvent, offset: int) -> None:
        """A conclusion after another one. After the end of the job it is too late, which harms nobody."""
        if walk is None or walk.over is None or not isinstance(walk.end, c.MigrationFinished | c.MigrationFailed):
            return
        if _told(event) != _told(walk.end):
            self.breach(f"plan {walk.plan} ended as {_told(walk.end)} and as {_told(event)}", walk.over, offset)


def _told(event: c.ClusterEvent) -> str:
    """What a conclusion says, without the times, which depend on who says it."""
    match event:
        case c.MigrationFinished():
            return f"finished on {event.target}"
        case c.MigrationFailed():
            return f"failed ({event.code}), with its job on {event.node or 'no node'}"
    return "abandoned"
