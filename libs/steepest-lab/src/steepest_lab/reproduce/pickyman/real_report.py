"""Writes the results as tables for programs and a page for people, compared with the claims of the paper's abstract."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from steepest_lab.reproduce.pages.rendering import PageSection, PaperReport, csv_of_structs, plain, write_files
from steepest_lab.reproduce.pickyman import real_plots as plots
from steepest_lab.reproduce.pickyman.outcomes import MeasuredOverhead, PredictedRun, WaitingOfRun
from steepest_lab.reproduce.pickyman.real_run import COMPARED, SLICES, RealPreemption
from steepest_lab.reproduce.pickyman.report import CLAIMED_OVERHEAD
from steepest_lab.reproduce.verdict import Agreement, fall
from steepest_lab.sim.estimate import estimate

FILES = ("predictions.csv", "overheads.csv", "waiting.csv", "report.md", "report.html")

TITLE = "PickyMan with real trainings"
RUN_TIMES, OVERHEADS, WAITING = "Predicted run times", "Overheads", "Waiting"
"""Sections with a table and, on the page, a picture."""

CLAIMED_PREDICTION = 0.10
MEDIAN_ERROR, NINE_TENTHS = 0.05, 0.9

ASSUMPTIONS = (
    "Only the abstract of the paper is public: predictor, overhead model and choice of victims are reconstructions.",
    "Trainings are the demo job `streamed`, real processes on emulated nodes. Their data come over TCP from lighttpd.",
    "The storage is behind a link whose bandwidth all readers share, chunk by chunk.",
    "Each worker has a node of its own. A run time is from the first placement to the end; its prediction stood before.",
    "Overheads are predicted when each suspension or resumption begins. No error is counted where nothing was known yet.",
    "Three epochs of a pool's first trainings must end before the traffic shows how long they are.",
    "Time slices are of trainings with epochs of 34 to 51 s and starts of 8 s; the pool knows the link's bandwidth.",
    "Only those are judged. Epochs and starts of the comparison last a few reports: their errors in % are also the clock's.",
    "The comparison is of 16 trainings on four nodes, after four of their model were profiled; a start takes 5 s or more.",
    "Waiting is all of it, that of suspended jobs included. Pairs have the same jobs; the order of policies rotates.",
)


class RealVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A claim and what came out."""

    claim: str
    measured: str
    judged: Agreement


def write(found: RealPreemption, folder: Path) -> None:
    """Write all files.

    Raises:
        OSError: One cannot be written.
    """
    said = report(found)
    tables = (
        csv_of_structs(PredictedRun, found.predictions, "error"),
        csv_of_structs(MeasuredOverhead, found.overheads, "error"),
        csv_of_structs(WaitingOfRun, found.waiting),
    )
    write_files(folder, dict(zip(FILES, (*tables, said.markdown, said.html), strict=True)))


def verdicts(found: RealPreemption) -> list[RealVerdict]:
    """The abstract's claims, each with what came out."""
    errors = _errors(found.predictions)
    sliced = [one for one in found.overheads if one.source == SLICES]
    of_overheads = _errors(sliced)
    small = sum(error < CLAIMED_PREDICTION for error in errors)
    rows = [
        RealVerdict(
            claim="most errors of predicted run times are below 10 %",
            measured=f"{small} of {len(errors)}, median {_percent(errors, statistics.median)}",
            judged=_judged(errors, lambda: 2 * small > len(errors)),
        ),
        RealVerdict(
            claim="half of these errors are below 5 %, and 90 % of them below 10 % (a bar of this project)",
            measured=f"{small} of {len(errors)}, median {_percent(errors, statistics.median)}",
            judged=_judged(
                errors,
                lambda: statistics.median(errors) < MEDIAN_ERROR and small >= NINE_TENTHS * len(errors),
            ),
        ),
        RealVerdict(
            claim="the mean error of predicted overheads is below 5 %",
            measured=f"{_percent(of_overheads, statistics.fmean)} over {len(of_overheads)}"
            f" ({len(sliced) - len(of_overheads)} more before anything was known)",
            judged=_judged(of_overheads, lambda: statistics.fmean(of_overheads) < CLAIMED_OVERHEAD),
        ),
    ]
    for judge in (_waits_less, _is_no_longer):
        rows += [judge(found.waiting, name) for name in COMPARED if name != "pickyman"]
    return rows


def _judged(errors: Sequence[float], holds: Callable[[], bool]) -> Agreement:
    if not errors:
        return Agreement.UNMEASURED
    return Agreement.WITHIN if holds() else Agreement.WORSE


def _waits_less(rows: Sequence[WaitingOfRun], policy: str) -> RealVerdict:
    """Inconclusive where the 95 % interval of the mean difference contains zero."""
    pairs = [(theirs.mean_waiting_s, ours.mean_waiting_s) for theirs, ours in _pairs(rows, policy)]
    return _paired(f"waiting is shorter than under {policy}", pairs)


def _is_no_longer(rows: Sequence[WaitingOfRun], policy: str) -> RealVerdict:
    """The verdict on the makespan; one that is the same in every pair is not longer."""
    pairs = [(theirs.makespan_s, ours.makespan_s) for theirs, ours in _pairs(rows, policy)]
    claim = f"the makespan is not longer than under {policy} (a bar of this project)"
    return _paired(claim, pairs, or_equal=True)


def _pairs(rows: Sequence[WaitingOfRun], policy: str) -> list[tuple[WaitingOfRun, WaitingOfRun]]:
    """Runs with the same jobs: under a policy, and under PickyMan."""
    theirs, ours = ({row.repetition: row for row in rows if row.policy == name} for name in (policy, "pickyman"))
    return [(theirs[number], ours[number]) for number in theirs if number in ours]


def _paired(claim: str, pairs: Sequence[tuple[float, float]], *, or_equal: bool = False) -> RealVerdict:
    """The verdict on pairs of a figure in seconds, by the interval of their mean difference."""
    if not pairs:
        return RealVerdict(claim=claim, measured="", judged=Agreement.UNMEASURED)
    change = estimate([after - before for before, after in pairs])
    before, after = (statistics.fmean(side) for side in zip(*pairs, strict=True))
    interval = f", {change.mean:+.1f} s [{change.low:+.1f}, {change.high:+.1f}]" if len(pairs) > 1 else ""
    judged = fall(change.low, change.high, or_equal=or_equal)
    return RealVerdict(claim=claim, measured=f"{after:.1f} s against {before:.1f} s{interval}", judged=judged)


def report(found: RealPreemption) -> PaperReport:
    """The verdicts, and a table and a picture of each experiment that has run."""
    pictures = {
        RUN_TIMES: plots.run_times(found.predictions, CLAIMED_PREDICTION),
        OVERHEADS: plots.overheads(found.overheads, CLAIMED_OVERHEAD),
        WAITING: plots.waiting(found.waiting),
    }
    sections = [
        msgspec.structs.replace(one, picture=pictures.get(one.heading, "")) for one in _sections(found) if one.rows
    ]
    return PaperReport(title=TITLE, sections=sections, assumptions=ASSUMPTIONS)


def _sections(found: RealPreemption) -> list[PageSection]:
    return [
        PageSection(
            columns=("claim", "measured", "verdict"),
            rows=[[(one.claim, ""), (one.measured, ""), (one.judged, one.judged)] for one in verdicts(found)],
        ),
        _section(
            RUN_TIMES,
            ("data", "batch", "workers", "method", "predicted", "measured", "error"),
            (
                (
                    f"{one.data_bytes / 1e6:.1f} MB",
                    f"{one.batch_size}",
                    f"{one.workers}",
                    one.method,
                    _seconds(one.predicted_ms),
                    _seconds(one.measured_ms),
                    _signed(one.error),
                )
                for one in found.predictions
            ),
        ),
        _section(
            OVERHEADS,
            ("of", "kind", "how many", "not known", "mean predicted", "mean measured", "mean error", "in seconds"),
            _overhead_rows(found.overheads),
        ),
        _section(
            WAITING,
            ("policy", "repetition", "mean waiting", "makespan", "suspensions", "steps lost"),
            (
                (
                    one.policy,
                    f"{one.repetition}",
                    f"{one.mean_waiting_s:.1f} s",
                    f"{one.makespan_s:.1f} s",
                    f"{one.suspensions}",
                    f"{one.steps_lost}",
                )
                for one in found.waiting
            ),
        ),
    ]


def _section(heading: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> PageSection:
    return PageSection(heading=heading, columns=columns, rows=plain(rows))


def _overhead_rows(overheads: Sequence[MeasuredOverhead]) -> Iterator[Sequence[str]]:
    for source, kind in dict.fromkeys((one.source, one.kind) for one in overheads):
        some = [one for one in overheads if (one.source, one.kind) == (source, kind)]
        known = [(one.predicted_ms, one.measured_ms) for one in some if one.predicted_ms is not None]
        predicted, measured = ([pair[index] for pair in known] for index in range(2))
        apart = [abs(said - took) for said, took in known]
        cells = [source, kind, str(len(known)), str(len(some) - len(known)), _mean(predicted), _mean(measured)]
        yield [*cells, _percent(_errors(some), statistics.fmean), _mean(apart)]


def _errors(rows: Iterable[PredictedRun | MeasuredOverhead]) -> list[float]:
    return [abs(row.error) for row in rows if row.error is not None]


def _percent(errors: Sequence[float], summarise: object) -> str:
    return f"{100 * summarise(errors):.1f} %" if errors and callable(summarise) else "unknown"


def _signed(error: float | None) -> str:
    return "" if error is None else f"{100 * error:+.1f} %"


def _mean(ms: Sequence[int]) -> str:
    return _seconds(statistics.fmean(ms) if ms else None)


def _seconds(ms: float | None) -> str:
    return "unknown" if ms is None else f"{ms / 1000:.1f} s"
