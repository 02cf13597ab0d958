"""An event loop without a clock, a thread or a file: the next timer is always due, and chance comes from one seed."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar
from unittest import mock

from steepest.testing.virtual_time import START_S, EverybodyWaitsError

T = TypeVar("T")

MANY_TIMERS, MOST_CANCELLED = 100, 0.5
"""From so many timers on, those that were cancelled are removed where they are more than this share; as in asyncio."""


class NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set depends on when it was made, and not on its address: asyncio iterates over sets."""

    _numbers = itertools.count(1)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class WorldLoop(asyncio.SelectorEventLoop):
    """Virtual time: the clock jumps to the next timer as soon as no task can go on."""

    _ready: deque[Any]  # of asyncio.Handle, whose fields are not typed
    _stopping: bool
    _timer_cancelled_count: int
    _clock_resolution: float

    def __init__(self) -> None:
        self._now_s = START_S
        super().__init__()
        self._timers: list[tuple[float, int, Any]] = []  # tuples, because they are compared without a frame
        self._timer_numbers = itertools.count()
        self.get_debug = bool  # type: ignore[method-assign]  # asked for every future; this answers False without a frame

    def time(self) -> float:
        """Virtual seconds."""
        return self._now_s

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> NumberedTask:  # type: ignore[override]
        """Its place in a set is known."""
        return NumberedTask(coro, loop=self, name=name, context=context)

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        """As everywhere, without looking each of many thousand times whether the loop is closed or debugged."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As everywhere, likewise. Of timers for one moment, the first that was set is due first."""
        timer: Any = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._timer_numbers), timer))
        timer._scheduled = True
        return timer  # type: ignore[no-any-return]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As everywhere, likewise."""
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def run_in_executor(self, _executor: Executor | None, func: Callable[..., T], *_: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Refuse: what a thread does first is decided by no seed."""
        raise RuntimeError(f"there are no threads in this world, and {func} wants one")

    def _run_once(self) -> None:
        """Run until the loop is stopped, and not once: a frame for each turn costs as much as what is done in it.

        Files have no events here; time passes instead.
        """
        ready, timers = self._ready, self._timers
        while True:
            if timers and (timers[0][2]._cancelled or self._timer_cancelled_count > MANY_TIMERS):
                self._forget_cancelled(timers)
            if not (ready or self._stopping):
                if not timers:
                    raise EverybodyWaitsError("every task waits, and no timer is set")
                self._now_s = max(self._now_s, timers[0][0])
            end_s = self._now_s + self._clock_resolution
            while timers and timers[0][0] < end_s:
                timer = heapq.heappop(timers)[2]
                timer._scheduled = False
                ready.append(timer)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    try:
                        handle._context.run(handle._callback, *handle._args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:  # noqa: BLE001 - as asyncio does
                        self.call_exception_handler({"message": f"{handle} failed", "exception": error})
            if self._stopping:
                return

    def _forget_cancelled(self, timers: list[tuple[float, int, Any]]) -> None:
        """Timers that were cancelled go when they are due, or many."""
        if len(timers) > MANY_TIMERS and self._timer_cancelled_count > MOST_CANCELLED * len(timers):
            for _, _, timer in timers:
                timer._scheduled = not timer._cancelled
            timers[:] = [one for one in timers if one[2]._scheduled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0][2]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(timers)[2]._scheduled = False


@contextmanager
def _chance(seed: int) -> Iterator[None]:
    """Give what draws names and pauses by lot the same lot every time."""
    rng = random.Random(seed)
    before = random.getstate()
    random.seed(seed)
    try:
        with mock.patch.object(secrets, "token_hex", lambda size: rng.randbytes(size).hex()):
            yield
    finally:
        random.setstate(before)


def run_seeded(main: Coroutine[Any, Any, T], seed: int) -> T:
    """Run a coroutine to its end in virtual time; the same seed is the same run."""
    NumberedTask._numbers = itertools.count(1)
    with _chance(seed), asyncio.Runner(loop_factory=WorldLoop) as runner:
        return runner.run(main)
