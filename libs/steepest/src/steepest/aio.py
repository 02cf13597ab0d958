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
    stop: asyncio.Event,
    *,
    tick: Callable[[], None] = lambda: None,
    interval_s: float | None = None,
) -> T | None:
    """Wait for a result or for ``stop``; what is not finished then is cancelled.

    Args:
        awaitable: What to wait for; pass it through ``asyncio.shield`` if it must survive the stop.
        stop: Ends the wait.
        tick: Called before each interval of the wait, for example to report that the loop is alive.
        interval_s: Length of an interval; None: one interval, as long as the wait.

    Returns:
        The result, also if ``stop`` is set at the same time; None if only ``stop`` is set.
    """
    task, stopped = asyncio.ensure_future(awaitable), asyncio.ensure_future(stop.wait())
    try:
        while not (task.done() or stopped.done()):
            tick()
            await asyncio.wait((task, stopped), timeout=interval_s, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        stopped.cancel()
        if not task.done():
            task.cancel()
            # Wait for the cancellation: the awaitable must have released what it holds before the caller goes on.
            await asyncio.gather(task, return_exceptions=True)
        elif not task.cancelled():
            task.exception()  # seen, also where the caller was cancelled as it failed


async def unless_stopped(work: Coroutine[Any, Any, T], stopped: asyncio.Future[Any]) -> T | None:
    """Wait for work in the task of the caller, and cancel it there once ``stopped`` is done.

    For loops that wait for each batch: :func:`until_stopped` costs two tasks a call.

    Returns:
        The result; None if ``stopped`` was done first.
    """
    timeout = asyncio.timeout(None)
    waits = True

    def expire(_: object) -> None:
        if waits:
            timeout.reschedule(0.0)

    try:
        async with timeout:
            stopped.add_done_callback(expire)
            return await work
    except TimeoutError:
        if not timeout.expired():
            raise
        return None
    finally:
        waits = False
        stopped.remove_done_callback(expire)


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
