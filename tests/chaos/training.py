"""A short training for chaos tests: its loss flattens soon, so that it is moved, and it detects a second copy of itself.

Its arguments are a folder, where it keeps its lock and its marks, and its number of steps.
"""

from __future__ import annotations

import fcntl
import math
import os
import sys
import time
from pathlib import Path

import steepest_sdk

STEP_S = 0.04


def main() -> None:
    """Train; while another process of the same job trains, leave a mark."""
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    name = os.environ["STEEPEST_JOB"]
    with (folder / f"{name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            (folder / f"{name}.twice").touch()
        run = steepest_sdk.start(save=lambda into: (into / "model").touch(), load=lambda _: None)
        for step in run.steps(steps):
            time.sleep(STEP_S)
            run.report(step, loss=1 + math.exp(-step / 15))


if __name__ == "__main__":
    main()
