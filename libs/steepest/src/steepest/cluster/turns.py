"""Long reading, side by side: each a slice at a time, in turns, on a few threads of their own.

It owns fairness: what is endless delays what is short by a slice, and never whatever else uses threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import msgspec

_T = TypeVar("_T")
_THREADS = 2
_SLICE_S = 0.05


class _Done(msgspec.Struct, Generic[_T], frozen=True):
    value: _T


class Turns:
    """Runs generators that read a little between two ``yield``, and gives what they return."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="turns")

    async def run(self, reading: Generator[None, None, _T]) -> _T:
        """Read to the end, or until cancelled; what it raises is raised."""
        loop = asyncio.get_running_loop()
        try:
            while (done := await loop.run_in_executor(self._threads, _slice, reading)) is None:
                pass
            return done.value
        finally:
            with contextlib.suppress(ValueError):  # its last slice is not over: it is closed once nobody holds it
                reading.close()

    def close(self) -> None:
        """Take nothing more; a slice that is under way ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def to_end(reading: Generator[None, None, _T]) -> _T:
    """Read to the end at once, on this thread."""
    while True:
        try:
            next(reading)
        except StopIteration as end:
            value: _T = end.value
            return value


def _slice(reading: Generator[None, None, _T]) -> _Done[_T] | None:
    until = time.monotonic() + _SLICE_S
    while time.monotonic() < until:
        try:
            next(reading)
        except StopIteration as end:
            return _Done(end.value)
    return None
