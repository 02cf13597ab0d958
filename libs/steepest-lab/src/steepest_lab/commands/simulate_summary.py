"""Output of ``steepest simulate``: tables for people, and files.

Owns the words and the columns. Must never know how a result came about.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.cli.printing.output import tell
from steepest.cli.printing.tables import show
from steepest.describe import count
from steepest.errors import InputError
from steepest_lab.baselines.by_name import BASELINES
from steepest_lab.sim.paired import MeanChange, PairedChanges, paired_changes
from steepest_lab.sim.result import LATE, SimulationResult, Summary

JOB_COLUMNS = ("name", "submit_s", "start_s", "end_s", "learned_s", "outcome", "migrations", "preemptions")
SECONDS = ("mean_jct", "median_jct", "p90_jct", "p99_jct", "mean_wait", "makespan")
COLUMNS = ("#mean JCT", "#median", "#p90", "#p99", "#mean wait", "#makespan", "#used", "#moved", "#preempted")
CHANGES = ("policy", "against", "#mean JCT", "#median", "#makespan", "#T90", "#late", "#worst")
"""Of each policy against the first one of its kind: its figures, how many jobs end late, and the most that one does."""


def make_folder(folder: Path) -> None:
    """Make the folder of the files, before anything is simulated for it.

    Raises:
        InputError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def write(folder: Path, results: Sequence[SimulationResult]) -> None:
    """The files of the runs.

    * ``summary.json``: a list of the runs' figures and assumptions;
    * ``changes.json``: a list of the policies that are compared, with the mean change of each figure and its interval;
    * ``jobs.csv``: a line a job and run.

    Raises:
        InputError: They cannot be written.
    """
    rows = [
        {
            **msgspec.structs.asdict(result.summary(compared_with(results, result))),
            "assumptions": result.assumptions,
        }
        for result in results
    ]
    try:
        _write_json(folder / "summary.json", rows)
        _write_json(folder / "changes.json", _changes(_by_policy(results)))
        with (folder / "jobs.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("policy", "seed", *JOB_COLUMNS))
            for result in results:
                for job in result.jobs:
                    writer.writerow((result.policy, result.seed, *(getattr(job, name) for name in JOB_COLUMNS)))
    except OSError as error:
        raise _unwritable(folder, error) from error


def _write_json(file: Path, value: object) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(value)) + b"\n")


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(f"cannot write to {folder}: {error.strerror}", hint="Name another folder with --out.")


def show_results(results: Sequence[SimulationResult]) -> None:
    """A line a policy; of several seeds, the mean and the standard deviation over them.

    Then what each policy changes against the first one of its kind, and what the figures do not tell.
    """
    by_policy = _by_policy(results)
    several = any(len(runs) > 1 for runs in by_policy.values())
    learned = ["#T90"] if any(run.mean_t90 is not None for runs in by_policy.values() for run in runs) else []
    columns = ["policy", *(["#seeds"] if several else []), "#finished", *COLUMNS, *learned]
    rows = [_row(runs, several=several) + ([_mean_t90(runs)] if learned else []) for runs in by_policy.values()]
    show(columns, rows)
    if several:
        tell("± is the standard deviation over the seeds.")
    if changes := _changes(by_policy):
        tell("\nChange, seed by seed:" if several else "\nChange:")
        show(CHANGES, [_change_row(one) for one in changes])
        if several:
            tell("± is half of the 95 % confidence interval of the mean.")
        for one in changes:
            if one.left_out:
                left = count(one.left_out, "job")
                tell(f"{one.policy}: without {left} that did not finish under both policies", err=True)
    for note in _notes(results):
        tell(note, err=True)


def _by_policy(results: Sequence[SimulationResult]) -> dict[str, list[Summary]]:
    found: dict[str, list[Summary]] = {}
    for result in results:
        found.setdefault(result.policy, []).append(result.summary(compared_with(results, result)))
    return found


def compared_with(results: Sequence[SimulationResult], one: SimulationResult) -> SimulationResult | None:
    """The run that a run is compared with: the first policy's of its kind; None where it is that."""
    first = next(result for result in results if result.seed == one.seed and _kind(result.policy) == _kind(one.policy))
    return None if first.policy == one.policy else first


def _row(runs: Sequence[Summary], *, several: bool) -> list[str]:
    counts = [sum(run.finished for run in runs), sum(run.jobs for run in runs)]
    row = [runs[0].policy, *([str(len(runs))] if several else []), f"{counts[0]}/{counts[1]}"]
    for name in SECONDS:
        values = [float(getattr(run, name)) for run in runs]
        mean = statistics.fmean(values)
        row.append(f"{mean:,.0f} ± {statistics.pstdev(values):,.0f}" if several else f"{mean:,.1f}")
    row.append(f"{statistics.fmean(run.utilisation for run in runs):.1%}")
    for name in ("migrations", "preemptions"):
        mean = statistics.fmean(int(getattr(run, name)) for run in runs)
        row.append(f"{mean:.1f}" if several else f"{mean:.0f}")
    return row


def _mean_t90(runs: Sequence[Summary]) -> str:
    """Mean time to 90 % of the reduction of the loss; empty where no job was followed."""
    known = [run.mean_t90 for run in runs if run.mean_t90 is not None]
    return f"{statistics.fmean(known):,.0f}" if known else ""


def _changes(by_policy: Mapping[str, Sequence[Summary]]) -> list[PairedChanges]:
    """Changes of each policy against the first one of its kind, except of these first ones."""
    firsts: dict[str, str] = {}
    for policy in by_policy:
        firsts.setdefault(_kind(policy), policy)
    return [
        paired_changes(runs, firsts[_kind(policy)])
        for policy, runs in by_policy.items()
        if firsts[_kind(policy)] != policy
    ]


def _change_row(one: PairedChanges) -> list[str]:
    """Cells in percent; empty where a figure is unknown."""
    figures = (one.mean_jct, one.median_jct, one.makespan, one.mean_t90)
    late = "" if one.late_share is None else f"{one.late_share:.1%}"
    worst = "" if one.late_worst is None else f"{one.late_worst:+.0%}"
    return [one.policy, one.against, *map(_percent, figures), late, worst]


def _percent(change: MeanChange | None) -> str:
    if change is None:
        return ""
    half = "" if change.half is None else f" ± {100 * change.half:.1f}"
    return f"{100 * change.mean:+.1f}{half} %"


def _kind(policy: str) -> str:
    return "by allocation" if policy in BASELINES else "in a pool"


def _notes(results: Sequence[SimulationResult]) -> Iterable[str]:
    """Notes on the figures, each once."""
    policies = list(dict.fromkeys(result.policy for result in results))
    kinds = list(dict.fromkeys(map(_kind, policies)))
    if len(kinds) > 1:
        ran = "; ".join(f"{kind}: {', '.join(one for one in policies if _kind(one) == kind)}" for kind in kinds)
        yield f"compare within a kind, not across (docs/simulate.md): {ran}"
    for policy in policies:
        rejected = [
            sum(job.outcome == "rejected" for job in result.jobs) for result in results if result.policy == policy
        ]
        if any(rejected):
            yield f"{policy}: {max(rejected)} jobs ask for more than any node has"
    if len(policies) > len(kinds):
        yield f"late: the share of jobs that end more than {LATE:.0%} later than under the first policy; worst: the most"
    assumed: dict[str, dict[str, None]] = {}
    for result in results:
        for assumption in result.assumptions:
            assumed.setdefault(assumption.rstrip("."), {})[result.policy] = None
    for assumption, under in assumed.items():
        whose = "" if len(under) == len(policies) else f" ({', '.join(under)})"
        yield f"assumed{whose}: {assumption[:1].lower()}{assumption[1:]}"
