"""Decides which beginnings, outcomes and conclusions of plans count: a fold that several checkers share.

It owns the numbering of attempts. It must never know nodes or capacities, nor judge whether a plan is right.

Theory. ``attempt`` numbers the beginnings of a plan across all its steps. A beginning counts if it has the next number,
the plan is not over, and its step was not done for that incarnation; overlapping migrators may append others, which no
migrator acts on. The first outcome of a counting beginning counts, until the next one begins. A plan is *doomed* if its
job was cancelled, or ended by itself before the plan's STOP was under way: then no further step begins, except that a
step under way may be taken over, and a START that may have taken effect is begun again to find out. Whether a gang has
ended is not judged here. A plan is over with its first conclusion, with the end of its job, and a placement with
``JobPlaced``; it cannot be abandoned while a step is under way. When a node is gone for good, the plans that depend on it
end, except those of gangs; of a migration that goes on without it, nothing begins there.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_args

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received

Outcome = c.CheckpointSaved | c.JobStopped | c.SurplusStopped | c.JobPlaced | c.JobResumed
Conclusion = (
    c.MigrationFinished
    | c.MigrationFailed
    | c.JobSuspended
    | c.TransitionFinished
    | c.TransitionFailed
    | c.PlanAbandoned
)
Planned = c.PlacementPlanned | c.MigrationPlanned | c.TransitionPlanned

_DONE_BY: dict[type, c.Step] = {
    c.CheckpointSaved: c.Step.CHECKPOINT,
    c.JobStopped: c.Step.STOP,
    c.SurplusStopped: c.Step.STOP,
    c.JobPlaced: c.Step.START,
    c.JobResumed: c.Step.VERIFY,
}

FOR_GOOD = (
    c.StepFailure.ENDED,
    c.StepFailure.UNKNOWN_INCARNATION,
    c.StepFailure.NO_SUCH_PROGRAM,
    c.StepFailure.STALE_INCARNATION,
    c.StepFailure.UNKNOWN_NODE,
    c.StepFailure.STEP_TIMEOUT,
)
"""Codes of definite failures after which no step is tried again."""


class EventKind(enum.StrEnum):
    """The kind of a plan. No event plans a cancel: such a plan is known from its first beginning."""

    PLACE = "place"
    MIGRATE = "migrate"
    SUSPEND = "suspend"
    SCALE = "scale"
    MOVE = "move"
    SHED = "shed"
    CANCEL = "cancel"  # or what clears a gang


class ObservedPlan(msgspec.Struct, kw_only=True):
    """A plan and its progress.

    Attributes:
        made: Offset of the record that planned it; for a cancel, of its first beginning.
        planned: The event that planned it; None for a cancel.
        begun: The newest beginning that counts.
        attempt: Its number; 0 before the first.
        under_way: Whether its outcome is awaited.
        unclear: Whether its outcome was a failure that may have taken effect.
        failures: Number of consecutive definite failures of that step on that node.
        given_up: Whether it is not retried there.
        gone: The nodes of a job's replicas that were gone for good while it was in flight.
        has_no_target: Whether a target was gone for good during the job's STOP: it goes back, and reserves nothing.
        has_ended: Whether its process ended while STOP was under way: a later report of its end says nothing new. Of a gang,
            whether replica 0 has finished: then its other replicas may have left the nodes that are gone before.
        doomed: Whether it is given up once no step is under way: its process has ended, or a node that it needs is gone.
        done: The steps done, each with its incarnation.
        over: Offset of the record that ended it.
        end: The event that ended it.
    """

    plan: str
    job: str
    kind: EventKind
    made: int
    planned: Planned | None = None
    begun: c.StepBegun | None = None
    attempt: int = 0
    under_way: bool = False
    unclear: bool = False
    failures: int = 0
    given_up: bool = False
    gone: tuple[str, ...] = ()
    has_no_target: bool = False
    done: dict[tuple[c.Step, int], None] = {}
    has_ended: bool = False
    doomed: bool = False
    over: int | None = None
    end: c.ClusterEvent | None = None

    @property
    def stopping(self) -> bool:
        """Whether STOP is under way."""
        return self.under_way and self.begun is not None and self.begun.step is c.Step.STOP

    @property
    def goes_back(self) -> bool:
        """Whether a migration that has stopped its job cannot go on at its target: the way back is due, or under way."""
        if not isinstance(self.planned, c.MigrationPlanned) or not self.has_stopped:
            return False
        if self.planned.target in self.gone:
            return True
        is_at_target = self.begun is not None and self.begun.step in {c.Step.START, c.Step.VERIFY}
        return is_at_target and self.begun is not None and (self.given_up or self.begun.node == self.planned.source)

    @property
    def is_refused_by_its_target(self) -> bool:
        """Whether a migration's START was given up at its target, and could go on at its source."""
        move, begun = self.planned, self.begun
        if not isinstance(move, c.MigrationPlanned) or begun is None or self.doomed or self.gone:
            return False
        return self.given_up and begun.step is c.Step.START and begun.node == move.target

    @property
    def has_stopped(self) -> bool:
        """Whether its job was stopped."""
        return self.kind is not EventKind.SHED and any(step is c.Step.STOP for step, _ in self.done)


class Steps:
    """Folds plans and their steps, and decides whether each of their events counts.

    Attributes:
        plans: By name, those that are over as well.
        lost: The nodes that are silent.
    """

    def __init__(self) -> None:
        self.plans: dict[str, ObservedPlan] = {}
        self._open: dict[str, dict[str, ObservedPlan]] = {}
        self._submitted: dict[str, bool] = {}
        self._cancelled: dict[str, None] = {}
        self._retried: dict[str, int] = {}
        self.lost = LostNodes()
        self._gone: dict[str, None] = {}
        self._tries = PoolParameters().limits.tries
        # Most events are for none of them: a look-up is all that those cost.
        self._folds: Mapping[type, Callable[[Any, int], bool]] = {
            **dict.fromkeys(get_args(Planned), self._plan),
            c.StepBegun: self._begin,
            c.StepFailed: self._fail,
            **dict.fromkeys(get_args(Outcome), self._succeed),
            **dict.fromkeys(get_args(Conclusion), self._conclude),
            c.JobSubmitted: self._submit,
            c.JobCancelRequested: self._cancel,
            c.ReplicaStopped: self._doom,
            c.JobEnded: self._close,
            c.RetryPlanned: self._close,
            c.NodeLost: self._hear,
            c.NodeUsage: self._hear,
            c.NodeJoined: self._hear,
            c.NodeGone: self._leave,
            c.PoolConfigured: self._configure,
        }

    @property
    def reads(self) -> Collection[type]:
        """The events that change anything here."""
        return self._folds.keys()

    def feed(self, received: Received[c.ClusterEvent]) -> bool:
        """Process a record; return False for a beginning, outcome, conclusion or end of a node that does not count."""
        fold = self._folds.get(type(received.event))
        return fold is None or fold(received.event, received.offset)

    def _submit(self, event: c.JobSubmitted, _: int) -> bool:
        self._submitted.setdefault(event.job, event.spec.is_gang)
        return True

    def _cancel(self, event: c.JobCancelRequested, _: int) -> bool:
        if event.job in self._submitted:
            self._cancelled[event.job] = None
        return True

    def _configure(self, event: c.PoolConfigured, _: int) -> bool:
        self._tries = event.parameters.limits.tries
        return True

    def _hear(self, event: c.NodeLost | c.NodeUsage | c.NodeJoined, _: int) -> bool:
        self.lost.feed(event)
        self._gone.pop(event.node, None)
        return True

    def is_cancelled(self, job: str) -> bool:
        """Whether the end of a job was asked for."""
        return job in self._cancelled

    def all_in_flight(self) -> list[ObservedPlan]:
        """The plans of all jobs that are not over."""
        return [progress for job in self._open.values() for progress in job.values()]

    def in_flight(self, job: str) -> list[ObservedPlan]:
        """The plans of a job that are not over, including void ones."""
        return list(self._open.get(job, {}).values())

    def _plan(self, event: Planned, offset: int) -> bool:
        if event.plan not in self.plans:
            match event:
                case c.TransitionPlanned(kind=transition):
                    kind = EventKind(transition.value)
                case _:
                    kind = EventKind.PLACE if isinstance(event, c.PlacementPlanned) else EventKind.MIGRATE
            self._add(ObservedPlan(plan=event.plan, job=event.job, kind=kind, made=offset, planned=event))
        return True

    def _add(self, progress: ObservedPlan) -> ObservedPlan:
        self.plans[progress.plan] = progress
        self._open.setdefault(progress.job, {})[progress.plan] = progress
        return progress

    def _begin(self, event: c.StepBegun, offset: int) -> bool:
        progress = self.plans.get(event.plan)
        if progress is None and self._is_cleared(event):
            return False
        if progress is None:
            progress = self._add(ObservedPlan(plan=event.plan, job=event.job, kind=EventKind.CANCEL, made=offset))
        barred = progress.kind is not EventKind.CANCEL and (progress.doomed or progress.job in self._cancelled)
        # A migrator that takes a step over may not have read that it was given up. A gang's START may be the way back.
        may_go_back = isinstance(progress.planned, c.TransitionPlanned) and event.step is c.Step.START
        is_final = progress.given_up and progress.kind is not EventKind.CANCEL and not may_go_back
        if (
            progress.over is not None
            or (is_final and _is_again(progress.begun, event))
            or event.attempt != progress.attempt + 1
            or (event.step, event.incarnation) in progress.done
            or (isinstance(progress.planned, c.MigrationPlanned) and event.node in progress.gone)
            or (bool(self._submitted.get(progress.job)) and _repeats_a_failed_start(progress, event))
            or (barred and not progress.under_way and not (progress.unclear and event.step is c.Step.START))
        ):
            return False
        if progress.begun is None or (progress.begun.step, progress.begun.node) != (event.step, event.node):
            progress.failures = 0
        progress.given_up = False
        progress.begun, progress.attempt, progress.under_way, progress.unclear = event, event.attempt, True, False
        return True

    def _is_cleared(self, event: c.StepBegun) -> bool:
        """Whether nothing is left to be stopped of an incarnation: the job waits again, or its nodes are gone, and it will.

        This beginning comes late.
        """
        if event.job in self._cancelled:
            return False
        nodes = event.nodes or (event.node,)
        return event.incarnation <= self._retried.get(event.job, 0) or all(node in self._gone for node in nodes)

    def _take_outcome(self, plan: str, step: c.Step, attempt: int) -> ObservedPlan | None:
        """The plan whose step under way has this outcome, if it counts; the step is then no longer under way."""
        progress = self.plans.get(plan)
        if progress is None or progress.over is not None or progress.begun is None or not progress.under_way:
            return None
        if progress.begun.step is not step or progress.attempt != attempt:
            return None
        progress.under_way = False
        return progress

    def _fail(self, event: c.StepFailed, _: int) -> bool:
        progress = self._take_outcome(event.plan, event.step, event.attempt)
        if progress is not None:
            progress.unclear = not event.definite
            progress.failures += event.definite
            progress.given_up = event.definite and (event.code in FOR_GOOD or progress.failures >= self._tries)
        return progress is not None

    def _succeed(self, event: Outcome, offset: int) -> bool:
        progress = self._take_outcome(event.plan, _DONE_BY[type(event)], event.attempt)
        if progress is None:
            return False
        progress.done[_DONE_BY[type(event)], event.incarnation] = None
        if isinstance(event, c.JobStopped) and event.exit_status == 0 and not self._submitted.get(event.job):
            progress.doomed = True
        if progress.kind is EventKind.CANCEL or (progress.kind is EventKind.PLACE and isinstance(event, c.JobPlaced)):
            self._end(progress, event, offset)
        return True

    def _conclude(self, event: Conclusion, offset: int) -> bool:
        progress = self.plans.get(event.plan)
        if progress is None or progress.over is not None:
            return False
        # Whether the step under way of a gang's plan counts is not known here: the gang may have ended before it.
        if isinstance(event, c.PlanAbandoned) and progress.under_way and not self._submitted.get(event.job):
            return False
        self._end(progress, event, offset)
        return True

    def _leave(self, event: c.NodeGone, offset: int) -> bool:
        if event.node not in self.lost:
            return False  # it sends heartbeats, so it is not gone
        self.lost.feed(event)
        self._gone[event.node] = None
        for progress in self.all_in_flight():
            if self._submitted.get(progress.job) or isinstance(progress.planned, c.TransitionPlanned):
                if event.node in _destinations(progress):
                    progress.doomed = True
                if isinstance(progress.planned, c.TransitionPlanned) and progress.stopping:
                    progress.has_no_target |= event.node in progress.planned.nodes
                if progress.begun is not None or event.node in _sources(progress):
                    progress.gone = (*progress.gone, event.node)
                if _has_lost_all(progress) and not progress.has_ended:
                    self._end(progress, event, offset)  # else the view says how it ends
            elif _has_nowhere_else(progress, event.node):
                self._end(progress, event, offset)
            elif isinstance(progress.planned, c.MigrationPlanned) and event.node in (
                progress.planned.source,
                progress.planned.target,
            ):
                progress.gone = (*progress.gone, event.node)
                progress.has_no_target |= progress.stopping and event.node == progress.planned.target
                if not progress.has_stopped and not progress.stopping:
                    progress.doomed = True
        return True

    def _doom(self, event: c.ReplicaStopped, _: int) -> bool:
        """Mark the plans of a process that ended by itself before its move or suspension: nothing is left to act on."""
        if self._submitted.get(event.job):  # whether a gang goes on without a replica is not known here
            for progress in self.in_flight(event.job):
                progress.has_ended |= event.replica == 0 and event.exit_status == 0
            return True
        for progress in self.in_flight(event.job):
            match progress.planned:
                case c.MigrationPlanned(incarnation=incarnation, source=node):
                    pass
                case c.TransitionPlanned(incarnation=incarnation, sources=(node,)):
                    pass
                case _:
                    continue
            if (incarnation, node) != (event.incarnation, event.node):
                continue  # another process, or the report of a node that does not have it
            if progress.stopping and event.exit_status != 0:
                progress.has_ended = True
            elif not (progress.has_stopped or progress.has_ended):
                progress.doomed = True
        return True

    def _close(self, event: c.JobEnded | c.RetryPlanned, offset: int) -> bool:
        """A job that is over, or waits again, has no plan: that of a gang may have ended with a node that was gone."""
        is_over = isinstance(event, c.JobEnded)
        for progress in self.in_flight(event.job):
            if is_over or progress.gone:
                self._end(progress, event, offset)
        if isinstance(event, c.RetryPlanned):
            self._retried[event.job] = event.incarnation
        else:
            self._submitted.pop(event.job, None)
            self._cancelled.pop(event.job, None)
            self._retried.pop(event.job, None)
        return True

    def _end(self, progress: ObservedPlan, event: c.ClusterEvent, offset: int) -> None:
        progress.over, progress.end, progress.under_way = offset, event, False
        self._open[progress.job].pop(progress.plan, None)


def _is_again(before: c.StepBegun | None, event: c.StepBegun) -> bool:
    """Whether a step is tried where it was tried before."""
    return before is not None and (before.step, before.node, before.nodes) == (event.step, event.node, event.nodes)


def _repeats_a_failed_start(progress: ObservedPlan, event: c.StepBegun) -> bool:
    """Whether a START has the number of one that failed: some replicas of a gang may have run under it."""
    before = progress.begun
    if before is None or before.step is not c.Step.START or progress.under_way or progress.unclear:
        return False
    return event.step is c.Step.START and event.incarnation <= before.incarnation


def _sources(progress: ObservedPlan) -> tuple[str, ...]:
    """Where the replicas were when a plan about a gang was made."""
    return progress.planned.sources if isinstance(progress.planned, c.TransitionPlanned) else ()


def _destinations(progress: ObservedPlan) -> tuple[str, ...]:
    """Where a plan starts processes from here on; none while it stops its job, or where a migration may go back."""
    if progress.has_no_target:
        return ()
    match progress.planned:
        case c.PlacementPlanned(nodes=nodes):
            return nodes
        case c.TransitionPlanned(nodes=nodes) if not progress.has_stopped and not progress.stopping:
            return nodes
        case c.TransitionPlanned(nodes=nodes) if progress.has_stopped and not progress.given_up:
            begun = progress.begun
            return begun.nodes if begun is not None and begun.step in {c.Step.START, c.Step.VERIFY} else nodes
        case c.TransitionPlanned(sources=sources) if progress.has_stopped:
            return sources  # it goes back
    return ()


def _has_lost_all(progress: ObservedPlan) -> bool:
    """Whether all nodes of a job are gone that a plan about it as a whole was to save or to stop."""
    begun = progress.begun
    if begun is None or progress.has_stopped or not isinstance(progress.planned, c.TransitionPlanned):
        return False
    is_before = begun.step in {c.Step.CHECKPOINT, c.Step.STOP} and progress.planned.kind is not c.Transition.SHED
    return is_before and all(node in progress.gone for node in begun.nodes or (begun.node,))


def _has_nowhere_else(progress: ObservedPlan, node: str) -> bool:
    """Whether a plan depends on a node: its job is only there, or was to go there and the other node is gone or unusable."""
    match progress.planned:
        case c.PlacementPlanned(nodes=nodes):
            return node in nodes
        case c.MigrationPlanned(source=source, target=target):
            if node == source:
                return progress.goes_back or not progress.has_stopped
            return node == target and source in progress.gone
    return progress.begun is not None and progress.begun.node == node


class LostNodes:
    """The nodes that have sent no heartbeat for too long, as the log says."""

    def __init__(self) -> None:
        self._lost: dict[str, None] = {}

    def __contains__(self, node: str) -> bool:
        return node in self._lost

    def feed(self, event: c.ClusterEvent) -> None:
        """Process an event."""
        match event:
            case c.NodeLost():
                self._lost[event.node] = None
            case c.NodeUsage() | c.NodeJoined() | c.NodeGone():
                self._lost.pop(event.node, None)
