"""What ``steepest simulate`` gives back: a table for people, and files.

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
from steepest.errors import InputError
from steepest.policies.baselines.by_name import BASELINES
from steepest.sim.result import SimulationResult, Summary

JOB_COLUMNS = ("name", "submit_s", "start_s", "end_s", "outcome", "migrations", "preemptions")
SECONDS = ("mean_jct", "median_jct", "p90_jct", "p99_jct", "mean_wait", "makespan")
COLUMNS = ("#mean JCT", "#median", "#p90", "#p99", "#mean wait", "#makespan", "#used", "#moved", "#preempted")


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
    """``summary.json``, a list of the runs' figures and assumptions, and ``jobs.csv``, a line a job and run.

    Raises:
        InputError: They cannot be written.
    """
    rows = [
        {"seed": result.seed, **msgspec.structs.asdict(result.summary()), "assumptions": result.assumptions}
        for result in results
    ]
    try:
        (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
        with (folder / "jobs.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("policy", "seed", *JOB_COLUMNS))
            for result in results:
                for job in result.jobs:
                    writer.writerow((result.policy, result.seed, *(getattr(job, name) for name in JOB_COLUMNS)))
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(f"cannot write to {folder}: {error.strerror}", hint="Name another folder with --out.")


def show_results(results: Sequence[SimulationResult]) -> None:
    """A line a policy; of several seeds, the mean and the standard deviation over them. Then what they do not tell."""
    by_policy: dict[str, list[Summary]] = {}
    for result in results:
        by_policy.setdefault(result.policy, []).append(result.summary())
    several = any(len(runs) > 1 for runs in by_policy.values())
    changes = {policy: _change(policy, by_policy, several=several) for policy in by_policy}
    change = ["#JCT change"] if any(changes.values()) else []
    columns = ["policy", *(["#seeds"] if several else []), "#finished", COLUMNS[0], *change, *COLUMNS[1:]]
    rows = []
    for policy, runs in by_policy.items():
        row = _row(runs, several=several)
        if change:
            row.insert(columns.index("#JCT change"), changes[policy])
        rows.append(row)
    show(columns, rows)
    if several:
        tell("± is the standard deviation over the seeds.")
    for note in _notes(results):
        tell(note, err=True)


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


def _change(policy: str, by_policy: Mapping[str, Sequence[Summary]], *, several: bool) -> str:
    """Of the mean completion time, seed by seed, against the first policy of its kind; empty where that says nothing."""
    first = next(one for one in by_policy if _kind(one) == _kind(policy))
    pairs = list(zip(by_policy[first], by_policy[policy], strict=True))
    if first == policy or any(one.finished != other.finished or not one.mean_jct for one, other in pairs):
        return ""
    changes = [100 * (other.mean_jct / one.mean_jct - 1) for one, other in pairs]
    deviation = f" ± {statistics.pstdev(changes):.1f}" if several else ""
    return f"{statistics.fmean(changes):+.1f}{deviation} %"


def _kind(policy: str) -> str:
    return "by allocation" if policy in BASELINES else "in a pool"


def _notes(results: Sequence[SimulationResult]) -> Iterable[str]:
    """What the figures do not tell, each once."""
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
    assumed: dict[str, dict[str, None]] = {}
    for result in results:
        for assumption in result.assumptions:
            assumed.setdefault(assumption.rstrip("."), {})[result.policy] = None
    for assumption, under in assumed.items():
        whose = "" if len(under) == len(policies) else f" ({', '.join(under)})"
        yield f"assumed{whose}: {assumption[:1].lower()}{assumption[1:]}"
