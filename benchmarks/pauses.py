"""How long an unchanged job stands still while a keeper moves it to another node of this machine.

A pause begins with the order to save the job, and ends with the next line that the job prints after its restore. In between
lie the save with its compression and digest, the stop, the next keeper's start, the check of the digest and the restore.
Next to it is the time of a bare start: the same command, from its start to its first line.

Trainings in NumPy are measured, and in PyTorch with two workers of a loader where PyTorch can be imported (``make
test-frameworks`` makes such an environment). It needs ``make criu`` and root, and skips where it cannot run.
"""

from __future__ import annotations

import asyncio
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.frame.bench import each, figure, options, skip
from tests.harness.kept_job import JOB, KeptJob, missing, running, training
from tests.harness.moved_trainings import TRAINING

from steepest.events.common import CheckpointMode

LOOK_S = 0.005
STEPS, APART = 100_000, 40
"""Of a job, and between two of its moves."""


async def printed(job: KeptJob, lines: int) -> float:
    """Wait until the job has printed this many lines; return the monotonic time. Waits of tests look too rarely."""
    while job.output.count("\n") < lines:  # noqa: ASYNC110 - only its file says it
        await asyncio.sleep(LOOK_S)
    return time.monotonic()


async def measure(name: str, command: Sequence[str], moves: int) -> None:
    """Move one job to and fro, and print its pauses."""
    with tempfile.TemporaryDirectory() as folder:
        job, pauses = KeptJob(Path(folder) / "state", command, CheckpointMode.AUTO), []
        began = time.monotonic()
        async with running(job):
            starts_s = await printed(job, 1) - began
            for _ in each(f"moves of {name}", range(moves)):
                began = await printed(job, job.output.count("\n") + APART)
                job.saved = await job.save()
                await job.cluster.stop(JOB, job.incarnation, grace_s=10.0)
                lines = job.output.count("\n")
                await job.start()
                pauses.append(await printed(job, lines + 1) - began)
        figure(name, median_s=statistics.median(pauses), least_s=min(pauses), most_s=max(pauses), starts_s=starts_s)


def main() -> None:
    """Measure each kind of training that this environment has."""
    asked = options(__doc__, moves=(1, 5, 20))
    with tempfile.TemporaryDirectory() as folder:
        if why := missing(Path(folder)):
            skip(why)
    asyncio.run(measure("NumPy", training(STEPS), asked.moves))
    if importlib.util.find_spec("torch") is not None:
        command = (sys.executable, str(TRAINING), "--style=workers", f"--steps={STEPS}", "--pause=0.05")
        asyncio.run(measure("PyTorch, two workers", command, asked.moves))


if __name__ == "__main__":
    main()
