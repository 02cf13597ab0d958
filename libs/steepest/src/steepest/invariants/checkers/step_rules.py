"""Which beginnings, outcomes and conclusions of plans count: the tiny fold that several checkers share.

It owns the numbering of attempts. It must never know nodes, capacities or who is right.

Theory. ``attempt`` numbers the beginnings of a plan over all its steps. A beginning counts if it is the next number,
the plan is not over, and its step was not done for that incarnation; two migrators that overlap may append others,
which nobody acts on. Of each counting beginning the first outcome counts, until the next one begins. A plan is
*doomed* where its job was cancelled, or has ended by itself before the plan's STOP was under way: then no further step
begins, though one that is under way may be taken over, and a START that may have taken effect is begun again, to know.
A plan is over with its first conclusion, with its job, and a placement with its job's place; one cannot be abandoned
while a step is under way. Where a node is gone for good, the plans end that have nowhere else to go.
"""

from __future__ import annotations

import enum

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received

Outcome = c.CheckpointSaved | c.JobStopped | c.JobPlaced | c.JobResumed
Conclusion = c.MigrationFinished | c.MigrationFailed | c.PlanAbandoned

_DONE_BY: dict[type, c.Step] = {
    c.CheckpointSaved: c.Step.CHECKPOINT,
    c.JobStopped: c.Step.STOP,
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
    """What a plan does. The log has no event that plans a cancel: such a plan is known by its first beginning."""

    PLACE = "place"
    MIGRATE = "migrate"
    CANCEL = "cancel"


class Walk(msgspec.Struct, kw_only=True):
    """A plan and how far it has come.

    Attributes:
        made: Offset of the record that planned it; of a cancel, of its first beginning.
        planned: The event that planned it; None for a cancel.
        begun: The newest beginning that counts.
        attempt: Its number; 0 before the first.
        under_way: Whether its outcome is awaited.
        unclear: Whether its outcome was a failure that may have taken effect.
        failures: How often that step surely failed in a row, on that node.
        given_up: Whether it is not tried again there.
        gone: The nodes of a migration that were gone for good while it was in flight.
        done: The steps done, each with its incarnation.
        over: Offset of the record that ended it.
        end: The event that ended it.
    """

    plan: str
    job: str
    kind: EventKind
    made: int
    planned: c.PlacementPlanned | c.MigrationPlanned | None = None
    begun: c.StepBegun | None = None
    attempt: int = 0
    under_way: bool = False
    unclear: bool = False
    failures: int = 0
    given_up: bool = False
    gone: tuple[str, ...] = ()
    done: dict[tuple[c.Step, int], None] = {}
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
    def has_stopped(self) -> bool:
        """Whether STOP is done."""
        return any(step is c.Step.STOP for step, _ in self.done)


class Steps:
    """Folds plans and their steps, and says of each event of theirs whether it counts."""

    def __init__(self) -> None:
        self.plans: dict[str, Walk] = {}
        self._open: dict[str, dict[str, Walk]] = {}
        self._submitted: dict[str, None] = {}
        self._cancelled: dict[str, None] = {}
        self._tries = PoolParameters().limits.tries

    def feed(self, received: Received[c.ClusterEvent]) -> bool:
        """Take in a record; False for a beginning, outcome or conclusion that does not count."""
        event = received.event
        match event:
            case c.PlacementPlanned() | c.MigrationPlanned():
                self._plan(event, received.offset)
            case c.StepBegun():
                return self._begin(event, received.offset)
            case c.StepFailed():
                return self._fail(event)
            case c.CheckpointSaved() | c.JobStopped() | c.JobPlaced() | c.JobResumed():
                return self._succeed(event, received.offset)
            case c.MigrationFinished() | c.MigrationFailed() | c.PlanAbandoned():
                return self._conclude(event, received.offset)
            case c.JobSubmitted():
                self._submitted[event.job] = None
            case c.JobCancelRequested() if event.job in self._submitted:
                self._cancelled[event.job] = None
            case c.ReplicaStopped():
                self._doom(event)
            case c.JobEnded():
                self._close(event.job, event, received.offset)
            case c.NodeGone():
                self._leave(event, received.offset)
            case c.PoolConfigured():
                self._tries = event.parameters.limits.tries
        return True

    def all_in_flight(self) -> list[Walk]:
        """The plans of all jobs that are not over."""
        return [walk for job in self._open.values() for walk in job.values()]

    def in_flight(self, job: str) -> list[Walk]:
        """The plans of a job that are not over, void ones among them."""
        return list(self._open.get(job, {}).values())

    def _plan(self, event: c.PlacementPlanned | c.MigrationPlanned, offset: int) -> None:
        if event.plan not in self.plans:
            kind = EventKind.PLACE if isinstance(event, c.PlacementPlanned) else EventKind.MIGRATE
            self._add(Walk(plan=event.plan, job=event.job, kind=kind, made=offset, planned=event))

    def _add(self, walk: Walk) -> Walk:
        self.plans[walk.plan] = walk
        self._open.setdefault(walk.job, {})[walk.plan] = walk
        return walk

    def _begin(self, event: c.StepBegun, offset: int) -> bool:
        walk = self.plans.get(event.plan)
        if walk is None:
            walk = self._add(Walk(plan=event.plan, job=event.job, kind=EventKind.CANCEL, made=offset))
        barred = walk.kind is not EventKind.CANCEL and (walk.doomed or walk.job in self._cancelled)
        if (
            walk.over is not None
            or event.attempt != walk.attempt + 1
            or (event.step, event.incarnation) in walk.done
            or (barred and not walk.under_way and not (walk.unclear and event.step is c.Step.START))
        ):
            return False
        if walk.begun is None or (walk.begun.step, walk.begun.node) != (event.step, event.node):
            walk.failures = 0
        walk.given_up = False
        walk.begun, walk.attempt, walk.under_way, walk.unclear = event, event.attempt, True, False
        return True

    def _take_outcome(self, plan: str, step: c.Step, attempt: int) -> Walk | None:
        """The plan whose step under way this is the outcome of, and it is under way no more."""
        walk = self.plans.get(plan)
        if walk is None or walk.over is not None or walk.begun is None or not walk.under_way:
            return None
        if walk.begun.step is not step or walk.attempt != attempt:
            return None
        walk.under_way = False
        return walk

    def _fail(self, event: c.StepFailed) -> bool:
        walk = self._take_outcome(event.plan, event.step, event.attempt)
        if walk is not None:
            walk.unclear = not event.definite
            walk.failures += event.definite
            walk.given_up = event.definite and (event.code in FOR_GOOD or walk.failures >= self._tries)
        return walk is not None

    def _succeed(self, event: Outcome, offset: int) -> bool:
        walk = self._take_outcome(event.plan, _DONE_BY[type(event)], event.attempt)
        if walk is None:
            return False
        walk.done[_DONE_BY[type(event)], event.incarnation] = None
        if isinstance(event, c.JobStopped) and event.exit_status == 0:
            walk.doomed = True
        if walk.kind is EventKind.CANCEL or (walk.kind is EventKind.PLACE and isinstance(event, c.JobPlaced)):
            self._end(walk, event, offset)
        return True

    def _conclude(self, event: Conclusion, offset: int) -> bool:
        walk = self.plans.get(event.plan)
        if walk is None or walk.over is not None or (isinstance(event, c.PlanAbandoned) and walk.under_way):
            return False
        self._end(walk, event, offset)
        return True

    def _leave(self, event: c.NodeGone, offset: int) -> None:
        for walk in self.all_in_flight():
            if _has_nowhere_else(walk, event.node):
                self._end(walk, event, offset)
            elif isinstance(walk.planned, c.MigrationPlanned) and event.node in (
                walk.planned.source,
                walk.planned.target,
            ):
                walk.gone = (*walk.gone, event.node)

    def _doom(self, event: c.ReplicaStopped) -> None:
        """A process that ends by itself while it is about to be moved has nothing left to be moved."""
        for walk in self.in_flight(event.job):
            planned = walk.planned
            if not isinstance(planned, c.MigrationPlanned):
                continue
            if (planned.incarnation, planned.source) != (event.incarnation, event.node):
                continue  # another process, or the word of a node that does not have it
            if not walk.has_stopped and (not walk.stopping or event.exit_status == 0):
                walk.doomed = True

    def _close(self, job: str, event: c.ClusterEvent, offset: int) -> None:
        for walk in self.in_flight(job):
            self._end(walk, event, offset)
        self._submitted.pop(job, None)
        self._cancelled.pop(job, None)

    def _end(self, walk: Walk, event: c.ClusterEvent, offset: int) -> None:
        walk.over, walk.end, walk.under_way = offset, event, False
        self._open[walk.job].pop(walk.plan, None)


def _has_nowhere_else(walk: Walk, node: str) -> bool:
    """Whether a plan ends with a node: its job is there alone, or was to go there and the other node is gone or useless."""
    match walk.planned:
        case c.PlacementPlanned(nodes=nodes):
            return node in nodes
        case c.MigrationPlanned(source=source, target=target):
            if node == source:
                return walk.goes_back or not walk.has_stopped
            return node == target and source in walk.gone
    return walk.begun is not None and walk.begun.node == node
