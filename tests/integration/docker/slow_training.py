"""A job that computes all the time and hardly learns, until a file ``enough`` is in the folder it is given."""

from __future__ import annotations

import sys
import time
from pathlib import Path

STEP_S = 0.02


def main() -> None:
    """Train; each step takes a ten-thousandth off the loss."""
    enough = Path(sys.argv[1]) / "enough"
    step = 0
    while not enough.exists():
        until = time.thread_time() + STEP_S  # of CPU: a job that is held back takes as many times longer
        while time.thread_time() < until:
            pass
        step += 1
        sys.stdout.write(f"step {step} loss {1 / (1 + step * 1e-4):.6f}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
