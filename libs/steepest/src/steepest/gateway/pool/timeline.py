"""The timeline of a pool: its runs, waits and moves within a time, in columns that a page draws as they are.

It owns the bounds of an answer and how it is thinned. What is remembered is :mod:`steepest.read_models.pool_history`'s.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from steepest.events.common import LARGEST
from steepest.gateway.pool.changes import QueueRow
from steepest.policies.forecast import remaining
from steepest.read_models.job_rows import PoolMoment
from steepest.read_models.pool_history import (
    KEPT,
    HistoryJob,
    HistoryMark,
    HistoryMove,
    HistoryRun,
    HistoryWait,
    PoolHistory,
    RunEnd,
    StepCourse,
    gpus_of,
)
from steepest.read_models.run_timeline import TimelineJob
from steepest.view.progress import TimeLeft

T = TypeVar("T", HistoryRun, HistoryWait)

SPARK = 28
"""Points of a job's course."""

APART_PX = 6
"""Pixels between two steps of a share that are distinguished."""

LEAST_MS = 60_000
RUNS_SHOWN = 12
"""The first window of a long log is this many usual runs long."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for: times of the wall clock, and how many pixels they are drawn on; None: as suits the pool.

    Attributes:
        at: Only what was known before the record of this offset counts; None: all of it.
    """

    begin_ms: int | None
    end_ms: int | None
    width: int
    at: int | None


class TimelineNode(msgspec.Struct, frozen=True, kw_only=True):
    """A lane; ``gone``: the pool does not know it any more, or it is lost."""

    node: str
    cpu_m: int
    gone: bool
    gpus: int = 0


class DrawnJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job of the timeline.

    Attributes:
        phase: Its phase, or its outcome once it is over.
        left: The time until its end, in milliseconds; None: unknown.
        spark: Its losses, from 0 to 99, while it is not over.
        why: Why it waits.
    """

    job: str
    what: str
    queue: str
    user: str = ""
    phase: str
    category: int
    left: TimeLeft | None = None
    spark: Sequence[int] = ()
    why: str = ""


class RunColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Runs, one at a place of all columns.

    Attributes:
        job: A place in the jobs; ``node`` likewise in the nodes.
        t0: When it began; ``t1`` when it ended, None while it runs.
        end: A :class:`~steepest.read_models.pool_history.RunEnd`.
        share: Times and thousandths of the node's CPU, one after the other.
        gpus: Thousandths of the node's GPUs; ``gpu_ids`` which of them, as far as they are known.
        category: Times and categories likewise: 0 not measured, 1 to 3 PC, WC, CC, 4 unknown.
    """

    job: Sequence[int]
    node: Sequence[int]
    t0: Sequence[int]
    t1: Sequence[int | None]
    end: Sequence[int]
    share: Sequence[Sequence[int]]
    gpus: Sequence[int]
    gpu_ids: Sequence[Sequence[int]]
    category: Sequence[Sequence[int]]


class WaitColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Waits in the same way; ``why`` is a place in the reasons."""

    job: Sequence[int]
    t0: Sequence[int]
    t1: Sequence[int | None]
    suspended: Sequence[bool]
    why: Sequence[int]


class PoolTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """A pool over a time. Times count from ``begin_ms`` in steps of ``unit_ms``.

    Attributes:
        begin_ms: Wall clock of the first record.
        start: Where the answer begins; ``until`` where it ends.
        now: The time of the newest record that counts, or of the wall clock.
        moves: Job, from, to, when it left, when it arrived.
        marks: When, what (:class:`~steepest.read_models.pool_history.MarkKind`), job, node; -1: none.
        more_runs: Runs of that time that are left out.
    """

    offset: int
    begin_ms: int
    start: int
    until: int
    now: int
    unit_ms: int
    nodes: Sequence[TimelineNode]
    jobs: Sequence[DrawnJob]
    runs: RunColumns
    waits: WaitColumns
    reasons: Sequence[str]
    moves: Sequence[tuple[int, int, int, int, int]]
    marks: Sequence[tuple[int, int, int, int]]
    more_runs: int


def timeline(
    moment: PoolMoment,
    queue: Sequence[QueueRow],
    history: PoolHistory,
    stories: Mapping[str, TimelineJob],
    window: Window,
) -> PoolTimeline:
    """The timeline of a pool.

    Args:
        moment: The pool at the moment that the answer shows.
        queue: Its queue then, for the reasons.
        history: What is remembered of it up to then, or longer.
        stories: The courses of its jobs.
        window: What is asked for.
    """
    answer = _Answer(moment, history, window)
    runs, more = answer.newest(history.runs())
    waits, _ = answer.newest(history.waits())
    reasons = {row.job: row.reason for row in queue}
    return PoolTimeline(
        offset=moment.view.position,
        begin_ms=answer.begin_ms,
        start=answer.time(answer.start_ms),
        until=answer.time(answer.end_ms),
        now=answer.time(answer.now_ms),
        unit_ms=answer.unit_ms,
        runs=answer.runs(runs),
        waits=answer.waits(waits, reasons),
        reasons=list(answer.reasons),
        moves=[row for one in history.moves if (row := answer.move(one))],
        marks=[mark for one in history.marks if (mark := answer.mark(one))],
        nodes=[_node(moment, name) for name in answer.nodes],
        jobs=[_job(moment, job, stories.get(job.name), reasons, answer.now_ms) for job in answer.known],
        more_runs=more,
    )


class _Answer:
    """An answer while it is made: what of a history it shows, places of jobs, nodes and reasons, and times in its unit."""

    def __init__(self, moment: PoolMoment, history: PoolHistory, window: Window) -> None:
        self._at = window.at
        self.now_ms = max(moment.now_ms, history.now_ms if window.at is None else history.began_ms)
        self.begin_ms = history.began_ms or self.now_ms
        self.end_ms = self.now_ms if window.end_ms is None else min(max(window.end_ms, self.begin_ms), self.now_ms)
        start_ms = self._first_start(history.runs()) if window.begin_ms is None else window.begin_ms
        self.start_ms = min(max(start_ms, self.begin_ms), self.end_ms)
        self.unit_ms = _unit(self.end_ms - self.start_ms, window.width)
        self._apart_ms = APART_PX * (self.end_ms - self.start_ms) / window.width
        self.jobs: dict[str, int] = {}
        self.known: list[HistoryJob] = []
        self.nodes = {node.name: place for place, node in enumerate(moment.view.nodes)}
        self.reasons: dict[str, int] = {}

    def _first_start(self, runs: Iterable[HistoryRun]) -> int:
        """With a short log at its begin, else so that usual runs are wide enough to read."""
        lengths = [(self._ended_ms(run) or self.end_ms) - run.begun_ms for run in runs if self._is_known(run.begun)]
        usual = statistics.median(lengths) if lengths else 0
        return self.end_ms - max(LEAST_MS, round(RUNS_SHOWN * usual))

    def newest(self, every: Iterable[T]) -> tuple[list[T], int]:
        """At most ``KEPT``, in the order of their begins: those that go on, then the newest; how many are left out."""
        shown = [one for one in every if self._is_known(one.begun) and self._touches(one)]
        left_out = len(shown) - KEPT
        if left_out > 0:
            shown = heapq.nlargest(KEPT, shown, key=lambda one: (self._ended_ms(one) is None, one.begun))
        return sorted(shown, key=lambda one: one.begun), max(0, left_out)

    def _is_known(self, offset: int) -> bool:
        return self._at is None or offset < self._at

    def _ended_ms(self, one: HistoryRun | HistoryWait) -> int | None:
        return one.ended_ms if one.ended is not None and self._is_known(one.ended) else None

    def _touches(self, one: HistoryRun | HistoryWait) -> bool:
        ended_ms = self._ended_ms(one)
        return one.begun_ms <= self.end_ms and (ended_ms is None or ended_ms >= self.start_ms)

    # --- columns --------------------------------------------------------------------------------------------------------

    def runs(self, runs: Sequence[HistoryRun]) -> RunColumns:
        return RunColumns(
            job=[self._job(run.job) for run in runs],
            node=[self._node(run.node) for run in runs],
            t0=[self.time(run.begun_ms) for run in runs],
            t1=[self._end(run) for run in runs],
            end=[self._how(run) for run in runs],
            share=[self._steps(run, run.share) for run in runs],
            gpus=[run.gpus for run in runs],
            gpu_ids=[run.gpu_ids for run in runs],
            category=[self._steps(run, run.job.categories) for run in runs],
        )

    def waits(self, waits: Sequence[HistoryWait], reasons: Mapping[str, str]) -> WaitColumns:
        def why(one: HistoryWait) -> str:
            return one.why or (reasons.get(one.job.name, "") if self._ended_ms(one) is None else "")

        return WaitColumns(
            job=[self._job(one.job) for one in waits],
            t0=[self.time(one.begun_ms) for one in waits],
            t1=[self._end(one) for one in waits],
            suspended=[one.suspended for one in waits],
            why=[self.reasons.setdefault(why(one), len(self.reasons)) for one in waits],
        )

    def move(self, one: HistoryMove) -> tuple[int, int, int, int, int] | None:
        is_shown = self._is_known(one.offset) and one.left_ms <= self.end_ms and one.arrived_ms >= self.start_ms
        if not is_shown or one.job.name not in self.jobs:
            return None
        nodes = self._node(one.source), self._node(one.target)
        return self.jobs[one.job.name], *nodes, self.time(one.left_ms), self.time(one.arrived_ms)

    def mark(self, one: HistoryMark) -> tuple[int, int, int, int] | None:
        is_shown = self._is_known(one.offset) and self.start_ms <= one.at_ms <= self.end_ms
        if not is_shown or (one.job is not None and one.job.name not in self.jobs):
            return None
        job = -1 if one.job is None else self.jobs[one.job.name]
        return self.time(one.at_ms), int(one.kind), job, self._node(one.node) if one.node else -1

    def time(self, at_ms: int) -> int:
        return (at_ms - self.begin_ms) // self.unit_ms

    def _end(self, one: HistoryRun | HistoryWait) -> int | None:
        ended_ms = self._ended_ms(one)
        return None if ended_ms is None else self.time(ended_ms)

    def _how(self, run: HistoryRun) -> int:
        if self._ended_ms(run) is None:
            return int(RunEnd.OPEN)
        return int(run.end if self._is_known(run.settled) else RunEnd.STOPPED)

    def _steps(self, run: HistoryRun, course: StepCourse) -> list[int]:
        begin_ms, ended_ms = max(run.begun_ms, self.start_ms), self._ended_ms(run)
        end_ms = max(begin_ms, self.end_ms if ended_ms is None else min(ended_ms, self.end_ms))
        pairs = course.within(begin_ms, end_ms, self._apart_ms)
        return [number for at_ms, value in pairs for number in (self.time(at_ms), value)]

    def _job(self, job: HistoryJob) -> int:
        if job.name not in self.jobs:
            self.jobs[job.name] = len(self.known)
            self.known.append(job)
        return self.jobs[job.name]

    def _node(self, name: str) -> int:
        return self.nodes.setdefault(name, len(self.nodes))


def _unit(span_ms: int, width: int) -> int:
    """The largest power of ten that is no more than half a pixel."""
    unit = 1
    while 20 * unit * width <= span_ms:
        unit *= 10
    return unit


def _node(moment: PoolMoment, name: str) -> TimelineNode:
    node = moment.view.nodes.get(name)
    if node is None:
        return TimelineNode(node=name, cpu_m=0, gone=True)
    return TimelineNode(node=name, cpu_m=node.capacity.cpu_m, gone=node.lost, gpus=gpus_of(node) // 1_000)


def _job(
    moment: PoolMoment, job: HistoryJob, story: TimelineJob | None, reasons: Mapping[str, str], now_ms: int
) -> DrawnJob:
    state = moment.view.jobs.get(job.name)
    is_over = state is None or state.outcome is not None
    return DrawnJob(
        job=job.name,
        what=job.what,
        queue=job.queue,
        user="" if state is None else state.user,
        phase="over" if state is None else state.outcome or state.phase,
        category=job.categories.within(now_ms, now_ms, 0)[-1][1],
        left=None if state is None or is_over else remaining(moment.view, state, moment.now_ms),
        spark=() if story is None or is_over else _spark(story, now_ms),
        why=reasons.get(job.name, ""),
    )


def _spark(story: TimelineJob, now_ms: int) -> list[int]:
    """A job's means up to a time, as numbers from 0 to 99."""
    means = [mean for at_ms, mean in zip(story.measured_ms, story.means, strict=True) if at_ms <= now_ms]
    if len(means) > SPARK:
        means = [means[place * (len(means) - 1) // (SPARK - 1)] for place in range(SPARK)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    height = high - low
    return [round(99 * (mean - low) / height) if 0 < height < LARGEST else 50 for mean in means]
