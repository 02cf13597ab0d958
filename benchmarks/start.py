"""How long commands take to start, beside an interpreter that does nothing, of the same run."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.frame.bench import each, figure, options

from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.cli.main import COMMANDS
from steepest.clock import SystemClock
from steepest.events.cluster import PoolConfigured
from steepest.events.common import Resources
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import new_record
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
        configured = PoolConfigured()
        await log.append([new_record(installation.layout.of_pool("default"), "default", configured, 0)])
        await log.close()

    asyncio.run(begin())
    return root


def measure(calls: dict[str, list[str]], runs: int) -> dict[str, float]:
    """Median seconds of each call. Calls take turns, so that a busy machine is busy for all of them."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in each("runs of every command", range(runs + 1)):  # the first one compiles
        for name, call in calls.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *call], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def main() -> None:
    """Measure and print."""
    asked = options(__doc__, runs=(1, 5, 20), commands=(1, len(COMMANDS), len(COMMANDS)))
    with tempfile.TemporaryDirectory() as root:
        state = ["--state", str(prepared(Path(root) / "state"))]
        calls = {
            "python -c pass": ["-c", "pass"],
            "steepest --help": ["-c", STEEPEST, "--help"],
            **{
                f"steepest {name} --help": ["-c", STEEPEST, name, "--help"] for name in list(COMMANDS)[: asked.commands]
            },
            "steepest jobs": ["-c", STEEPEST, "jobs", *state],
            "steepest nodes": ["-c", STEEPEST, "nodes", *state],
            "steepest submit": ["-c", STEEPEST, "submit", *state, "--", "true"],
        }
        medians = measure(calls, asked.runs)
    bare = medians["python -c pass"]
    for name, taken in medians.items():
        figure(name, ms=round(1_000 * taken), times_bare=round(taken / bare, 1))


if __name__ == "__main__":
    main()
