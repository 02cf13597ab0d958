"""Waiting with a stop event, and the errors in exception groups."""

from __future__ import annotations

import asyncio
import gc

import pytest

from steepest.aio import leaves, uncancelled, unless_stopped, until_stopped


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


async def returns(result: str, after_s: float = 0.0) -> str:
    """Return a result after a while."""
    await asyncio.sleep(after_s)
    return result


async def test_work_that_is_not_stopped_gives_its_result() -> None:
    """It is done in the task of the caller, which is not cancelled by a stop that comes later."""
    stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    assert await unless_stopped(returns("result"), stopped) == "result"
    stopped.set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_work_is_cancelled_where_a_stop_comes_first() -> None:
    """What it holds is released, and the caller goes on."""
    stopped, cleaned = asyncio.get_running_loop().create_future(), list[str]()
    asyncio.get_running_loop().call_later(0.01, stopped.set_result, None)
    assert await unless_stopped(forever(cleaned), stopped) is None
    assert cleaned == ["cleaned"]


async def test_a_stop_that_comes_with_the_result_disturbs_nothing_later() -> None:
    """The callback that is due by then finds that nothing is waited for any more."""
    reported: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    stopped: asyncio.Future[None] = loop.create_future()

    async def stop() -> str:
        stopped.set_result(None)
        return "result"

    assert await unless_stopped(stop(), stopped) == "result"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert reported == []


async def test_a_stop_that_has_come_before_stops_what_waits() -> None:
    """Nothing is waited for."""
    stopped, cleaned = asyncio.get_running_loop().create_future(), list[str]()
    stopped.set_result(None)
    assert await unless_stopped(forever(cleaned), stopped) is None


async def test_a_timeout_of_the_work_is_an_error() -> None:
    """It is not taken for the stop."""

    async def times_out() -> None:
        raise TimeoutError("the broker does not answer")

    stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError, match="the broker does not answer"):
        await unless_stopped(times_out(), stopped)


async def test_cancelling_the_caller_cancels_its_work() -> None:
    """Cancellation is no stop."""
    stopped, cleaned = asyncio.get_running_loop().create_future(), list[str]()
    waiting = asyncio.create_task(unless_stopped(forever(cleaned), stopped))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert cleaned == ["cleaned"]


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
