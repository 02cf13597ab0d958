"""Waiting with a stop event, and the errors in exception groups."""

from __future__ import annotations

import asyncio
import gc

import pytest

from steepest.aio import leaves, uncancelled, until_stopped


async def forever(cleaned: list[str]) -> int:
    """Never returns; records that it was cleaned up."""
    try:
        await asyncio.Event().wait()
    finally:
        cleaned.append("cleaned")
    return 1


async def test_returns_the_result() -> None:
    """The result of what finishes is returned."""
    assert await until_stopped(asyncio.sleep(0, "result"), asyncio.Event()) == "result"


async def test_stop_cancels_what_is_not_finished_and_waits_for_it() -> None:
    """After the stop event, what was awaited has cleaned up."""
    stop, cleaned = asyncio.Event(), list[str]()
    asyncio.get_running_loop().call_later(0.01, stop.set)
    assert await until_stopped(forever(cleaned), stop) is None
    assert cleaned == ["cleaned"]


async def test_a_shielded_future_survives_the_stop() -> None:
    """The stop event does not cancel a shielded future."""
    stop, ended = asyncio.Event(), asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, stop.set)
    assert await until_stopped(asyncio.shield(ended), stop) is None
    assert not ended.cancelled()


async def test_an_error_is_raised() -> None:
    """An error of what is awaited reaches the caller."""

    async def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await until_stopped(fail(), asyncio.Event())


async def test_cancelling_the_wait_cancels_both() -> None:
    """Cancellation reaches what is awaited."""
    cleaned = list[str]()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await until_stopped(forever(cleaned), asyncio.Event())
    assert cleaned == ["cleaned"]


async def test_an_error_that_comes_with_the_callers_cancellation_is_seen() -> None:
    """It is not reported as never retrieved."""
    reported: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    failing: asyncio.Future[None] = loop.create_future()
    waiting = asyncio.create_task(until_stopped(failing, asyncio.Event()))
    await asyncio.sleep(0)
    failing.set_exception(ValueError("failed"))
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    del waiting, failing
    gc.collect()

    assert reported == []


async def test_ticks_before_each_interval() -> None:
    """The tick function is called once for each interval."""
    stop, ticks = asyncio.Event(), list[int]()

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 3:
            stop.set()

    await until_stopped(asyncio.Event().wait(), stop, tick=tick, interval_s=0.001)
    assert len(ticks) == 3


async def test_uncancelled_work_outlives_a_cancellation_that_it_would_swallow() -> None:
    """The caller's cancellation is raised once the work has ended, also where the work suppresses cancellations."""
    ended = list[str]()

    async def stop_a_client() -> None:
        own = asyncio.create_task(asyncio.sleep(60))
        own.cancel()
        try:
            await own
        except asyncio.CancelledError:
            ended.append("stopped")

    closing = asyncio.create_task(uncancelled(stop_a_client()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert ended == ["stopped"]


def test_leaves_of_nested_groups_in_order() -> None:
    """The errors of nested groups come in their order."""
    first, second, third = ValueError("1"), KeyError("2"), OSError("3")
    group = ExceptionGroup("outer", [first, ExceptionGroup("inner", [second]), third])
    assert list(leaves(group)) == [first, second, third]
