"""A training that shows whether it runs twice at once: it holds a lock, and leaves a mark where it finds it held.

Arguments: a folder for lock and marks, and the number of steps.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

import steepest_sdk

STEP_S = 0.02


def main() -> None:
    """Train; the model is the number of the last step, and its loss falls quickly at first."""
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
            run.report(step, loss=1 / step)


if __name__ == "__main__":
    main()
