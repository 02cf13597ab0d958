"""The result of a run: tables for people and one object for programs, both from its timeline. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steepest.cli.live.colours import CATEGORIES, GAIN, LOSS, OUTCOMES
from steepest.cli.live.headline import FIGURES, Headline, headline_of
from steepest.cli.live.picture import clock, moves_in_words
from steepest.describe import count, span
from steepest.events import cluster as c
from steepest.read_models.preemptions_and_scalings import PreemptionSummary
from steepest.read_models.run_timeline import RunTimeline, TimelineJob, TimelineMove

Cell = str | tuple[str, str] | list[tuple[str, str]]
"""A text, a text and its style on a terminal, or several such parts."""

Table = tuple[Sequence[str], list[list[Cell]]]
"""Columns (``#`` before those that hold numbers) and rows."""

JOBS_GIVE_WAY = ("model", "#waited", "categories", "nodes")
MOVES_GIVE_WAY = ("by", "#paused", "outcome")
"""Columns that a narrow terminal shows less of, the least important first."""

ALGORITHMS = {
    c.MoveKind.REALLOCATION: "Algorithm 4",
    c.MoveKind.REBALANCE: "Algorithm 5",
    c.MoveKind.STEEPEST: "steepest",
    c.MoveKind.REQUEST: "a user",
    c.MoveKind.SLOW_NODE: "slow node",
}

CATEGORIES_TOLD = 4
"""Spells of a category that a row shows; of more, the first two and the last."""


class MoveSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One move; ``took_s`` and ``paused_s`` are None where it failed or the run ended before it did."""

    job: str
    kind: c.MoveKind
    source: str
    target: str
    at_s: float
    took_s: float | None
    paused_s: float | None
    steps_lost: int
    failed: str


class JobSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One job; each category and each CPU limit with the seconds from the job's start to when it began."""

    job: str
    model: str
    outcome: c.Outcome | None
    reason: str
    categories: list[tuple[c.Category, float]]
    limits: list[tuple[int | None, float]]
    nodes: list[str]
    waited_s: float | None
    completion_s: float | None


class DemoSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in figures.

    Attributes:
        jobs: How many were submitted.
        migrations: Moves that arrived.
        stays: Decisions of Algorithm 4 that a job stays.
        limits: How often a CPU limit of a job came in force.
        rebalances: Those of the migrations that Algorithm 5 planned.
        steps_lost: Steps that had to be done again.
        gangs: Jobs of several replicas that were started.
        suspensions: How often a job was suspended, to make room for another one.
        resumptions: How often a suspended job was placed again.
        seconds: From the first record to the last.
        headline: Mean and median completion time, makespan and mean T90 of the jobs that finished.
        recording: The folder of the recording.
        state: The state folder.
    """

    jobs: int
    finished: int
    failed: int
    cancelled: int
    migrations: int
    stays: int
    rebalances: int
    migrations_failed: int
    steps_lost: int
    limits: int
    gangs: int
    suspensions: int
    resumptions: int
    seconds: float
    headline: Headline
    recording: str
    state: str
    per_job: list[JobSummary]
    moves: list[MoveSummary]
    preemptions: list[PreemptionSummary] = []


def summary(timeline: RunTimeline, recording: str, state: str) -> DemoSummary:
    """The run in figures."""
    done = [move for move in timeline.moves if move.done]
    return DemoSummary(
        jobs=len(timeline.jobs),
        finished=timeline.ended(c.Outcome.FINISHED),
        failed=timeline.ended(c.Outcome.FAILED),
        cancelled=timeline.ended(c.Outcome.CANCELLED),
        migrations=len(done),
        stays=timeline.stays,
        rebalances=sum(move.kind is c.MoveKind.REBALANCE for move in done),
        migrations_failed=sum(bool(move.failed) for move in timeline.moves),
        steps_lost=timeline.steps_lost,
        limits=timeline.limits,
        gangs=timeline.gangs,
        suspensions=timeline.suspensions,
        resumptions=timeline.resumptions,
        seconds=(timeline.now_ms - timeline.began_ms) / 1000,
        headline=headline_of(timeline),
        recording=recording,
        state=state,
        per_job=[_job(job) for job in timeline.jobs.values()],
        moves=[_move(move, timeline.began_ms) for move in timeline.moves],
        preemptions=timeline.preemptions.summaries,
    )


def _job(job: TimelineJob) -> JobSummary:
    began = job.started_ms or 0
    return JobSummary(
        job=job.name,
        model=job.model,
        outcome=job.outcome,
        reason=job.reason,
        categories=[(category, (at_ms - began) / 1000) for at_ms, category in job.categories],
        limits=[(cpu_m, (at_ms - began) / 1000) for at_ms, cpu_m in job.limits],
        nodes=list(job.path),
        waited_s=_seconds(job.waited_ms),
        completion_s=_seconds(job.completion_ms),
    )


def _move(move: TimelineMove, began_ms: int) -> MoveSummary:
    return MoveSummary(
        job=move.job,
        kind=move.kind,
        source=move.source,
        target=move.target,
        at_s=(move.planned_ms - began_ms) / 1000,
        took_s=_seconds(move.took_ms),
        paused_s=_seconds(move.paused_ms),
        steps_lost=move.steps_lost,
        failed=move.failed,
    )


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


# --- for people -------------------------------------------------------------------------------------------------------


def result(timeline: RunTimeline) -> str:
    """The run in a sentence."""
    finished = timeline.ended(c.Outcome.FINISHED)
    others = [
        f"{timeline.ended(outcome)} {outcome}"
        for outcome in (c.Outcome.FAILED, c.Outcome.CANCELLED)
        if timeline.ended(outcome)
    ]
    jobs = ", ".join([f"{finished} of {count(len(timeline.jobs), 'job')} finished", *others])
    return (
        f"{jobs} in {span(timeline.now_ms - timeline.began_ms)}: {moves_in_words(timeline)}, "
        f"{count(timeline.stays, 'stay')}, {count(timeline.steps_lost, 'step')} lost"
        f"{_suspensions(timeline)}{_limits(timeline)}"
    )


def headline(timeline: RunTimeline) -> str:
    """The figures that count, in a sentence; empty where no job has finished."""
    figures = msgspec.structs.asdict(headline_of(timeline))
    named = [(words, figures[name]) for name, words in FIGURES.items()]
    return ", ".join(f"{words} {span(round(1000 * value))}" for words, value in named if value is not None)


def _suspensions(timeline: RunTimeline) -> str:
    if not timeline.suspensions:
        return ""
    return f", {count(timeline.suspensions, 'suspension')} and {count(timeline.resumptions, 'resumption')}"


def _limits(timeline: RunTimeline) -> str:
    parameters = timeline.view.parameters
    return f", {count(timeline.limits, 'limit')} set" if parameters.flowcon.on or parameters.steepest.on else ""


def job_table(timeline: RunTimeline) -> Table:
    """A row a job: its categories, its way through the nodes, how long it waited and how long it took in all."""
    columns = ("job", "model", "categories", "nodes", "#waited", "#completion", "outcome")
    return columns, [
        [
            job.name,
            job.model,
            course(job),
            " → ".join(job.path),
            _span(job.waited_ms),
            _span(job.completion_ms),
            _outcome(job),
        ]
        for job in timeline.jobs.values()
    ]


def _outcome(job: TimelineJob) -> Cell:
    if job.outcome is None:
        return "not over"
    text = job.outcome if job.reason in ("", job.outcome) else f"{job.outcome}: {job.reason}"
    return text, OUTCOMES[job.outcome]


def move_table(timeline: RunTimeline) -> Table:
    """A row a move: who moved where and when, by which algorithm, and what it cost."""
    columns = ("at", "job", "from", "to", "by", "#took", "#paused", "#steps lost", "outcome")
    return columns, [
        [
            clock(move.planned_ms - timeline.began_ms),
            move.job,
            move.source,
            move.target,
            ALGORITHMS[move.kind],
            _span(move.took_ms),
            _span(move.paused_ms),
            str(move.steps_lost),
            ("done", GAIN) if move.done else (move.failed or "broken off", LOSS),
        ]
        for move in timeline.moves
    ]


def preemption_table(timeline: RunTimeline) -> Table:
    """A row a preemption: who gave way to whom, and what that was predicted to take and took."""
    columns = ("for", "victims", "#predicted", "#measured", "#steps lost", "resumed")
    return columns, [
        [
            one.waiting,
            ", ".join(one.victims),
            _span(one.predicted_overhead_ms),
            _span(one.measured_overhead_ms),
            str(one.steps_lost),
            f"{one.resumed} of {len(one.victims)}",
        ]
        for one in timeline.preemptions.summaries
    ]


def course(job: TimelineJob) -> list[tuple[str, str]]:
    """A job's categories with the seconds of its life, ``PC 0-6s > WC 6-8s > CC 8-79s``, each in its colour."""
    began = job.started_ms or 0
    ends = [*(at_ms for at_ms, _ in job.categories[1:]), job.ended_ms]
    spells = [
        (
            f"{category} {(at_ms - began) // 1000}-{'' if end is None else f'{(end - began) // 1000}s'}",
            CATEGORIES[category],
        )
        for (at_ms, category), end in zip(job.categories, ends, strict=False)
    ]
    if len(spells) > CATEGORIES_TOLD:
        spells = [*spells[:2], (f"{len(spells) - 3} more", ""), spells[-1]]
    parts = [part for spell in spells for part in ((" > ", ""), spell)]
    return parts[1:]


def _span(ms: int | None) -> str:
    return "" if ms is None else span(ms)
