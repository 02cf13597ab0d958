"""``gandiva``: round-robin time slices when resources are short (Gandiva, OSDI 2018, §3).

While all jobs fit, all run. Otherwise jobs take turns in slices of 60 s, which cost little because a job is suspended at
the point of its iteration where it uses the least memory (about 100 ms).

Reconstructed, because the paper leaves details open: the round robin is weighted by the GPUs that a job requests, so that
every job gets the same number of slices, however wide it is; when a job arrives or ends within a slice, the running jobs
keep their slice, and free resources go to the next jobs in turn.

Omitted, because no workload has the necessary data: packing two jobs on one GPU (the speed of each pair), and growing into
idle GPUs (which jobs allow it). Migration against fragmentation belongs to a placement rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from steepest_lab.baselines.policy import Active, ActiveJob, ServiceOrder

SLACK_S = 1e-6


class GandivaParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes: ``slice_s``, seconds per slice."""

    slice_s: float = 60.0


class GandivaState(Active):
    """Jobs in the order of their turns.

    Attributes:
        slice_ends_s: The end of the current slice; infinity while no job waits.
    """

    slice_ends_s: float = math.inf


class Gandiva:
    """Time slices in turn (Gandiva, OSDI 2018; in part a reconstruction)."""

    name: ClassVar[str] = "gandiva"
    reads_losses: ClassVar[bool] = False

    def __init__(self, parameters: GandivaParameters | None = None, state: GandivaState | None = None) -> None:
        self.parameters = parameters or GandivaParameters()
        self.state = state or GandivaState()

    def order(
        self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int
    ) -> ServiceOrder:
        """At the end of a slice, waiting jobs come first; within a slice, running ones."""
        del capacity
        state = self.state
        jobs = state.update(arrived, ended)
        ran, waited = [job for job in jobs if job.units], [job for job in jobs if not job.units]
        if now_s + SLACK_S < state.slice_ends_s:
            return ServiceOrder(jobs=ran + waited)
        state.slice_ends_s = math.inf
        state.jobs = waited + ran
        return ServiceOrder(jobs=state.jobs)

    def again_s(self, now_s: float, running: Sequence[ActiveJob]) -> float:
        """At the end of the slice, if any job waits."""
        if len(running) == len(self.state.jobs):
            self.state.slice_ends_s = math.inf
        elif self.state.slice_ends_s == math.inf:
            self.state.slice_ends_s = now_s + self.parameters.slice_s
        return self.state.slice_ends_s
