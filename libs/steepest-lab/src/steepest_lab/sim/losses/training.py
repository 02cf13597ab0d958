"""Reports of one simulated job: its family's curve at its step, with its own noise."""

from __future__ import annotations

import math

from steepest.errors import InputError
from steepest_lab.sim.losses.families import FAMILIES, Family, family_of
from steepest_lab.sim.losses.noise import normal, stream_of
from steepest_lab.sim.workload import SimJob

_DIGITS = 9
"""Mathematical libraries differ in the last bits of a logarithm; a recording must not."""


class JobLosses:
    """The losses of one job under one seed; a call depends on its step alone.

    Attributes:
        family: What the losses follow.
    """

    __slots__ = ("_iterations", "_stream", "family")

    def __init__(self, job: SimJob, seed: int) -> None:
        """A job that names no family gets its model's; one that names no model either, one of its own.

        Raises:
            InputError: It names a family that does not exist.
        """
        if job.family and job.family not in FAMILIES:
            raise InputError(f"job {job.name}, family: there is no loss family {job.family!r}")
        self.family: Family = FAMILIES[job.family] if job.family else family_of(job.model or job.name, seed)
        self._iterations = job.iterations
        self._stream = stream_of(seed, job.name)

    def steps_to_learn(self, share: float) -> int:
        """The first step at which the expected loss has fallen by a share of what it falls by over the whole run."""
        expected = self.family.curve.expected
        goal = expected(0.0) - share * (expected(0.0) - expected(1.0))
        low, high = 0, self._iterations
        while low < high:
            middle = (low + high) // 2
            if expected(middle / self._iterations) <= goal:
                high = middle
            else:
                low = middle + 1
        return high

    def loss(self, step: int) -> float:
        """The loss that the job reports after ``step`` iterations, to nine digits; above 0."""
        expected = self.family.curve.expected(min(1.0, step / self._iterations))
        value = expected * math.exp(self.family.noise * normal(self._stream, step))
        return float(f"{value:.{_DIGITS}g}")
