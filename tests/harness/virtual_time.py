"""An event loop with virtual time: when every task waits for a timer, the clock jumps to the next timer.

It owns what time it is for a test. It must never know what is tested. Tasks run in the order in which asyncio would run
them, so a test with a seeded random generator is the same in every run, and hours of waiting take milliseconds.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

START_S = 54_321.5
"""Odd on purpose: who takes the loop's time for a wall clock, or for time since the start, is found out."""

START_MS = 1_763_683_200_000
"""The wall clock when the loop begins."""

THREAD_LOOK_S = 0.01
"""How long a thread's work is waited for before looking again; nothing is measured by it."""

T = TypeVar("T")


class EverybodyWaitsError(Exception):
    """No task can go on, no timer is set and no thread works: what is awaited never comes."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer as soon as nothing else is left to do. Work in threads is waited for in real time."""

    def __init__(self) -> None:
        self._now_s = START_S
        self._in_threads = 0
        super().__init__(_JumpingSelector(self._jump))

    def time(self) -> float:
        """Virtual seconds."""
        return self._now_s

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """See ``asyncio.loop.run_in_executor``; time stands still meanwhile."""
        self._in_threads += 1
        work: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        work.add_done_callback(self._returned)
        return work

    async def shutdown_default_executor(self, *args: Any) -> None:
        """See ``asyncio.loop.shutdown_default_executor``, which waits for a thread of its own."""
        self._in_threads += 1
        await super().shutdown_default_executor(*args)

    def _returned(self, _: object) -> None:
        self._in_threads -= 1

    def _jump(self, timeout_s: float | None, files: int) -> float:
        """How long to look for events in real time, after going on to the next timer."""
        if self._in_threads:
            return THREAD_LOOK_S
        if timeout_s is not None:
            self._now_s += max(0.0, timeout_s)
            return 0.0
        if files <= 1:  # the one is the loop's own
            raise EverybodyWaitsError("every task waits, and no timer or file can wake one")
        return THREAD_LOOK_S


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, jump: Callable[[float | None, int], float]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        return super().select(self._jump(timeout, len(self.get_map())))


class VirtualClock:
    """The :class:`~steepest.clock.Clock` of a virtual loop. To be made within it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now_ms(self) -> int:
        """The wall clock, which began at ``START_MS``."""
        return START_MS + round((self._loop.time() - START_S) * 1000)

    def monotonic(self) -> float:
        """The loop's time."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Let others run for that long."""
        await asyncio.sleep(seconds)


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time, as ``asyncio.run`` would in real time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
