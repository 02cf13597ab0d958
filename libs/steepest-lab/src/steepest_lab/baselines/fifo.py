"""``fifo``: first in, first out. No job is preempted, and a job that does not fit blocks all jobs behind it.

This is the queue of a cluster without a policy, and the first baseline of every paper. (Blox's ``fifo`` also sorts by
submission, but skips jobs that do not fit.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from steepest_lab.baselines.policy import Active, ActiveJob, EventDriven, ServiceOrder


class Fifo(EventDriven):
    """First come, first served; a job that does not fit blocks all jobs behind it."""

    name: ClassVar[str] = "fifo"

    def __init__(self, state: Active | None = None) -> None:
        self.state = state or Active()

    def order(
        self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int
    ) -> ServiceOrder:
        """Jobs in the order of their arrival. Running jobs come before waiting ones, so none is preempted."""
        del now_s, capacity
        return ServiceOrder(jobs=self.state.update(arrived, ended), stops=True)
