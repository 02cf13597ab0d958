"""Writes the results of PickyMan's simulations: a report for people, and rows for programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from steepest_lab.reproduce.pages.rendering import (
    Cell,
    PageSection,
    PaperReport,
    csv_of,
    csv_of_structs,
    json_of,
    write_files,
)
from steepest_lab.reproduce.pickyman import plots
from steepest_lab.reproduce.pickyman.experiment import (
    GIB_S,
    GRACE_S,
    JOBS,
    LONGEST_S,
    LOW_LOAD,
    OURS,
    PreemptionRow,
    PreemptionTask,
)
from steepest_lab.reproduce.pickyman.jobs import DATA_GIB, ENOUGH, EPOCH_S, KNOWN_ERROR, LAUNCH_S, UNKNOWN_ERROR
from steepest_lab.reproduce.pickyman.rules import SLICE_S
from steepest_lab.reproduce.pickyman.simulate import MIN_RUN_S, MOST_SUSPENSIONS, PreemptionResult

FILES = ("report.md", "report.html", "results.csv", "results.json", "overheads.csv")

CLAIM = "waiting time −10 % to −92 %, makespan up to −14 %, against methods that the abstract does not name"
CLAIMED_OVERHEAD = 0.05
"""The claimed mean error of predicted overheads."""

ASSUMPTIONS = (
    "Only the abstract of the paper is public; the algorithm, the baselines and their parameters are reconstructions.",
    f"A workload is {JOBS['philly']} jobs drawn from Philly's trace, or {JOBS['muri']} from Muri's.",
    f"Runs longer than {LONGEST_S / 3600:g} h are cut to that.",
    f"Epochs take {EPOCH_S[0]:g} to {EPOCH_S[1]:g} s, drawn log-uniformly for each model: no trace says how long they are.",
    f"A start reads {DATA_GIB[0]:g} to {DATA_GIB[1]:g} GiB, drawn likewise.",
    "A suspension waits for the end of the epoch, and no work is lost.",
    f"A start launches for {LAUNCH_S:g} s and then reads, at an equal part of the storage's {GIB_S:g} GiB a second.",
    f"Predicted run times are off by a log-normal factor: σ {KNOWN_ERROR:g} for models with {ENOUGH} finished jobs.",
    f"For other models σ is {UNKNOWN_ERROR:g}. SJF and SRTF get the same predictions.",
    "GPUs are counted: where they are is not looked at.",
    f"Under every rule, a job runs for {MIN_RUN_S:g} s before it is suspended, at most {MOST_SUSPENSIONS} times.",
    f"The slice of round-robin is {SLICE_S:g} s, since a suspension here waits for an epoch; Gandiva's is a minute.",
)


def write(
    todo: Sequence[PreemptionTask],
    results: Sequence[Mapping[str, PreemptionResult]],
    found: Sequence[PreemptionRow],
    folder: Path,
) -> None:
    """Write all files into a folder, which is made; files of the same names are replaced.

    Raises:
        OSError: They cannot be written.
    """
    report = _report(results, found)
    overheads = (
        (
            task.trace,
            task.gpus,
            task.load,
            task.seed,
            one.job,
            one.kind,
            round(one.predicted_s, 3),
            round(one.took_s, 3),
        )
        for task, result in zip(todo, results, strict=True)
        for one in result[OURS].overheads
    )
    names = ("trace", "gpus", "load", "seed", "job", "kind", "predicted_s", "took_s")
    tables = (csv_of_structs(PreemptionRow, found), json_of(found), csv_of(names, overheads))
    write_files(folder, dict(zip(FILES, (report.markdown, report.html, *tables), strict=True)))


def _report(results: Sequence[Mapping[str, PreemptionResult]], found: Sequence[PreemptionRow]) -> PaperReport:
    of_table = (
        f"Waiting is all of it, that of suspended jobs included: the mean in minutes over {found[0].repetitions} "
        "repetitions, and its change against each baseline in %, with the 95 % interval. Makespan: the largest increase "
        "over a baseline, in %. Red or **bold**: worse; grey or *italic*: inconclusive, since the interval contains 0."
    )
    seen = [one for result in results for one in result[OURS].overheads]
    sections = [
        msgspec.structs.replace(
            _table(found), heading="Mean waiting under each rule", picture=plots.waiting_by_load(found)
        ),
        PageSection(heading="Overheads under PickyMan", picture=plots.overheads(seen, CLAIMED_OVERHEAD)),
    ]
    said = (f"Claimed: {CLAIM}.", " ".join(_verdicts(found)), of_table)
    return PaperReport(title="PickyMan, simulated", said=said, sections=sections, assumptions=ASSUMPTIONS)


def _verdicts(found: Sequence[PreemptionRow]) -> Iterator[str]:
    yield f"Verdicts: {_tally(row.verdict for row in found)}."
    yield f"At the load of {LOW_LOAD:g}, a mean that is at most 2 % and {GRACE_S:g} s longer is within."
    yield f"That no makespan gets longer is a bar of this project: {_tally(row.makespan_verdict for row in found)}."


def _tally(verdicts: Iterable[str]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(Counter(verdicts).items()))


def _table(found: Sequence[PreemptionRow]) -> PageSection:
    settings: dict[tuple[str, int, float], dict[str, PreemptionRow]] = {}
    for row in found:
        settings.setdefault((row.trace, row.gpus, row.load), {})[row.baseline] = row
    baselines = list(dict.fromkeys(row.baseline for row in found))
    rows: list[Sequence[Cell]] = []
    for (trace, gpus, load), by_baseline in settings.items():
        waited = by_baseline[baselines[0]].wait_s / 60
        changes = [by_baseline[name] for name in baselines]
        longest = max(changes, key=lambda row: row.makespan_change)
        makespan = f"{longest.makespan_change:+.1f}".replace("-", "−")
        rows.append(
            [
                *((text, "") for text in (trace, str(gpus), f"{load:g}", f"{waited:,.1f}")),
                *((_change(row), row.verdict) for row in changes),
                (makespan, longest.makespan_verdict),
            ]
        )
    return PageSection(columns=["trace", "#GPUs", "#load", "#waiting", *baselines, "#makespan"], rows=rows)


def _change(row: PreemptionRow) -> str:
    interval = f" [{row.wait_low:.1f}, {row.wait_high:.1f}]" if math.isfinite(row.wait_low) else ""
    return f"{row.wait_change:+.1f}{interval}".replace("-", "−")
