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
from steepest.sim.result import LATE, SimulationResult, Summary

JOB_COLUMNS = ("name", "submit_s", "start_s", "end_s", "learned_s", "outcome", "migrations", "preemptions")
SECONDS = ("mean_jct", "median_jct", "p90_jct", "p99_jct", "mean_wait", "makespan")
COLUMNS = ("#mean JCT", "#median", "#p90", "#p99", "#mean wait", "#makespan", "#used", "#moved", "#preempted")
LATE_COLUMNS = ("#late", "#worst")
"""How many jobs end more than 5 % later than under the first policy, and by how much the most delayed one."""


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
        {
            "seed": result.seed,
            **msgspec.structs.asdict(result.summary(compared_with(results, result))),
            "assumptions": result.assumptions,
        }
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
        by_policy.setdefault(result.policy, []).append(result.summary(compared_with(results, result)))
    several = any(len(runs) > 1 for runs in by_policy.values())
    changes = {policy: _change(policy, by_policy, several=several) for policy in by_policy}
    change = ["#JCT change"] if any(changes.values()) else []
    learned = ["#T90"] if any(run.mean_t90 is not None for runs in by_policy.values() for run in runs) else []
    late = LATE_COLUMNS if len(by_policy) > len({_kind(policy) for policy in by_policy}) else ()
    columns = ["policy", *(["#seeds"] if several else []), "#finished", COLUMNS[0], *change, *COLUMNS[1:]]
    columns += [*learned, *late]
    rows = []
    for policy, runs in by_policy.items():
        row = _row(runs, several=several)
        if change:
            row.insert(columns.index("#JCT change"), changes[policy])
        row += [_mean_t90(runs)] if learned else []
        row += _tail(runs) if late else []
        rows.append(row)
    show(columns, rows)
    if several:
        tell("± is the standard deviation over the seeds.")
    for note in _notes(results):
        tell(note, err=True)


def compared_with(results: Sequence[SimulationResult], one: SimulationResult) -> SimulationResult | None:
    """The run that a run's lateness is measured against: the first policy's of its kind; None where it is that."""
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


def _tail(runs: Sequence[Summary]) -> tuple[str, str]:
    """Share of the jobs that are late, over all seeds, and the most that one is; empty for the first policy."""
    shares = [run.late_share for run in runs if run.late_share is not None]
    worst = [run.late_worst for run in runs if run.late_worst is not None]
    if not shares or not worst:
        return "", ""
    return f"{statistics.fmean(shares):.1%}", f"{max(worst):+.0%}"


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
    if len(policies) > len(kinds):
        yield f"late: the share of jobs that end more than {LATE:.0%} later than under the first policy; worst: the most"
    assumed: dict[str, dict[str, None]] = {}
    for result in results:
        for assumption in result.assumptions:
            assumed.setdefault(assumption.rstrip("."), {})[result.policy] = None
    for assumption, under in assumed.items():
        whose = "" if len(under) == len(policies) else f" ({', '.join(under)})"
        yield f"assumed{whose}: {assumption[:1].lower()}{assumption[1:]}"
