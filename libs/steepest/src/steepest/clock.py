"""The only source of time. Deciders never use it: their time is the record's."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for waiting."""

    def now_ms(self) -> int:
        """The wall clock, in milliseconds since 1970."""

    def monotonic(self) -> float:
        """Monotonic seconds with an arbitrary zero."""

    async def sleep(self, seconds: float) -> None:
        """Sleep; other tasks run in the meantime."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """The wall clock, in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Monotonic seconds with an arbitrary zero."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep; other tasks run in the meantime."""
        await asyncio.sleep(seconds)
