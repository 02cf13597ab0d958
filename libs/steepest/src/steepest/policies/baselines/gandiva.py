"""``gandiva``: time slices in turn when there is less than is asked for (Gandiva, OSDI 2018, §3).

While everybody fits, everybody runs. Otherwise jobs take turns in slices of 60 s, which cost little because a job is
suspended at the point of its iteration where it holds the least memory (about 100 ms).

Reconstructed, because the paper's text says less than a program needs: the round robin is weighted by the GPUs a job asks
for, so that each job gets as many slices as any other, however wide it is; a slice that an arrival or an end falls into
goes on for those who run, and what is free in it goes to the next in turn.

Left out, because no workload says what they would need: packing two jobs on one GPU (how fast each pair then is), and
growing into idle GPUs (which jobs allow it). Migration against fragmentation is a placement rule's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from steepest.policies.baselines.policy import Active, ActiveJob, Order

SLACK_S = 1e-6


class GandivaParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes: ``slice_s``, seconds of one turn."""

    slice_s: float = 60.0


class GandivaState(Active):
    """Jobs in the order of their turns.

    Attributes:
        slice_ends_s: Infinity while nobody waits.
    """

    slice_ends_s: float = math.inf


class Gandiva:
    """Time slices in turn (Gandiva, OSDI 2018; in part a reconstruction)."""

    name: ClassVar[str] = "gandiva"
    reads_losses: ClassVar[bool] = False

    def __init__(self, parameters: GandivaParameters | None = None, state: GandivaState | None = None) -> None:
        self.parameters = parameters or GandivaParameters()
        self.state = state or GandivaState()

    def order(self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int) -> Order:
        """At a slice's end, who has waited comes first; within a slice, who runs."""
        del capacity
        state = self.state
        jobs = state.update(arrived, ended)
        ran, waited = [job for job in jobs if job.units], [job for job in jobs if not job.units]
        if now_s + SLACK_S < state.slice_ends_s:
            return Order(jobs=ran + waited)
        state.slice_ends_s = math.inf
        state.jobs = waited + ran
        return Order(jobs=state.jobs)

    def again_s(self, now_s: float, running: Sequence[ActiveJob]) -> float:
        """At the slice's end, if anybody waits for it."""
        if len(running) == len(self.state.jobs):
            self.state.slice_ends_s = math.inf
        elif self.state.slice_ends_s == math.inf:
            self.state.slice_ends_s = now_s + self.parameters.slice_s
        return self.state.slice_ends_s
