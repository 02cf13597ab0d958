"""A training whose steps take the same CPU time each, and that can be resumed: ``steady_training.py STEPS``."""

from __future__ import annotations

import sys
import time

import steepest_sdk

STEP_S = 0.2


def main() -> None:
    """Train; the loss falls fast, and slower later."""
    run = steepest_sdk.start(save=lambda folder: (folder / "state").touch(), load=lambda _: None)
    for step in run.steps(int(sys.argv[1])):
        until = time.thread_time() + STEP_S  # of CPU: a job that is held back takes as many times longer
        while time.thread_time() < until:
            pass
        run.report(step, loss=1 / (1 + step))


if __name__ == "__main__":
    main()
