"""Real gangs on emulated nodes with declared GPUs: pairs of ``steepest`` with first come first served, and with SRTF.

Each pair runs the same gangs of the demo's NumPy training, submitted at the same times, once under each policy, on this
machine. The nodes declare GPUs that do not exist; gangs, checkpoints, suspensions and resumptions are real. A
job is late that ends more than 5 % after the end that it was promised first. Nothing that takes time here is reliable while
others use the machine, so the policies take turns, and each pair has the order of the one before reversed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.frame.bench import changed, each, figure, options

STEEPEST = [sys.executable, "-m", "steepest"]
POLICIES = {
    "steepest": ["--policy", "steepest"],
    "fifo": ["--policy", "spread", "--queueing", "fifo"],
    "srtf": ["--policy", "predicted-srtf"],
}
NODES = ["--node", "n1=0.5:gpus=2", "--node", "n2=0.5:gpus=2"]
WAIT_S = 900
LATE = 1.05


class Asked(NamedTuple):
    """A gang of a pair: when it comes, its replicas of a GPU each, and its steps."""

    at_s: float
    replicas: int
    steps: int


class RealRun(NamedTuple):
    """The outcome of a run: completion times by job, stops, lost steps, and jobs later than first promised."""

    jct_s: Mapping[str, float]
    stops: int
    lost: int
    late: int
    promised: int


def asked(seed: int, count: int, length: float) -> list[Asked]:
    """The gangs of a pair: two long ones, and then short ones, each some seconds after the one before."""
    chance = random.Random(f"real gangs/{seed}")  # noqa: S311 - a workload
    long = [Asked(2.0 * number, 4, round(length * chance.randint(300, 500))) for number in range(2)]
    return long + [
        Asked(14.0 + 5.0 * number, chance.choice([2, 4]), round(length * chance.randint(40, 90)))
        for number in range(count - 2)
    ]


def run(policy: str, gangs: Sequence[Asked], folder: Path) -> RealRun:
    """Run the gangs under a policy to their ends."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    words = [
        *STEEPEST,
        "up",
        "--state",
        str(folder),
        *NODES,
        "--interval",
        "2s",
        "--heartbeat",
        "1s",
        "--min-run",
        "10s",
    ]
    with folder.with_suffix(".log").open("w") as printed:
        up = subprocess.Popen([*words, *POLICIES[policy]], stdout=printed, stderr=printed)
    try:
        until((folder / "steepest.json").exists)
        began = time.monotonic()
        for number, gang in enumerate(gangs):
            time.sleep(max(0.0, began + gang.at_s - time.monotonic()))
            train = [sys.executable, "-m", "steepest_lab.jobs.parallel", "--steps", str(gang.steps)]
            request = ["--replicas", str(gang.replicas), "--gpus", "1", "--cpu", "0.1", "--model", "parallel"]
            request += ["--steps", str(gang.steps)]
            call("submit", folder, "--name", f"g{number}", *request, "--", *train)
        until(lambda: all(row["phase"] == "ended" for row in rows(folder)))
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait(60)
    return measured(folder)


def until(holds: Any) -> None:
    """Wait for something."""
    last = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > last:
            raise SystemExit("it took too long")
        time.sleep(1.0)


def call(command: str, folder: Path, *words: str) -> str:
    """The output of a command."""
    found = subprocess.run(
        [*STEEPEST, command, "--state", str(folder), *words], capture_output=True, text=True, check=True
    )
    return found.stdout


def rows(folder: Path) -> list[dict[str, Any]]:
    """The jobs."""
    found: list[dict[str, Any]] = json.loads(call("jobs", folder, "--json"))
    return found


def measured(folder: Path) -> RealRun:
    """The outcome of a run, from its log."""
    came: dict[str, int] = {}
    ended: dict[str, int] = {}
    due: dict[str, int] = {}
    stops = lost = 0
    for line in call("events", folder, "--json").splitlines():
        record = json.loads(line)
        event, at_ms = record["event"], record["at_ms"]
        kind, job = event["type"], event.get("job", "")
        if kind == "JobSubmitted":
            came[job] = at_ms
        elif kind == "JobEnded":
            ended[job] = at_ms
        elif kind == "JobSuspended":
            stops, lost = stops + 1, lost + event.get("steps_lost", 0)
        elif kind == "PromiseRevised" and event.get("due_in_ms") is not None:
            due.setdefault(job, at_ms + event["due_in_ms"])
    late = sum(ended[job] - came[job] > LATE * (due[job] - came[job]) for job in due if job in ended)
    return RealRun({job: (at - came[job]) / 1000 for job, at in ended.items()}, stops, lost, late, len(due))


def main() -> None:
    """Run the pairs and print each run, and the mean changes with their 95 % intervals."""
    policies = (("steepest", "fifo"), tuple(POLICIES), tuple(POLICIES))
    chosen = options(__doc__, pairs=(1, 1, 10), jobs=(3, 3, 8), length=(0.1, 0.2, 1.0), policies=policies)
    os.nice(5)
    others = [policy for policy in chosen.policies if policy != "steepest"]
    changes: dict[str, list[float]] = {other: [] for other in others}
    with tempfile.TemporaryDirectory(prefix="steepest-gangs-") as out:
        for seed in range(chosen.pairs):
            gangs, found = asked(seed, chosen.jobs, chosen.length), dict[str, RealRun]()
            order = list(chosen.policies) if seed % 2 == 0 else list(reversed(chosen.policies))
            for policy in each(f"pair {seed}", order):
                found[policy] = one = run(policy, gangs, Path(out) / f"{policy}-{seed}")
                mean = round(mean_of(one), 1)
                figures = {"stops": one.stops, "steps_lost": one.lost, "late": one.late, "promised": one.promised}
                figure(f"pair {seed} {policy}", mean_s=mean, **figures)
            for other, values in changes.items():
                values.append(100 * (mean_of(found["steepest"]) / mean_of(found[other]) - 1))
    for other, values in changes.items():
        figure(f"against {other}", mean=changed(values))


def mean_of(one: RealRun) -> float:
    """The mean completion time."""
    return statistics.fmean(one.jct_s.values())


if __name__ == "__main__":
    main()
