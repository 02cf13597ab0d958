"""Small helpers for asyncio: wait for something or for a stop event, and search exception groups.

It must never know what is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


async def until_stopped(
    awaitable: Awaitable[T],
    stop: asyncio.Event | asyncio.Task[Any],
    *,
    tick: Callable[[], None] = lambda: None,
    interval_s: float | None = None,
) -> T | None:
    """Wait for a result or for ``stop``; what is not finished then is cancelled.

    Args:
        awaitable: What to wait for; pass it through ``asyncio.shield`` if it must survive the stop.
        stop: Ends the wait; who waits often saves a task each time with one of its own that waits for the event.
        tick: Called before each interval of the wait, for example to report that the loop is alive.
        interval_s: Length of an interval; None: one interval, as long as the wait.

    Returns:
        The result, also if ``stop`` is set at the same time; None if only ``stop`` is set.
    """
    task = asyncio.ensure_future(awaitable)
    stopped = asyncio.ensure_future(stop.wait()) if isinstance(stop, asyncio.Event) else stop
    try:
        while not (task.done() or stopped.done()):
            tick()
            await _first(task, stopped, interval_s)
        return task.result() if task.done() else None
    finally:
        if stopped is not stop:
            stopped.cancel()
        if not task.done():
            task.cancel()
            # Wait for the cancellation: the awaitable must have released what it holds before the caller goes on.
            await asyncio.gather(task, return_exceptions=True)
        elif not task.cancelled():
            task.exception()  # seen, also where the caller was cancelled as it failed


async def _first(one: asyncio.Future[Any], other: asyncio.Future[Any], timeout_s: float | None) -> None:
    """``asyncio.wait`` for the first of two, at half the cost: loops wait so for each batch."""
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_later(timeout_s, wake) if timeout_s is not None else None
    one.add_done_callback(wake)
    other.add_done_callback(wake)
    try:
        await waiter
    finally:
        if timer is not None:
            timer.cancel()
        one.remove_done_callback(wake)
        other.remove_done_callback(wake)


async def uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Run work to its end even if the caller is cancelled: a step that must not stop half way, or a client's ``stop``.

    Client libraries cancel tasks of their own while they stop, and suppress that cancellation; where the caller is cancelled
    at this moment, they suppress that one as well.

    Raises:
        asyncio.CancelledError: The caller was cancelled; the work has ended.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The errors in a group at any depth, in order, without the groups themselves."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error
