"""Lets sources read one after the other, and the event loop rest in between, so that it sends heartbeats in time.

It owns when who reads. It must never know what is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from steepest.clock import Clock

T = TypeVar("T")

OWED_S = 0.005
"""The shortest rest, in seconds: a shorter one would cost more than what it is for, and few reports owe none at all."""


class Turns:
    """What takes the event loop's time takes it in turns, first come, first served, and at most half of it together."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._owed_s = 0.0

    async def take(self, work: Callable[[], T]) -> T:
        """Do some work, which does not wait, after the work of those that came before; give what it gives."""
        async with self._turn:
            if self._owed_s >= OWED_S:
                owed_s, self._owed_s = self._owed_s, 0.0
                await self._clock.sleep(owed_s)
            else:
                await asyncio.sleep(0)
            began_s = self._clock.monotonic()
            try:
                return work()
            finally:
                self._owed_s += self._clock.monotonic() - began_s
