"""A training that detects a second running copy: it holds a lock, and leaves a mark if the lock is already held.

It trains until a file named ``enough`` is in the folder that is its only argument, where lock and marks are as well. The
replicas of a gang are different trainings, each with a lock of its own.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

import steepest_sdk

STEP_S = 0.02
STEPS = 1_000_000
SLOW_S = 0.4
"""Saving and loading take this long, so that a kill can meet them."""


def save(into: Path) -> None:
    """Write a checkpoint, slowly."""
    time.sleep(SLOW_S)
    (into / "model").touch()


def main() -> None:
    """Train; the model is the number of the last step, and its loss falls quickly at first."""
    folder = Path(sys.argv[1])
    name = f"{os.environ['STEEPEST_JOB']}.{os.environ['STEEPEST_REPLICA']}"
    with (folder / f"{name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            (folder / f"{name}.twice").touch()
        run = steepest_sdk.start(save=save, load=lambda _: time.sleep(SLOW_S))
        for step in run.steps(STEPS):
            time.sleep(STEP_S)
            run.report(step, loss=1 / step)
            if (folder / "enough").exists():
                break


if __name__ == "__main__":
    main()
