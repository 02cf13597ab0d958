"""Orders of jobs that are enforced by CPU limits alone: no promise, no move, no fair end.

Each node's CPU goes to its jobs in an order, as much as each can use; every job keeps its floor, so that it reports. Sizes,
demands and measurements are those of the steepest-planner. New jobs run first until they were measured, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.node_plan import JobOnNode, set_limits
from steepest.policies.steepest.steepest_planner import SteepestPlanner

Order = Callable[[JobOnNode], float]
"""The lowest is first."""


class _WithCaps(SteepestPlanner):
    order: Order

    def divide(self, cores: float, jobs: Sequence[JobOnNode], parameters: SteepestParameters) -> None:
        """Divide a node by the order."""
        floor, free = parameters.floor * cores / max(len(jobs), 1), cores
        for job in jobs:
            job.must, job.limit_m = 0.0, None
            job.rate = min(job.demand, floor)
            free -= job.rate
        for job in sorted(jobs, key=lambda job: (not job.young, type(self).order(job), job.name)):
            more = min(job.demand - job.rate, free)
            job.rate += more
            free -= more
        set_limits(cores, jobs)


class SrtfWithCaps(_WithCaps):
    """Shortest remaining time first: the least work that is left; jobs of unknown size last, the least work done first."""

    @staticmethod
    def order(job: JobOnNode) -> float:
        """Work that is left."""
        return UNKNOWN + job.used if job.left is None else job.left


class LasWithCaps(_WithCaps):
    """Least attained service: the least work done; it needs no size."""

    @staticmethod
    def order(job: JobOnNode) -> float:
        """Work done."""
        return job.used


UNKNOWN = 1e12
"""Core-seconds: more than any job has left."""
