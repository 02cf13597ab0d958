"""What the planner remembers of the work of a gang, over all its incarnations."""

from __future__ import annotations

import msgspec

from steepest.policies.steepest.learning_history import LossCourse
from steepest.view.progress import cpu_ms_before_steps, cpu_ms_per_step
from steepest.view.state import Job


class GangWork(msgspec.Struct):
    """The work of all replicas of a gang, in core-seconds.

    Attributes:
        start: Before the first step.
        step: Of a step, as measured last; None: it was not.
        losses: Some of its losses.
    """

    start: float = 0.0
    step: float | None = None
    losses: LossCourse = msgspec.field(default_factory=LossCourse)

    def measure(self, job: Job) -> None:
        """Take in what is known of the gang's steps now."""
        if (of_each := cpu_ms_per_step(job)) is not None:
            self.start = cpu_ms_before_steps(job) / 1000 or self.start
            self.step = of_each / 1000

    def size(self, steps: int | None) -> float | None:
        """The work of a training of so many steps; None: unknown."""
        return self.start + steps * self.step if steps and self.step is not None else None
