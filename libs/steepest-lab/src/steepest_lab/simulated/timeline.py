"""The event queue of a simulation, whose virtual time advances to the next event without waiting.

It owns the order of events: by time, and at equal times in the order in which they were set. It must never know what
they do. An asyncio loop is a :class:`Timeline` too, by :class:`LoopTimeline`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""


class Timeline(Protocol):
    """A source of time, in seconds, and of timers."""

    def now_s(self) -> float:
        """Seconds since an arbitrary time."""

    def call_at(self, when_s: float, act: Callable[[], None]) -> Timer:
        """Call ``act`` at ``when_s``, or as soon as possible after it."""


class LoopTimeline:
    """The clock and timers of a running asyncio loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now_s(self) -> float:
        """The loop's time."""
        return self._loop.time()

    def call_at(self, when_s: float, act: Callable[[], None]) -> Timer:
        """See :class:`Timeline`."""
        return self._loop.call_at(when_s, act)


class ScheduledCall:
    """An entry of :class:`VirtualTimeline`."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[[], None]) -> None:
        self.act: Callable[[], None] | None = act

    def cancel(self) -> None:
        """Cancel the call."""
        self.act = None


class VirtualTimeline:
    """Virtual time, kept in a heap. Setting, cancelling and running a call are O(log n) in the number of calls set."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._number = 0
        self._heap: list[tuple[float, int, ScheduledCall]] = []
        self.done = 0
        """Number of calls made so far."""

    def now_s(self) -> float:
        """Seconds since the start."""
        return self._now_s

    def call_at(self, when_s: float, act: Callable[[], None]) -> ScheduledCall:
        """See :class:`Timeline`."""
        due = ScheduledCall(act)
        self._number += 1
        heapq.heappush(self._heap, (when_s, self._number, due))
        return due

    def step(self) -> bool:
        """Make the next call; False if none is left."""
        while self._heap:
            when_s, _, due = heapq.heappop(self._heap)
            act = due.act
            if act is None:
                continue
            self._now_s = max(self._now_s, when_s)
            self.done += 1
            act()
            return True
        return False
