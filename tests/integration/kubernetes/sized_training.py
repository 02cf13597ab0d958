"""A training whose checkpoint has a given size. It trains until a file named ``enough`` is in its folder of checkpoints.

Arguments: the folder, and the size in MiB. It saves when it is stopped, and once at its first report, so that the size is
known before a move. After that it waits for a file named ``go`` beside the other. What it saves cannot be compressed, and it
reads all of that when it resumes.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import steepest_sdk

STEP_S = 0.05
STEPS = 1_000_000
MIB = 1 << 20


def main() -> None:
    """Train; the loss falls quickly at first."""
    folder, mib = Path(sys.argv[1]), int(sys.argv[2])
    model = [os.urandom(MIB) for _ in range(mib)]

    def save(into: Path) -> None:
        with (into / "model").open("wb") as file:
            file.writelines(model)

    def load(source: Path) -> None:
        assert (source / "model").stat().st_size == mib * MIB
        with (source / "model").open("rb") as file:
            model[:] = [file.read(MIB) for _ in range(mib)]

    run = steepest_sdk.start(save=save, load=load, mode="on-stop")
    for step in run.steps(STEPS):
        time.sleep(STEP_S)
        run.report(step, loss=1 / step)
        while not (folder / "go").exists():
            time.sleep(STEP_S)
        if (folder / "enough").exists():
            break


if __name__ == "__main__":
    main()
