"""An event loop without a clock, a thread or a file: the next timer is always due, and chance comes from one seed."""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
import selectors
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar
from unittest import mock

from steepest.testing.virtual_time import START_S, EverybodyWaitsError

T = TypeVar("T")


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

    def __init__(self) -> None:
        self._now_s = START_S
        super().__init__(_NoSelector(self._jump))
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
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def run_in_executor(self, _executor: Executor | None, func: Callable[..., T], *_: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Refuse: what a thread does first is decided by no seed."""
        raise RuntimeError(f"there are no threads in this world, and {func} wants one")

    def _jump(self, timeout_s: float | None) -> None:
        if timeout_s is None:
            raise EverybodyWaitsError("every task waits, and no timer is set")
        self._now_s += max(0.0, timeout_s)


class _NoSelector(selectors.SelectSelector):
    """Is asked for events of files, of which there are none, and lets time pass instead."""

    def __init__(self, jump: Callable[[float | None], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout != 0:
            self._jump(timeout)
        return []


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
