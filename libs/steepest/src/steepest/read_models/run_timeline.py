"""The timeline of a run: each job's records in the cluster log, folded one by one. Pure.

It owns what people want to know and the view does not remember: the course of the categories and losses, the moves and
their cost. The live view, the report and the picture are made of it, so that all of them say what the recording says.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.read_models.preemptions_and_scalings import PreemptionTimeline, Scalings
from steepest.view.cluster_view import ClusterView

SHOWN = (
    c.PlacementPlanned,
    c.CategoryChanged,
    c.StayDecided,
    c.MigrationPlanned,
    c.MigrationFinished,
    c.MigrationFailed,
    c.TransitionPlanned,
    c.TransitionFinished,
    c.TransitionFailed,
    c.JobSuspended,
    c.PlanAbandoned,
    c.RetryPlanned,
    c.LimitsPlanned,
    c.LimitsRefused,
    c.JobRejected,
    c.JobEnded,
    c.NodeLost,
    c.FindingOpened,
    c.FindingEnded,
    c.ReactionPlanned,
    c.TrialJudged,
)
"""Events of a run that are shown: decisions and their outcomes, without steps, checkpoints and measurements."""

SHOWN_KEPT = 50


class TimelineMove(msgspec.Struct, kw_only=True):
    """One move of one job.

    Attributes:
        planned_ms: Wall clock of its plan.
        took_ms: From the plan to the first step at the new place; None while it is under way or where it failed.
        paused_ms: From the stop of the process to the first step at the new place; None as with ``took_ms``.
        failed: Why it did not work out; empty where it did, or may still.
    """

    job: str
    kind: c.MoveKind
    source: str
    target: str
    planned_ms: int
    took_ms: int | None = None
    paused_ms: int | None = None
    steps_lost: int = 0
    failed: str = ""

    @property
    def done(self) -> bool:
        """Whether the job arrived."""
        return self.took_ms is not None


class TimelineJob(msgspec.Struct, kw_only=True):
    """One job from its submission on. Times are milliseconds of the wall clock.

    A gateway has 100,000 of them: what is mostly empty is a tuple, which then costs nothing.

    Attributes:
        first_node: Where it was placed first; of a gang, its replica 0.
        path: Where it was placed, moved or resumed, one after the other: ``n1``, or ``n1+n2`` for a gang on two nodes.
        suspensions: How often it was suspended.
        resumptions: How often it was placed again after that.
        started_ms: When its first process was started.
        categories: Each category that it held, with when that began.
        means: Mean of the evaluation function in each interval with reports.
        measured_ms: When each of them was known.
        reached: Its step and its CPU time in milliseconds then, one after the other; -1: unknown.
        stays: How often Algorithm 4 decided that it stays.
        limits: Each CPU limit that came in force (None: none any more), with when that was.
        arrived_ms: When it started, or arrived from a move, last.
    """

    name: str
    model: str
    submitted_ms: int
    first_node: str | None = None
    path: tuple[str, ...] = ()
    suspensions: int = 0
    resumptions: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    outcome: c.Outcome | None = None
    reason: str = ""
    categories: tuple[tuple[int, c.Category], ...] = ()
    means: list[float] = []
    measured_ms: list[int] = []
    reached: array[int] | None = None
    moves: tuple[TimelineMove, ...] = ()
    stays: int = 0
    limits: tuple[tuple[int, int | None], ...] = ()
    steps_lost: int = 0
    arrived_ms: int | None = None

    def points(self) -> Iterator[tuple[int, float, int, int]]:
        """Each mean of the loss: when it was known, its value, and the step and the CPU time in milliseconds then."""
        reached = self.reached or ()
        return zip(self.measured_ms, self.means, reached[::2], reached[1::2], strict=True)

    @property
    def waited_ms(self) -> int | None:
        """From its submission to its start."""
        return None if self.started_ms is None else self.started_ms - self.submitted_ms

    @property
    def completion_ms(self) -> int | None:
        """From its submission to its end."""
        return None if self.ended_ms is None else self.ended_ms - self.submitted_ms


class RunTimeline:
    """A run, as far as its log was folded.

    Attributes:
        view: The pool.
        jobs: The jobs' timelines, in the order of their submission.
        shown: The newest events of the kinds in ``SHOWN``, oldest first, with their times.
        began_ms: Time of the first record.
        now_ms: Time of the newest one.
        preemptions: Who gave way to whom.
        scalings: How its gangs were scaled.
        accepted: Whether the newest record counts.
    """

    def __init__(self) -> None:
        self.view = ClusterView()
        self.accepted = False
        self.jobs: dict[str, TimelineJob] = {}
        self.shown: deque[tuple[int, c.ClusterEvent]] = deque(maxlen=SHOWN_KEPT)
        self.began_ms = 0
        self.now_ms = 0
        self.preemptions = PreemptionTimeline()
        self.scalings = Scalings()
        self._moves: dict[str, TimelineMove] = {}

    @classmethod
    def resumed(cls, view: ClusterView, now_ms: int) -> RunTimeline:
        """The timeline from a view on. Of earlier records it knows only the view's memory of each job."""
        timeline = cls()
        timeline.view = view
        timeline.began_ms = timeline.now_ms = now_ms
        for job in view.jobs:
            timeline.jobs[job.name] = TimelineJob(
                name=job.name,
                model=job.spec.model,
                submitted_ms=job.submitted_ms,
                first_node=job.node,
                path=(placed_on(job.nodes),) if job.nodes else (),
                started_ms=job.first_placed_ms,
                ended_ms=job.ended_ms,
                outcome=job.outcome,
                reason=job.stop_reason,
                steps_lost=job.steps_lost,
            )
        return timeline

    @classmethod
    def of(cls, records: Iterable[Received[c.ClusterEvent]]) -> RunTimeline:
        """The timeline of some records."""
        timeline = cls()
        for received in records:
            timeline.fold(received)
        return timeline

    def fold(self, received: Received[c.ClusterEvent]) -> bool:
        """Fold the next record; return whether it is one to show."""
        self.began_ms = self.began_ms or received.at_ms
        self.now_ms = max(self.now_ms, received.at_ms)
        self.accepted = self.view.fold(received)
        if not self.accepted:
            return False
        self._note(received.event, received.at_ms)
        self.preemptions.note(received.event)
        if not isinstance(received.event, SHOWN) or is_too_late(received.event):
            return False
        self.shown.append((received.at_ms, received.event))
        return True

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def moves(self) -> list[TimelineMove]:
        """All valid moves, in the order of their plans."""
        return list(self._moves.values())

    @property
    def stays(self) -> int:
        """Decisions that a job stays."""
        return sum(job.stays for job in self.jobs.values())

    @property
    def gangs(self) -> int:
        """Jobs of several replicas that were started."""
        return sum(job.started_ms is not None and self.view.jobs[job.name].spec.is_gang for job in self.jobs.values())

    @property
    def suspensions(self) -> int:
        """How often a job was suspended."""
        return sum(job.suspensions for job in self.jobs.values())

    @property
    def resumptions(self) -> int:
        """How often a suspended job was placed again."""
        return sum(job.resumptions for job in self.jobs.values())

    @property
    def limits(self) -> int:
        """How often a CPU limit came in force."""
        return sum(cpu_m is not None for job in self.jobs.values() for _, cpu_m in job.limits)

    @property
    def steps_lost(self) -> int:
        """Steps that were done twice."""
        return sum(job.steps_lost for job in self.jobs.values())

    def ended(self, outcome: c.Outcome | None = None) -> int:
        """How many jobs are over, or ended that way."""
        return sum(job.outcome is not None and outcome in (None, job.outcome) for job in self.jobs.values())

    # --- folding ---------------------------------------------------------------------------------------------------

    def _note(self, event: c.ClusterEvent, at_ms: int) -> None:
        self.scalings.note(event, at_ms)
        match event:
            case c.MigrationPlanned():
                self._planned(event, at_ms)
            case c.MigrationFinished() | c.MigrationFailed():
                self._moved(event)
            case c.JobSubmitted() if event.job not in self.jobs:
                self.jobs[event.job] = TimelineJob(name=event.job, model=event.spec.model, submitted_ms=at_ms)
        name = getattr(event, "job", None)
        if name in self.jobs:
            self._note_of(self.jobs[name], event, at_ms)

    def _note_of(self, job: TimelineJob, event: c.ClusterEvent, at_ms: int) -> None:
        state = self.view.jobs[job.name]
        job.steps_lost = state.steps_lost
        job.suspensions = state.suspensions
        match event:
            case c.JobPlaced(node=node) if job.started_ms is None:
                job.first_node, job.started_ms = node, at_ms
                job.path += (placed_on(event.nodes or (node,)),)
                job.categories += ((at_ms, c.Category.PROGRESSING),)
                job.arrived_ms = at_ms
            case c.JobPlaced(node=node) if state.resumptions > job.resumptions:
                job.resumptions, job.arrived_ms = state.resumptions, at_ms
                job.path += (placed_on(event.nodes or (node,)),)
            case c.MigrationFinished(target=target):
                job.arrived_ms = at_ms
                job.path += (target,)
            case c.TransitionFinished(nodes=nodes):
                job.arrived_ms = at_ms
                job.path += (placed_on(nodes),)
            case c.CategoryChanged(after=after):
                job.categories += ((at_ms, after),)
            case c.GrowthMeasured(total=total, count=count):
                job.means.append(total / count)
                job.measured_ms.append(at_ms)
                job.reached = array("q") if job.reached is None else job.reached
                job.reached.extend(-1 if one is None else one for one in (state.progress.step, state.progress.cpu_ms))
            case c.StayDecided():
                job.stays += 1
            case c.LimitsApplied(cpu_m=cpu_m):
                job.limits += ((at_ms, cpu_m),)
        if state.outcome is not None and job.outcome is None:
            job.outcome, job.ended_ms = state.outcome, state.ended_ms
            job.reason = getattr(event, "reason", "")

    def _planned(self, event: c.MigrationPlanned, at_ms: int) -> None:
        move = TimelineMove(job=event.job, kind=event.kind, source=event.source, target=event.target, planned_ms=at_ms)
        self._moves[event.plan] = move
        self.jobs[event.job].moves += (move,)

    def _moved(self, event: c.MigrationFinished | c.MigrationFailed) -> None:
        move = self._moves.get(event.plan)
        if move is None:
            return
        move.steps_lost = event.steps_lost
        if isinstance(event, c.MigrationFinished):
            move.took_ms, move.paused_ms = event.took_ms, event.paused_ms
        else:
            move.failed = event.message or event.code


def is_too_late(event: object) -> bool:
    """Whether it says of a limit that its job had stopped before: nothing is wrong, and nothing follows."""
    return isinstance(event, c.LimitsRefused) and event.code == "not-running"


def is_news(joined: dict[str, c.NodeJoined], event: object) -> bool:
    """Whether people want a line about an event. The caller keeps ``joined``, by node, from one event to the next.

    A node joins again after each silence that might have cost it its place in the pool, whether it was lost or not.
    """
    match event:
        case c.NodeJoined(node=node):
            before, joined[node] = joined.get(node), event
            return before != event
        case c.NodeLost(node=node) | c.NodeGone(node=node):
            joined.pop(node, None)
    return not is_too_late(event)


def placed_on(nodes: Sequence[str]) -> str:
    """The nodes of a job's replicas, each once: ``n1+n2``."""
    return "+".join(dict.fromkeys(nodes))
