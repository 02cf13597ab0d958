"""What happens when: the queue of a simulation, whose time goes on as fast as it is worked off.

It owns the order of things: by time, and at one time in the order in which they were set. It must never know what happens.
An asyncio loop is a :class:`Timeline` too, by :class:`LoopTimeline`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Something that is to happen."""

    def cancel(self) -> None:
        """It shall not happen."""


class Timeline(Protocol):
    """Tells the time, in seconds, and does things at a time."""

    def now_s(self) -> float:
        """Seconds since some moment."""

    def call_at(self, when_s: float, act: Callable[[], None]) -> Timer:
        """Do ``act`` at a time, or as soon as possible after it."""


class LoopTimeline:
    """The time of a running asyncio loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now_s(self) -> float:
        """The loop's time."""
        return self._loop.time()

    def call_at(self, when_s: float, act: Callable[[], None]) -> Timer:
        """See :class:`Timeline`."""
        return self._loop.call_at(when_s, act)


class Due:
    """An entry of :class:`VirtualTimeline`."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[[], None]) -> None:
        self.act: Callable[[], None] | None = act

    def cancel(self) -> None:
        """It shall not happen."""
        self.act = None


class VirtualTimeline:
    """A heap. Setting, cancelling and doing are O(log n) in what is set."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._number = 0
        self._heap: list[tuple[float, int, Due]] = []
        self.done = 0
        """How many things have happened."""

    def now_s(self) -> float:
        """Seconds since the beginning."""
        return self._now_s

    def call_at(self, when_s: float, act: Callable[[], None]) -> Due:
        """See :class:`Timeline`."""
        due = Due(act)
        self._number += 1
        heapq.heappush(self._heap, (when_s, self._number, due))
        return due

    def step(self) -> bool:
        """Do the next thing; False where nothing is left."""
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
