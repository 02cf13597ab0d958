"""Runs long reads concurrently, one time slice after another, on a small thread pool of its own.

It owns fairness: an endless read delays a short one by one slice, and never delays other users of threads.
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


class TimeSlicer:
    """Runs generators that read a little between two ``yield``s, and returns their results."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="time-slicer")

    async def run(self, reading: Generator[None, None, _T]) -> _T:
        """Run ``reading`` to its end, or until cancelled; its exceptions propagate."""
        loop = asyncio.get_running_loop()
        try:
            while (done := await loop.run_in_executor(self._threads, _slice, reading)) is None:
                pass
            return done.value
        finally:
            with contextlib.suppress(ValueError):  # its last slice still runs: garbage collection closes it later
                reading.close()

    def close(self) -> None:
        """Accept no more reads; a slice that is running ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def run_to_end(reading: Generator[None, None, _T]) -> _T:
    """Run ``reading`` to its end on this thread."""
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
