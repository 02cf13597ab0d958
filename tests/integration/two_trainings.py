"""A job that computes all the time and prints a loss that falls and rises without end (``steep``) or stays (``flat``)."""

from __future__ import annotations

import sys
import time

STEP_S = 0.1


def main() -> None:
    """Train until killed, with steps of the given CPU time. The loss of ``steep`` goes up and down by 0.9 in 200 steps."""
    steep = sys.argv[1] == "steep"
    step_s = float(sys.argv[2]) if len(sys.argv) > 2 else STEP_S
    step = 0
    while True:
        until = time.thread_time() + step_s  # of CPU: a capped process takes as many times longer
        while time.thread_time() < until:
            pass
        step += 1
        phase = step % 200
        loss = 1.0 - 0.9 * (phase if phase <= 100 else 200 - phase) / 100 if steep else 0.5
        sys.stdout.write(f"step {step} loss {loss:.5f}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
