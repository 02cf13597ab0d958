"""The NumPy gang of the demo, whose steps rest before they compute: what is scarce is its device, and not CPU."""

from __future__ import annotations

import os
import time

import numpy as np
from numpy.typing import NDArray

from steepest_lab.jobs import parallel
from steepest_lab.jobs.gangs import training

REST_S = 0.06
"""For each batch of a step, of which a gang's processes have equal parts."""


class Resting(training.SharedStep):
    """Rests, then computes what it would have computed."""

    def contribution(self, step: int, batches: range) -> NDArray[np.float64]:
        """The same sums, later."""
        time.sleep(REST_S * len(batches))
        return super().contribution(step, batches)


if __name__ == "__main__":
    print("sees", os.environ.get("NVIDIA_VISIBLE_DEVICES", "none"), flush=True)
    training.SharedStep = Resting  # type: ignore[misc]
    parallel.main()
