"""Who ran where, and who waited, as a pool's log went on: what the live page's timeline is drawn from. Pure.

It owns what is remembered of runs, waits and moves, and how much of it. It follows the view: a job runs where the view says
that its processes are alive, on nodes that are not lost.
"""

from __future__ import annotations

import enum
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.read_models.pool_course import CoursePoint, PoolCourse, point
from steepest.view.cluster_view import ClusterView
from steepest.view.places.gangs import gpus_on
from steepest.view.state import CATEGORIES, MOVING, Job, Node, Phase, PlanKind

KEPT = 10_000
"""Runs that are over, and as many waits, moves and marks: the newest. What goes on is kept as long as it does."""

STEPS_KEPT = 120
"""Changes of one run's share, or of one job's category; of more, every second."""

SHARE_LEAST = 40
"""Thousandths of a node by which a share changes before it is a change."""


class RunEnd(enum.IntEnum):
    """How a run ended."""

    OPEN = 0
    MOVED = 1
    SUSPENDED = 2
    FINISHED = 3
    FAILED = 4
    CANCELLED = 5
    LOST = 6  # with its node
    STOPPED = 7  # its process ended, and it is not over


class MarkKind(enum.IntEnum):
    """What a mark says: a job has finished or failed, a node was lost, something is wrong with a job."""

    FINISHED = 1
    FAILED = 2
    NODE_LOST = 3
    FINDING = 4


ENDS = {
    c.Outcome.FINISHED: RunEnd.FINISHED,
    c.Outcome.FAILED: RunEnd.FAILED,
    c.Outcome.CANCELLED: RunEnd.CANCELLED,
}


class StepCourse:
    """A number over time: pairs of a time in milliseconds and the value from then on, one after the other."""

    __slots__ = ("_flat", "_least")

    def __init__(self, least: int = 1) -> None:
        self._least = least
        self._flat = array("q")

    def add(self, at_ms: int, value: int) -> None:
        """From this time on; a value that differs by less than the least is the one before."""
        flat = self._flat
        if flat and abs(value - flat[-1]) < self._least:
            return
        if flat and flat[-2] == at_ms:
            flat[-1] = value
            return
        flat.extend((at_ms, value))
        if len(flat) > 2 * STEPS_KEPT:
            self._flat = array("q", chain.from_iterable(zip(flat[::4], flat[1::4], strict=True)))
            self._flat.extend(flat[-2:])

    @property
    def newest(self) -> int:
        """The value in force; 0 before the first."""
        return self._flat[-1] if self._flat else 0

    def within(self, begin_ms: int, end_ms: int, apart_ms: float) -> list[tuple[int, int]]:
        """The values of a time, with that in force at its begin; of values that are closer together, the last."""
        found: list[tuple[int, int]] = []
        for at_ms, value in zip(self._flat[::2], self._flat[1::2], strict=True):
            if at_ms > end_ms:
                break
            at = max(at_ms, begin_ms)
            if found and (at == found[-1][0] or (at - found[-1][0] < apart_ms and len(found) > 1)):
                found[-1] = (found[-1][0], value)
            elif not found or found[-1][1] != value:
                found.append((at, value))
        return found


class HistoryJob(msgspec.Struct, kw_only=True):
    """What is remembered of a job as long as one of its runs or waits is.

    Attributes:
        categories: 0 not measured, 1 to 3 PC, WC, CC, 4 unknown.
        left: Where it ran before it was stopped to run elsewhere, until it does.
        newest: Its runs that ended together last.
    """

    name: str
    what: str
    queue: str
    categories: StepCourse
    left: tuple[tuple[str, int], ...] = ()
    newest: tuple[HistoryRun, ...] = ()


class HistoryRun(msgspec.Struct, kw_only=True):
    """A run of a job on a node, of one incarnation.

    Attributes:
        begun: The record by which it began; ``ended`` likewise, None while it runs.
        settled: The record by which ``end`` was known.
        share: Thousandths of the node's CPU: what it reserves until its use is measured, then what it uses.
        gpus: Thousandths of the node's GPUs that it holds.
        gpu_ids: Which of them, as far as they are known.
    """

    job: HistoryJob
    node: str
    begun: int
    begun_ms: int
    share: StepCourse
    gpus: int = 0
    gpu_ids: tuple[int, ...] = ()
    ended: int | None = None
    ended_ms: int | None = None
    end: RunEnd = RunEnd.OPEN
    settled: int = 0


class HistoryWait(msgspec.Struct, kw_only=True):
    """A time in which a job had no place; ``why`` says for whom it was suspended, where it was for others."""

    job: HistoryJob
    begun: int
    begun_ms: int
    suspended: bool
    why: str = ""
    ended: int | None = None
    ended_ms: int | None = None


class HistoryMove(msgspec.Struct, frozen=True):
    """A job, or a replica of one, that left a node and went on at another; ``offset`` is the record of its arrival."""

    offset: int
    job: HistoryJob
    source: str
    target: str
    left_ms: int
    arrived_ms: int


class HistoryMark(msgspec.Struct, frozen=True):
    """Something that is marked on the timeline; a lost node has no job, and a job that never ran has no node."""

    offset: int
    at_ms: int
    kind: MarkKind
    job: HistoryJob | None
    node: str


class PoolHistory:
    """The runs, waits and moves of a pool.

    Attributes:
        began_ms: Time of the first record that it has heard.
        now_ms: The latest time of one.
        moves: The newest.
        marks: The newest.
        course: All of it at one look.
    """

    def __init__(self) -> None:
        self.course = PoolCourse()
        self.began_ms = 0
        self.now_ms = 0
        self.moves: deque[HistoryMove] = deque(maxlen=KEPT)
        self.marks: deque[HistoryMark] = deque(maxlen=KEPT)
        self._over: deque[HistoryRun] = deque(maxlen=KEPT)
        self._waited: deque[HistoryWait] = deque(maxlen=KEPT)
        self._running: dict[str, dict[str, HistoryRun]] = {}
        self._waiting: dict[str, HistoryWait] = {}
        self._jobs: dict[str, HistoryJob] = {}

    def runs(self) -> Iterator[HistoryRun]:
        """Those that are over in the order of their ends, then those that go on."""
        return chain(self._over, *(mine.values() for mine in self._running.values()))

    def waits(self) -> Iterator[HistoryWait]:
        """As :meth:`runs`."""
        return chain(self._waited, self._waiting.values())

    def note(self, view: ClusterView, received: Received[Any], *, accepted: bool) -> None:
        """Hear a record that ``view`` has just folded."""
        before_ms, self.now_ms = self.now_ms, max(self.now_ms, received.at_ms)
        if not self.began_ms:
            self.began_ms = self.now_ms
            self._follow(view, (job.name for job in view.jobs), received.offset)  # of a view that others have folded
            self.course.configured(view.parameters, self.now_ms)
        if self.course.is_due(self.now_ms):
            self.course.add(*(self._point(view, received.offset, at_ms) for at_ms in (before_ms, self.now_ms)))
        if not accepted:
            return
        match event := received.event:
            case c.NodeUsage(node=node):
                self._used(view, event)
            case c.PoolConfigured():
                self.course.configured(event.parameters, self.now_ms)
            case c.NodeLost(node=node) | c.NodeGone(node=node) | c.NodeJoined(node=node):
                if isinstance(event, c.NodeLost):
                    self._mark(received.offset, MarkKind.NODE_LOST, None, node)
                self._follow(view, self._on(view, node), received.offset)
            case _ if name := getattr(event, "job", ""):
                self._follow(view, (name,), received.offset)
                if isinstance(event, c.FindingOpened) and name in self._jobs:
                    where = next(iter(self._running.get(name, {})), "")
                    self._mark(received.offset, MarkKind.FINDING, self._jobs[name], where)

    def points_now(self, view: ClusterView) -> list[CoursePoint]:
        """The course with the present as its last point."""
        return [*self.course.points, self._point(view, view.position, self.now_ms)]

    def _point(self, view: ClusterView, offset: int, at_ms: int) -> CoursePoint:
        capacity = {node.name: node.capacity.cpu_m for node in view.nodes if not node.lost}
        going = (run for mine in self._running.values() for run in mine.values())
        runs = ((run.job.categories.newest, run.share.newest * capacity.get(run.node, 0) // 1_000) for run in going)
        return point(offset, at_ms, runs, sum(capacity.values()))

    # --- following the view ---------------------------------------------------------------------------------------------

    def _on(self, view: ClusterView, name: str) -> list[str]:
        """The jobs that run on a node, or that hold a place there."""
        node = view.nodes.get(name)
        mine = (job for job, runs in self._running.items() if name in runs)
        return list(dict.fromkeys(chain(mine, () if node is None else node.jobs)))

    def _follow(self, view: ClusterView, names: Iterable[str], offset: int) -> None:
        for name in names:
            state = view.jobs.get(name)
            if state is None or (state.outcome is not None and name not in self._jobs):
                continue
            job = self._jobs.get(name) or self._begin(state)
            job.categories.add(self.now_ms, category_of(state))
            self._follow_runs(view, job, state, offset)
            self._follow_wait(job, state, offset)
            if state.outcome is not None:
                self._end(job, state, state.outcome, offset)

    def _begin(self, state: Job) -> HistoryJob:
        job = HistoryJob(name=state.name, what=state.spec.model, queue=state.spec.queue, categories=StepCourse())
        self._jobs[state.name] = job
        return job

    def _follow_runs(self, view: ClusterView, job: HistoryJob, state: Job, offset: int) -> None:
        here = [node for node in dict.fromkeys(state.running_on) if not view.nodes.is_lost(node)]
        runs = self._running.get(job.name, {})
        gone = [run for node, run in runs.items() if node not in here]
        if gone:
            self._stop(view, job, state, gone, offset)
        came = [node for node in here if node not in runs]
        if came:
            self._start(view, job, state, came, offset)
        for node, run in self._running.get(job.name, {}).items():
            run.gpu_ids = gpus_on(state, node) or run.gpu_ids

    def _start(self, view: ClusterView, job: HistoryJob, state: Job, nodes: list[str], offset: int) -> None:
        runs = self._running.setdefault(job.name, {})
        for node in nodes:
            run = HistoryRun(job=job, node=node, begun=offset, begun_ms=self.now_ms, share=StepCourse(SHARE_LEAST))
            held, found = view.nodes.held(state, node), view.nodes.get(node)
            run.share.add(self.now_ms, share(view, node, held.cpu_m))
            run.gpus = part(held.all_gpus_m, gpus_of(found) if found else 0)
            runs[node] = run
        left = [one for one in job.left if one[0] not in nodes]
        before = {node for node, _ in job.left}
        targets = [node for node in nodes if node not in before]
        for (source, left_ms), target in zip(left, targets, strict=False):
            self.moves.append(HistoryMove(offset, job, source, target, left_ms, self.now_ms))
        job.left = ()

    def _stop(self, view: ClusterView, job: HistoryJob, state: Job, gone: list[HistoryRun], offset: int) -> None:
        plan = view.plan_of(state)
        kind = None if plan is None else plan.kind
        runs = self._running[job.name]
        for run in gone:
            run.ended, run.ended_ms, run.settled = offset, self.now_ms, offset
            run.end = _how(view, state, run.node, kind)
            if run.end is RunEnd.MOVED:
                job.left += ((run.node, self.now_ms),)
            self._over.append(run)
            del runs[run.node]
        job.newest = tuple(gone)
        if not runs:
            del self._running[job.name]

    def _follow_wait(self, job: HistoryJob, state: Job, offset: int) -> None:
        suspended = state.phase is Phase.SUSPENDED
        open_one = self._waiting.get(job.name)
        if open_one is not None and (not state.is_queued or open_one.suspended is not suspended):
            open_one.ended, open_one.ended_ms = offset, self.now_ms
            self._waited.append(self._waiting.pop(job.name))
        if state.is_queued and job.name not in self._waiting:
            why = f"made room for {', '.join(state.made_room_for)}" if suspended and state.made_room_for else ""
            self._waiting[job.name] = HistoryWait(
                job=job, begun=offset, begun_ms=self.now_ms, suspended=suspended, why=why
            )

    def _end(self, job: HistoryJob, state: Job, outcome: c.Outcome, offset: int) -> None:
        for run in job.newest:
            if run.end is RunEnd.STOPPED:
                run.end, run.settled = ENDS[outcome], offset
        if outcome is not c.Outcome.CANCELLED:
            kind = MarkKind.FINISHED if outcome is c.Outcome.FINISHED else MarkKind.FAILED
            self._mark(offset, kind, job, job.newest[0].node if job.newest else "")
        if outcome is c.Outcome.FINISHED:
            self.course.finished(state, self.now_ms)
        del self._jobs[job.name]

    def _mark(self, offset: int, kind: MarkKind, job: HistoryJob | None, node: str) -> None:
        self.marks.append(HistoryMark(offset, self.now_ms, kind, job, node))

    def _used(self, view: ClusterView, event: c.NodeUsage) -> None:
        for name, cpu_m in event.jobs.items():
            run = self._running.get(name, {}).get(event.node)
            if run is not None:
                run.share.add(self.now_ms, share(view, event.node, cpu_m))


def _how(view: ClusterView, state: Job, node: str, kind: PlanKind | None) -> RunEnd:
    """How a run ends that has just ended."""
    if state.outcome is not None:
        return ENDS[state.outcome]
    if view.nodes.is_lost(node):
        return RunEnd.LOST
    if kind in MOVING or kind is PlanKind.SHED:
        return RunEnd.MOVED
    is_suspended = kind is PlanKind.SUSPEND or state.phase is Phase.SUSPENDED
    return RunEnd.SUSPENDED if is_suspended else RunEnd.STOPPED


def share(view: ClusterView, node: str, cpu_m: int) -> int:
    """An amount of CPU as thousandths of a node's, from 0 to 1,000."""
    found = view.nodes.get(node)
    return part(cpu_m, found.capacity.cpu_m if found else 0)


def part(amount: int, whole: int) -> int:
    """An amount as thousandths of a whole, from 0 to 1,000."""
    return max(0, min(1_000, 1_000 * amount // whole)) if whole > 0 else 0


def gpus_of(node: Node) -> int:
    """Thousandths of a GPU that a node has, with those that failed: a lane keeps its place."""
    return node.capacity.all_gpus_m + 1_000 * len(node.failed_gpus)


def category_of(state: Job) -> int:
    """A job's category as :class:`HistoryJob` counts it."""
    if state.unknown:
        return 4
    return 1 + CATEGORIES.index(state.category) if state.measured else 0
