"""The gang of a parameter server, whose processes rest before they compute: it trains without an end at little CPU."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from steepest_lab.jobs.gangs import parameter_server
from steepest_lab.jobs.gangs.training import SharedStep

REST_S = 0.1


class Paced(SharedStep):
    """Rests, then computes what it would have computed."""

    def contribution(self, step: int, batches: range) -> NDArray[np.float64]:
        """The same sums, later."""
        time.sleep(REST_S)
        return super().contribution(step, batches)


if __name__ == "__main__":
    parameter_server.SharedStep = Paced  # type: ignore[attr-defined]
    parameter_server.main()
