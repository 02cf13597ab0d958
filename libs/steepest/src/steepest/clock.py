"""The one door through which time comes in. Deciders never use it: their time is the record's."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for waiting."""

    def now_ms(self) -> int:
        """The wall clock, in milliseconds since 1970."""

    def monotonic(self) -> float:
        """Seconds that never go back; their zero means nothing."""

    async def sleep(self, seconds: float) -> None:
        """Let others run for that long."""


class SystemClock:
    """The machine's own."""

    def now_ms(self) -> int:
        """The wall clock, in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds since some moment in the past."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let others run for that long."""
        await asyncio.sleep(seconds)
