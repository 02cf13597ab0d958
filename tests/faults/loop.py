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
from contextvars import Context, copy_context
from typing import Any, ClassVar, TypeVar
from unittest import mock

import msgspec
from tests.harness.virtual_time import START_S, EverybodyWaitsError

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


class Due(msgspec.Struct):
    """Stands for ``asyncio.Handle`` and ``TimerHandle``, and is made without a frame.

    Attributes:
        run: Of its context.
        timers: Of what is due later, the timers among which it is.
    """

    run: Callable[..., object]
    callback: Callable[..., object]
    args: tuple[Any, ...]
    timers: Timers | None = None
    is_cancelled: bool = False
    _source_traceback: ClassVar[None] = None  # asked for by asyncio

    def cancel(self) -> None:
        """Do nothing when it is due."""
        if not self.is_cancelled:
            self.is_cancelled = True
            if self.timers is not None:
                self.timers.cancelled += 1


class Timers:
    """What is due later, the earliest first.

    Attributes:
        due: Tuples, because they are compared without a frame: of timers for one moment, the first that was set is first.
        cancelled: How many of them were cancelled.
    """

    def __init__(self) -> None:
        self.due: list[tuple[float, int, Due]] = []
        self.cancelled = 0
        self._numbers = itertools.count()

    def add(self, when: float, due: Due) -> None:
        """Set one."""
        heapq.heappush(self.due, (when, next(self._numbers), due))

    def forget_cancelled(self) -> None:
        """Timers that were cancelled go when they are due, or many."""
        due = self.due
        if self.cancelled > MANY_TIMERS and self.cancelled > MOST_CANCELLED * len(due):
            due[:] = [one for one in due if not one[2].is_cancelled]
            heapq.heapify(due)
            self.cancelled = 0
        while due and due[0][2].is_cancelled:
            self.cancelled -= 1
            heapq.heappop(due)


class WorldLoop(asyncio.SelectorEventLoop):
    """Virtual time: the clock jumps to the next timer as soon as no task can go on."""

    _ready: deque[Due]
    _stopping: bool
    _clock_resolution: float

    def __init__(self) -> None:
        self._now_s = START_S
        super().__init__()
        self._timers = Timers()
        self.get_debug = bool  # type: ignore[method-assign]  # asked for every future; this answers False without a frame

    def time(self) -> float:
        """Virtual seconds."""
        return self._now_s

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> NumberedTask:  # type: ignore[override]
        """Its place in a set is known."""
        return NumberedTask(coro, loop=self, name=name, context=context)

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Due:  # type: ignore[override]
        """As everywhere, without looking each of many thousand times whether the loop is closed or debugged."""
        due = Due((copy_context() if context is None else context).run, callback, args)
        self._ready.append(due)
        return due

    def _call_soon(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> Due:
        """What ``call_soon_threadsafe`` calls."""
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Due:
        """As everywhere, likewise."""
        timers = self._timers
        due = Due((copy_context() if context is None else context).run, callback, args, timers)
        timers.add(when, due)
        return due

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Due:
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
        later = timers.due
        while True:
            if later and (later[0][2].is_cancelled or timers.cancelled > MANY_TIMERS):
                timers.forget_cancelled()
            if not (ready or self._stopping):
                if not later:
                    raise EverybodyWaitsError("every task waits, and no timer is set")
                self._now_s = max(self._now_s, later[0][0])
            end_s = self._now_s + self._clock_resolution
            while later and later[0][0] < end_s:
                due = heapq.heappop(later)[2]
                due.timers = None
                ready.append(due)
            for _ in range(len(ready)):
                due = ready.popleft()
                if not due.is_cancelled:
                    try:
                        due.run(due.callback, *due.args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:  # noqa: BLE001 - as asyncio does
                        self.call_exception_handler({"message": f"{due} failed", "exception": error})
            if self._stopping:
                return


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
