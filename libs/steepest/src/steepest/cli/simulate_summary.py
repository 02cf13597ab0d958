"""What ``steepest simulate`` gives back: a table for people, and files.

Owns the words and the columns. Must never know how a result came about.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import msgspec

from steepest.cli.tables import show
from steepest.errors import InputError
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
    return InputError(f"cannot write to {folder}: {error.strerror}", mend="Name another folder with --out.")


def show_results(results: Sequence[SimulationResult]) -> None:
    """A line a policy; of several seeds, the mean and the standard deviation over them. Then what was assumed."""
    by_policy: dict[str, list[Summary]] = {}
    for result in results:
        by_policy.setdefault(result.policy, []).append(result.summary())
    several = any(len(runs) > 1 for runs in by_policy.values())
    columns = ["policy", *(["#seeds"] if several else []), "#finished", *COLUMNS]
    show(columns, [_row(runs, several=several) for runs in by_policy.values()])
    if several:
        click.echo("± is the standard deviation over the seeds.")
    for note in _notes(results):
        click.echo(note, err=True)


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


def _notes(results: Sequence[SimulationResult]) -> Iterable[str]:
    """What the figures do not tell, each once."""
    rejected: dict[str, int] = {}
    assumed: dict[str, dict[str, None]] = {}
    for result in results:
        rejected[result.policy] = max(
            rejected.get(result.policy, 0), sum(job.outcome == "rejected" for job in result.jobs)
        )
        for assumption in result.assumptions:
            assumed.setdefault(assumption.rstrip("."), {})[result.policy] = None
    for policy, jobs in rejected.items():
        if jobs:
            yield f"{policy}: {jobs} jobs ask for more than any node has"
    policies = len({result.policy for result in results})
    for assumption, under in assumed.items():
        whose = "" if len(under) == policies else f" ({', '.join(under)})"
        yield f"assumed{whose}: {assumption[:1].lower()}{assumption[1:]}"
