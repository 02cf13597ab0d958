"""Gradient descent on a parabola, for sweeps: ``swept_training.py RATE STEPS``. The larger the rate, the better."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import steepest_sdk

STEP_S = 0.03


def main() -> None:
    """Train; each step waits."""
    place = [5.0]

    def save(folder: Path) -> None:
        (folder / "place").write_text(repr(place[0]))

    def load(folder: Path) -> None:
        place[0] = float((folder / "place").read_text())

    run = steepest_sdk.start(save=save, load=load)
    for step in run.steps(int(sys.argv[2])):
        place[0] -= float(sys.argv[1]) * 2 * place[0]
        time.sleep(STEP_S)
        run.report(step, loss=place[0] ** 2)


if __name__ == "__main__":
    main()
