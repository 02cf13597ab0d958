"""``sjf``, ``srtf``, ``srsf``: the shortest job first, with three definitions of short.

They know each job's length, which no real cluster does: they bound what a policy that must predict it could achieve.

* ``sjf``, shortest job first: the length of the whole run; not preemptive.
* ``srtf``, shortest remaining time first: the remaining length; preemptive (Blox ``schedulers/srtf.py``).
* ``srsf``, shortest remaining service first: remaining length times GPUs (Tiresias §3; "shortest-gpu" in its simulator).

A job that does not fit is skipped. Ties keep their previous order, which is initially the order of submission.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, ClassVar

from steepest_lab.baselines.policy import Active, ActiveJob, EventDriven, ServiceOrder


class Shortest(EventDriven):
    """Least key first; preempts jobs with greater keys."""

    name: ClassVar[str]
    key: Callable[[ActiveJob], Any]

    def __init__(self, state: Active | None = None) -> None:
        self.state = state or Active()

    def order(
        self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int
    ) -> ServiceOrder:
        """All active jobs by their key."""
        del now_s, capacity
        jobs = self.state.update(arrived, ended)
        jobs.sort(key=type(self).key)
        return ServiceOrder(jobs=jobs)


class Srtf(Shortest):
    """Shortest remaining time first, preemptive (as in Blox)."""

    name: ClassVar[str] = "srtf"
    key = attrgetter("remaining_s")


class Srsf(Shortest):
    """Shortest remaining service first, which is time by GPUs; preemptive (Tiresias, NSDI 2019, §3)."""

    name: ClassVar[str] = "srsf"

    @staticmethod
    def key(job: ActiveJob) -> float:
        """Remaining seconds times requested units."""
        return job.remaining_s * job.asked


class Sjf(Shortest):
    """Shortest job first, without preemption."""

    name: ClassVar[str] = "sjf"

    @staticmethod
    def key(job: ActiveJob) -> tuple[bool, float]:
        """Running jobs first; then by the length of the whole run."""
        return (not job.units, job.work_s)
