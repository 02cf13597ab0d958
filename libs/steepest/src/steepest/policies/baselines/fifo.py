"""``fifo``: first in, first out. Nobody is preempted, and who does not fit holds up all behind it.

The queue of a cluster without a policy, the baseline that every paper begins with. (Blox's ``fifo`` sorts by submission as
well, but passes over jobs that do not fit.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from steepest.policies.baselines.policy import Active, ActiveJob, EventDriven, Order


class Fifo(EventDriven):
    """First come, first served; who does not fit holds up all behind it."""

    name: ClassVar[str] = "fifo"

    def __init__(self, state: Active | None = None) -> None:
        self.state = state or Active()

    def order(self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int) -> Order:
        """Jobs as they came. Whoever runs stands before whoever waits, so nobody loses anything."""
        del now_s, capacity
        return Order(jobs=self.state.update(arrived, ended), stops=True)
