"""Checker: no plan is executed twice."""

from __future__ import annotations

from collections import Counter

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.checkers.step_rules import ObservedPlan, Steps
from steepest.invariants.verdict import Checker

Said = c.MigrationFinished | c.MigrationFailed | c.JobSuspended | c.TransitionFinished | c.TransitionFailed
"""The conclusions that say how a plan ended."""

Acted = c.StepFailed | c.CheckpointSaved | c.JobStopped | c.SurplusStopped | c.JobPlaced | c.JobResumed


class PlanOnce(Checker):
    """Each plan is made once, concluded in one way, and each of its steps is done once for each incarnation.

    A migrator acts on a step only after it has read back a beginning of it that counts: the plan's next attempt, while
    the plan is not over and the step not done. So an outcome of an attempt without a counting beginning is a breach: a
    migrator acted on a plan that was over, or again on a step that was done. An outcome of an older attempt is no
    breach; it comes from a migrator that another one has overtaken. Two conclusions of one plan must agree: migrators
    that overlap may both write the same one, but a move that finished did not fail. Where a gang's job is may differ by
    replicas that ended in between.
    """

    name = "plan-once"

    def __init__(self) -> None:
        super().__init__()
        self._steps = Steps()

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event, offset = received.event, received.offset
        match event:
            case c.PlacementPlanned() | c.MigrationPlanned() | c.TransitionPlanned():
                if (progress := self._steps.plans.get(event.plan)) is not None:
                    self.breach(f"plan {event.plan} is made twice", progress.made, offset)
            case (
                c.StepFailed()
                | c.CheckpointSaved()
                | c.JobStopped()
                | c.SurplusStopped()
                | c.JobPlaced()
                | c.JobResumed()
            ):
                self._check_outcome(event, offset)
            case (
                c.MigrationFinished()
                | c.MigrationFailed()
                | c.JobSuspended()
                | c.TransitionFinished()
                | c.TransitionFailed()
                | c.PlanAbandoned()
            ):
                self._check_conclusion(self._steps.plans.get(event.plan), event, offset)
        self._steps.feed(received)

    def _check_outcome(self, event: Acted, offset: int) -> None:
        progress = self._steps.plans.get(event.plan)
        if progress is None or event.attempt > progress.attempt:
            message = f"{type(event).__name__} has attempt {event.attempt} of plan {event.plan}, which never counted"
            self.breach(message, *([] if progress is None else [progress.made]), offset)

    def _check_conclusion(self, progress: ObservedPlan | None, event: c.ClusterEvent, offset: int) -> None:
        """Check a conclusion that follows another one. One after the end of the job is late, which is harmless."""
        if progress is None or progress.over is None or not isinstance(progress.end, Said):
            return
        if not _agree(event, progress.end):
            message = f"plan {progress.plan} ended as {_conclusion(progress.end)} and as {_conclusion(event)}"
            self.breach(message, progress.over, offset)


def _agree(one: c.ClusterEvent, two: c.ClusterEvent) -> bool:
    """Whether they say the same; of a gang, replicas may have ended between the moments at which they were written."""
    match one, two:
        case (c.TransitionFailed(code=code), c.TransitionFailed(code=other)) if code != other:
            return False
        case (c.TransitionFailed(nodes=nodes), c.TransitionFailed(nodes=others)) | (
            c.TransitionFinished(nodes=nodes),
            c.TransitionFinished(nodes=others),
        ):
            fewer, more = sorted((Counter(nodes), Counter(others)), key=Counter.total)
            return fewer <= more
    return _conclusion(one) == _conclusion(two)


def _conclusion(event: c.ClusterEvent) -> str:
    """A conclusion in words, without its times, which depend on its writer."""
    match event:
        case c.MigrationFinished():
            return f"finished on {event.target}"
        case c.MigrationFailed():
            return f"failed ({event.code}), with its job on {event.node or 'no node'}"
        case c.JobSuspended():
            return "suspended"
        case c.TransitionFinished():
            return f"finished on {', '.join(event.nodes)}"
        case c.TransitionFailed():
            return f"failed ({event.code}), with its job on {', '.join(event.nodes) or 'no node'}"
    return "abandoned"
