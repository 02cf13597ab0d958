# ruff: noqa: INP001 - a tool, not a package
"""How close the simulator is to a real run: the demo, run for real and simulated from the same submissions.

For each run: the demo's jobs train for real on the local cluster; then the simulator gets that recording's submissions,
nodes and parameters, each job's cost of a step and number of steps, and plays it from the first submission
on. Compared are the completion times and the order of the decisions. What a step costs is measured in the same run, so this
is the error of scheduling, sharing and moving, not of guessing a job's length.

The runs are compared with each other as well: by how much do the same submissions differ when they run for real twice? A
category that comes an interval later moves another job, so no simulation can be much nearer to a run than another is.

Run: ``python -m tools.fidelity [--runs 5] [--seed 0] [--json]``
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.harness.system.rig import events_of

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.log.files.file_log import FileLog
from steepest_lab.sim.whatif.history import read_history
from steepest_lab.sim.whatif.play import AS_RECORDED, play_on

DECISIONS = (c.CategoryChanged, c.MigrationPlanned, c.StayDecided)


def run_for_real(folder: Path, seed: int) -> None:
    """Run the demo under SpeCon, whose decisions are compared."""
    steepest = Path(sys.executable).with_name("steepest")
    demo = [steepest, "demo", "--policy", "specon", "--state", folder, "--seed", str(seed), "--json"]
    subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)


async def compare(folder: Path) -> tuple[dict[str, Any], dict[str, float]]:
    """The figures of one run, and its completion times by job, in seconds."""
    log = FileLog.open(folder / "log", read_only=True)
    try:
        real = await events_of(log)
        first = next(one.offset for one in real if isinstance(one.event, c.JobSubmitted))
        history = await read_history(log, first)
    finally:
        await log.close()
    simulated: list[Received[Any]] = []
    result = play_on(history, AS_RECORDED, 0, watch=simulated.append)
    submitted_ms = {one.event.job: one.at_ms for one in real if isinstance(one.event, c.JobSubmitted)}
    real_s = {
        one.event.job: (one.at_ms - submitted_ms[one.event.job]) / 1000
        for one in real
        if isinstance(one.event, c.JobEnded)
    }
    errors = {job.name: job.jct_s / real_s[job.name] - 1 for job in result.jobs if job.end_s is not None}
    worst: float = max(errors.values(), key=abs)
    real_order, simulated_order = decisions(real), decisions(simulated)
    figures = {
        "jobs": len(errors),
        "mean_jct_real": round(statistics.fmean(real_s.values()), 1),
        "mean_jct_simulated": round(result.summary().mean_jct, 1),
        "mean_absolute_error": round(statistics.fmean(map(abs, errors.values())), 3),
        "worst": round(worst, 3),
        "decisions_real": len(real_order),
        "decisions_simulated": len(simulated_order),
        "same_order": round(common(real_order, simulated_order) / max(len(real_order), len(simulated_order), 1), 3),
    }
    return figures, real_s


def between(runs: list[dict[str, float]]) -> float | None:
    """By how much the completion times of two runs differ, on average over all pairs; None of a single one."""
    pairs = itertools.permutations(runs, 2)
    differences = [abs(one[job] / other[job] - 1) for one, other in pairs for job in other]
    return round(statistics.fmean(differences), 3) if differences else None


def decisions(log: list[Received[Any]]) -> list[tuple[str, ...]]:
    """The decisions in order: changes of category, moves with their targets, and stays."""
    found: list[tuple[str, ...]] = []
    for one in log:
        match one.event:
            case c.CategoryChanged() as event:
                found.append((event.job, event.after.value))
            case c.MigrationPlanned() as event:
                found.append((event.job, "move", event.target))
            case c.StayDecided() as event:
                found.append((event.job, "stay"))
    return found


def common(one: list[tuple[str, ...]], other: list[tuple[str, ...]]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for left in one:
        before = row[:]
        for place, right in enumerate(other):
            row[place + 1] = before[place] + 1 if left == right else max(before[place + 1], row[place])
    return row[-1]


def main() -> None:
    """Run, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the demo; the same in every run")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    runs: list[dict[str, float]] = []
    for number in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="steepest-fidelity-") as folder:
            state = Path(folder) / "demo"
            run_for_real(state, options.seed)
            row, real_s = asyncio.run(compare(state))
        rows.append(row)
        runs.append(real_s)
        if not options.json:
            sys.stdout.write(
                f"run {number + 1}: " + "  ".join(f"{key} {value}" for key, value in rows[-1].items()) + "\n"
            )
            sys.stdout.flush()
    errors = [row["mean_absolute_error"] for row in rows]
    total = {
        "runs": len(rows),
        "mean_absolute_error": round(statistics.fmean(errors), 3),
        "least": min(errors),
        "most": max(errors),
        "between_real_runs": between(runs),
        "same_order": round(statistics.fmean(row["same_order"] for row in rows), 3),
    }
    if options.json:
        sys.stdout.write(json.dumps({"runs": rows, "total": total}) + "\n")
    else:
        sys.stdout.write(f"completion times: mean absolute error {total['mean_absolute_error']:.1%} ")
        sys.stdout.write(f"({total['least']:.1%} to {total['most']:.1%} over {total['runs']} runs); ")
        if total["between_real_runs"] is not None:
            sys.stdout.write(f"two real runs differ by {total['between_real_runs']:.1%}; ")
        sys.stdout.write(f"decisions in the same order: {total['same_order']:.0%}\n")


if __name__ == "__main__":
    main()
