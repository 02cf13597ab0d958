"""Checker: no plan is executed twice."""

from __future__ import annotations

from collections import Counter

from steepest.events import cluster as c
from steepest.events.received import LOGIC, Received
from steepest.invariants.checkers.step_rules import Conclusion, EventKind, ObservedPlan
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker

Said = c.MigrationFinished | c.MigrationFailed | c.JobSuspended | c.TransitionFinished | c.TransitionFailed
"""The conclusions that say how a plan ended."""

Finished = c.MigrationFinished | c.JobSuspended | c.TransitionFinished

Acted = c.StepFailed | c.CheckpointSaved | c.JobStopped | c.SurplusStopped | c.JobPlaced | c.JobResumed


class PlanOnce(Checker):
    """Each plan is made once, concluded in one way, and each of its steps is done once for each incarnation.

    A migrator acts on a step only after it has read back a beginning of it that counts: the plan's next attempt, while
    the plan is not over and the step not done. So an outcome of an attempt without a counting beginning is a breach: a
    migrator acted on a plan that was over, or again on a step that was done. An outcome of an older attempt is no
    breach; it comes from a migrator that another one has overtaken. Two conclusions of one plan must agree: migrators
    that overlap may both write the same one, but a move that finished did not fail. Where its job is may differ by
    replicas that ended in between. A plan may be made again by another logic, to which the record that caused it gives
    other numbers: nothing follows from that, as the name is taken.

    A plan has finished only where its last step is done, and none is given up while it is not known whether its START
    took effect: what may run must be looked up first. A move of which the target starts nothing has not failed before its
    job was to be started again where it was.
    """

    name = "plan-once"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._made_by: dict[str, str] = {}

    def before(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.before``."""
        event, offset = received.event, received.offset
        match event:
            case c.PlacementPlanned() | c.MigrationPlanned() | c.TransitionPlanned():
                logic = received.headers.get(LOGIC, "")
                if self._made_by.setdefault(event.plan, logic) == logic and event.plan in self._folds.steps.plans:
                    self.breach(f"plan {event.plan} is made twice", self._folds.steps.plans[event.plan].made, offset)
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
                self._check_conclusion(self._folds.steps.plans.get(event.plan), event, offset)

    def _check_outcome(self, event: Acted, offset: int) -> None:
        progress = self._folds.steps.plans.get(event.plan)
        if progress is None or event.attempt > progress.attempt:
            message = f"{type(event).__name__} has attempt {event.attempt} of plan {event.plan}, which never counted"
            self.breach(message, *([] if progress is None else [progress.made]), offset)

    def _check_conclusion(self, progress: ObservedPlan | None, event: Conclusion, offset: int) -> None:
        """Check a conclusion. One that follows the end of the job is late, which is harmless."""
        if progress is None:
            return
        if progress.over is None:
            is_wanted = not self._folds.steps.is_cancelled(progress.job)
            if why := _why_not_over(progress, event, is_wanted=is_wanted):
                self.breach(f"plan {progress.plan} ended as {_conclusion(event)}, but {why}", progress.made, offset)
        elif isinstance(progress.end, Said) and not _agree(event, progress.end):
            message = f"plan {progress.plan} ended as {_conclusion(progress.end)} and as {_conclusion(event)}"
            self.breach(message, progress.over, offset)


def _why_not_over(progress: ObservedPlan, event: Conclusion, *, is_wanted: bool) -> str:
    """Why a plan cannot have ended so where it stands; empty if it may. ``is_wanted``: its end was not asked for."""
    if isinstance(event, Finished):
        is_short = progress.kind in {EventKind.SUSPEND, EventKind.SHED}
        last = c.Step.STOP if is_short else c.Step.VERIFY
        return "" if any(step is last for step, _ in progress.done) else f"its {last.value} is not done"
    if isinstance(event, c.MigrationFailed) and is_wanted and progress.is_refused_by_its_target:
        return "its job was not started again where it was"
    is_unknown = progress.unclear and progress.begun is not None and progress.begun.step is c.Step.START
    return "whether its start took effect is not known" if is_unknown and not progress.gone else ""


def _agree(one: c.ClusterEvent, two: c.ClusterEvent) -> bool:
    """Whether they say the same; replicas may have ended between the moments at which they were written."""
    match one, two:
        case (c.MigrationFailed(code=code, node=node), c.MigrationFailed(code=other, node=elsewhere)):
            return code == other and (node == elsewhere or node is None or elsewhere is None)
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
