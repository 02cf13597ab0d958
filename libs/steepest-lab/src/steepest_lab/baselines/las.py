"""``las``: least attained service first, updated once per round (Blox ``schedulers/las.py``).

Service is GPUs times seconds of running. It needs no knowledge of a job's length, but two long jobs with equal service
take turns every round and pay for each switch, which Tiresias' queues avoid.

Blox decides again every round and leaves the length of a round to its user. 300 s is this implementation's choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from steepest_lab.baselines.policy import Active, ActiveJob, ServiceOrder


class LasParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes: ``round_s``, seconds between two decisions while a job waits."""

    round_s: float = 300.0


class Las:
    """Least attained service first, updated once per round (as in Blox); ties keep their previous order."""

    name: ClassVar[str] = "las"
    reads_losses: ClassVar[bool] = False

    def __init__(self, parameters: LasParameters | None = None, state: Active | None = None) -> None:
        self.parameters = parameters or LasParameters()
        self.state = state or Active()

    def order(
        self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int
    ) -> ServiceOrder:
        """All active jobs by their attained service."""
        del now_s, capacity
        jobs = self.state.update(arrived, ended)
        jobs.sort(key=lambda job: job.attained_s * job.asked)
        return ServiceOrder(jobs=jobs)

    def again_s(self, now_s: float, running: Sequence[ActiveJob]) -> float:
        """A round later, if any job waits."""
        return now_s + self.parameters.round_s if len(running) < len(self.state.jobs) else math.inf
