"""A workload under a policy and under fair sharing, in pairs of runs. It claims no difference that the pairs do not show."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import msgspec

from steepest.cli.live.colours import GAIN, LOSS
from steepest.cli.live.headline import FIGURES, Headline, headline_of
from steepest.policies.named import POLICIES, named
from steepest.read_models.run_timeline import RunTimeline
from steepest_lab.demo.beside.lateness import Lateness, lateness
from steepest_lab.demo.beside.lateness import in_words as tail_in_words
from steepest_lab.demo.report import Cell, Table
from steepest_lab.sim.estimate import estimate

WITHOUT_MOVES = "without-moves"
"""The folder of a comparison's second run, in that of the first."""

PAIRS_LEAST = 3
"""Two pairs have an interval so wide that it shows nothing."""


class JobComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Mean completion times of one job, in seconds; None where it never finished. “Without moves” is also without limits."""

    job: str
    with_moves_s: float | None
    without_moves_s: float | None


class MeasureComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One figure under the policy and without it, in seconds.

    Attributes:
        pairs: How many pairs of runs have it in both.
        difference_s: Mean of the pairs' differences, with moves less without.
        low_s: The 95 % confidence interval of that mean (Student's t); None below three pairs.
        high_s: Likewise.
        shows: Whether the interval leaves zero out.
    """

    name: str
    pairs: int
    with_moves_s: float
    without_moves_s: float
    difference_s: float
    low_s: float | None
    high_s: float | None
    shows: bool


class DemoComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs of runs, all from the same first placement.

    Attributes:
        policy: What the first run of each pair was under, in words.
        late: The tail: how the jobs' means over the pairs stand.
        recordings: Of each pair, that of the run under the policy and that of the other one.
    """

    policy: str
    measures: list[MeasureComparison]
    per_job: list[JobComparison]
    late: Lateness | None
    recordings: list[tuple[str, str]]


class Pair(msgspec.Struct, frozen=True):
    """Two runs of one workload."""

    with_moves: RunTimeline
    without_moves: RunTimeline


def arms(pairs: int, policy: str) -> Iterator[tuple[str, str]]:
    """The folders and policies of all runs but the first.

    Every second pair begins without the policy, so that a machine that gets slower or faster favours neither side.
    """
    yield WITHOUT_MOVES, "spread"
    for number in range(2, pairs + 1):
        arms = [(f"pair-{number}-with", policy), (f"pair-{number}-without", "spread")]
        yield from (arms if number % 2 else reversed(arms))


def compare(pairs: Sequence[Pair], recordings: Sequence[tuple[str, str]]) -> DemoComparison:
    """Compare one or more pairs of runs."""
    figures = [(headline_of(pair.with_moves), headline_of(pair.without_moves)) for pair in pairs]
    measured = (_measure(field, figures) for field in FIGURES)
    per_job = [_job(name, pairs) for name in pairs[0].with_moves.jobs]
    with_s, without_s = (
        {job.job: time_s for job in per_job if (time_s := getattr(job, field)) is not None}
        for field in ("with_moves_s", "without_moves_s")
    )
    return DemoComparison(
        policy=POLICIES[named(pairs[0].with_moves.view.parameters)].title,
        measures=[measure for measure in measured if measure is not None],
        per_job=per_job,
        late=lateness(with_s, without_s),
        recordings=list(recordings),
    )


def _measure(field: str, figures: Sequence[tuple[Headline, Headline]]) -> MeasureComparison | None:
    found = [(getattr(first, field), getattr(second, field)) for first, second in figures]
    known = [(first, second) for first, second in found if first is not None and second is not None]
    if not known:
        return None
    interval = estimate([first - second for first, second in known])
    enough = len(known) >= PAIRS_LEAST
    return MeasureComparison(
        name=field,
        pairs=len(known),
        with_moves_s=statistics.fmean(first for first, _ in known),
        without_moves_s=statistics.fmean(second for _, second in known),
        difference_s=interval.mean,
        low_s=interval.low if enough else None,
        high_s=interval.high if enough else None,
        shows=enough and (interval.low > 0 or interval.high < 0),
    )


def _job(name: str, pairs: Sequence[Pair]) -> JobComparison:
    return JobComparison(
        job=name,
        with_moves_s=_completion([pair.with_moves for pair in pairs], name),
        without_moves_s=_completion([pair.without_moves for pair in pairs], name),
    )


def _completion(timelines: Sequence[RunTimeline], name: str) -> float | None:
    jobs = [timeline.jobs[name] for timeline in timelines if name in timeline.jobs]
    known = [job.completion_ms / 1000 for job in jobs if job.completion_ms is not None]
    return statistics.fmean(known) if known else None


# --- for people -------------------------------------------------------------------------------------------------------


def comparison_table(compared: DemoComparison) -> Table:
    """A row a figure, and a row a job."""
    rows: list[list[Cell]] = [
        [FIGURES[measure.name], *_times(measure.with_moves_s, measure.without_moves_s)] for measure in compared.measures
    ]
    rows += [[job.job, *_times(job.with_moves_s, job.without_moves_s)] for job in compared.per_job]
    return ("mean over the pairs", f"#with {compared.policy}", "#without", "#difference"), rows


def verdicts(compared: DemoComparison) -> list[str]:
    """A sentence for each figure, with a difference only if its interval excludes zero; then the tail."""
    tail = [] if compared.late is None else [f"{tail_in_words(compared.late)}, in the mean of the pairs"]
    return [*(_verdict(measure, compared.policy) for measure in compared.measures), *tail]


def _verdict(measure: MeasureComparison, policy: str) -> str:
    name = FIGURES[measure.name]
    if measure.low_s is None or measure.high_s is None:
        return f"{name}: no verdict, from fewer than {PAIRS_LEAST} pairs"
    interval = f"95 % interval {measure.low_s:+.1f} to {measure.high_s:+.1f} s, {measure.pairs} pairs"
    if not measure.shows:
        return f"{name}: no verdict, the interval contains zero ({measure.difference_s:+.1f} s; {interval})"
    word = "longer" if measure.difference_s > 0 else "shorter"
    return f"{name}: {abs(measure.difference_s):.1f} s {word} with {policy} ({interval})"


def _times(first: float | None, second: float | None) -> list[Cell]:
    times = ["" if value is None else f"{value:.1f} s" for value in (first, second)]
    if first is None or second is None:
        return [*times, ""]
    style = GAIN if first < second else LOSS if first > second else ""
    return [*times, (f"{first - second:+.1f} s", style)]
