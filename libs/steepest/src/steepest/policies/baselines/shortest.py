"""``sjf``, ``srtf``, ``srsf``: the shortest job first, by three meanings of short.

They know each job's length, as no real cluster does: bounds on what a policy could reach that had to guess it.

* ``sjf``, shortest job first: the whole run's length; nobody is preempted.
* ``srtf``, shortest remaining time first: what is left of it; preemptive (Blox ``schedulers/srtf.py``).
* ``srsf``, shortest remaining service first: what is left times the GPUs (Tiresias §3; "shortest-gpu" in its simulator).

Who does not fit is passed over. Equal keys keep the order that they had before, and so the order of submission at first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, ClassVar

from steepest.policies.baselines.policy import Active, ActiveJob, EventDriven, Order


class Shortest(EventDriven):
    """Least key first, preempting whoever has a greater one."""

    name: ClassVar[str]
    key: Callable[[ActiveJob], Any]

    def __init__(self, state: Active | None = None) -> None:
        self.state = state or Active()

    def order(self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int) -> Order:
        """All active jobs by their key."""
        del now_s, capacity
        jobs = self.state.update(arrived, ended)
        jobs.sort(key=type(self).key)
        return Order(jobs=jobs)


class Srtf(Shortest):
    """Shortest remaining time first, preemptive (as in Blox)."""

    name: ClassVar[str] = "srtf"
    key = attrgetter("remaining_s")


class Srsf(Shortest):
    """Shortest remaining service first, which is time by GPUs; preemptive (Tiresias, NSDI 2019, §3)."""

    name: ClassVar[str] = "srsf"

    @staticmethod
    def key(job: ActiveJob) -> float:
        """Seconds left times units asked."""
        return job.remaining_s * job.asked


class Sjf(Shortest):
    """Shortest job first, without preemption."""

    name: ClassVar[str] = "sjf"

    @staticmethod
    def key(job: ActiveJob) -> tuple[bool, float]:
        """Whoever runs first; then by the length of the whole run."""
        return (not job.units, job.work_s)
