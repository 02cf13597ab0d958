"""How long commands take to start, beside an interpreter that does nothing, of the same run.

Run: ``python benchmarks/start.py [--runs 20] [--json]``
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.cli.main import COMMANDS
from steepest.clock import SystemClock
from steepest.events.common import Resources
from steepest.log.files.file_log import FileLog
from steepest.runtime.recovery.log_identity import open_partitions

STEEPEST = "from steepest.__main__ import run; run()"


def prepared(root: Path) -> Path:
    """A state folder on which a system once ran, and no job."""
    folder = StateFolder(root)
    installation = Installation(nodes=(NodeSpec("n1", Resources(1_000)),))
    folder.create(installation)

    async def begin() -> None:
        log = FileLog(folder.log, installation.layout.partitions())
        await open_partitions(log, installation.layout, SystemClock())
        await log.close()

    asyncio.run(begin())
    return root


def measure(calls: dict[str, list[str]], runs: int) -> dict[str, float]:
    """Median seconds of each call. Calls take turns, so that a busy machine is busy for all of them."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(runs + 1):  # the first round compiles
        for name, call in calls.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *call], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        state = ["--state", str(prepared(Path(root) / "state"))]
        calls = {
            "python -c pass": ["-c", "pass"],
            "steepest --help": ["-c", STEEPEST, "--help"],
            **{f"steepest {name} --help": ["-c", STEEPEST, name, "--help"] for name in COMMANDS},
            "steepest jobs": ["-c", STEEPEST, "jobs", *state],
            "steepest nodes": ["-c", STEEPEST, "nodes", *state],
            "steepest submit": ["-c", STEEPEST, "submit", *state, "--", "true"],
        }
        medians = measure(calls, options.runs)
    bare = medians["python -c pass"]
    figures = {name: {"ms": 1_000 * taken, "times_bare": taken / bare} for name, taken in medians.items()}
    if options.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:28} {figure['ms']:7.0f} ms  {figure['times_bare']:5.1f} × python -c pass")


if __name__ == "__main__":
    main()
