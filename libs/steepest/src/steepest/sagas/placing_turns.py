"""Limit how many first placements begin at the same time; the others take turns.

A placement has a limit of time from its beginning. If all began together, a cluster that is slower than the queue is long
would meet none of these limits, and would do work that is given up. So the number follows what the cluster achieves, as the
windows of TCP do: it grows with each success, and is halved where a start was not done in time. Pure.
"""

from __future__ import annotations

from collections.abc import Container

from steepest.events import cluster as c

FIRST = 32
LEAST = 8
MOST = 512
"""Of placements at a time: before anything is known, when the cluster is slowest, and in any case."""

LATE = frozenset({"not-started", "timeout", "no-api-server", "api-failed", "locked", "stop-timeout"})
"""Codes of failed starts that say how busy the cluster is, and nothing about the job."""


class PlacingTurns:
    """The plans that have a turn, and those that wait for one, in order.

    Args:
        most: The most at a time.

    Attributes:
        width: How many may have a turn now.
    """

    def __init__(self, most: int) -> None:
        self.width = min(FIRST, most)
        self._most = most
        self._begun: dict[str, None] = {}
        self._queue: dict[str, None] = {}

    def restart(self, begun: dict[str, None]) -> None:
        """These have a turn, and no other one waits."""
        self._begun, self._queue = begun, {}

    def take(self, plan: str) -> bool:
        """Whether a plan may begin now; it waits for its turn otherwise."""
        if plan not in self._begun and len(self._begun) >= self.width:
            self._queue[plan] = None
            return False
        self._begun[plan] = None
        self._queue.pop(plan, None)
        return True

    def waits(self, plan: str) -> bool:
        """Whether a plan waits for its turn."""
        return plan in self._queue

    def note(self, event: c.ClusterEvent, in_flight: Container[str]) -> None:
        """Update the plans that have a turn from a record; a failed plan waits before it is tried again."""
        if isinstance(event, c.Tick):  # a plan may also end by an event that does not name it
            self._begun = {plan: None for plan in self._begun if plan in in_flight}
            return
        plan = getattr(event, "plan", None)
        if plan is None or plan not in self._begun:
            return
        if isinstance(event, c.StepFailed) or plan not in in_flight:
            del self._begun[plan]
        if isinstance(event, c.StepFailed) and event.code in LATE:
            self.width = max(self.width // 2, min(LEAST, self._most))
        elif isinstance(event, c.JobPlaced) and self._queue:
            self.width = min(self.width + 1, self._most)

    def next(self) -> str | None:
        """A plan whose turn has come; it waits no more."""
        if not self._queue or len(self._begun) >= self.width:
            return None
        plan = next(iter(self._queue))
        del self._queue[plan]
        return plan
