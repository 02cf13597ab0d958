"""A process that is composed again, in place, whenever its installation has got pools.

It owns when. It must never know what is composed, or what a pool is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from steepest.aio import until_stopped
from steepest.app.compose import Composition
from steepest.app.pool_changes import LOOK_EVERY_S, pools_opened
from steepest.app.settings.tree import Settings
from steepest.errors import SteepestError
from steepest.logger import Logger

logger = Logger()


async def run_renewed(
    settings: Settings,
    stop: asyncio.Event,
    composition: Callable[[], AbstractAsyncContextManager[Composition]],
    run: Callable[[Composition, asyncio.Event], Awaitable[None]],
) -> None:
    """Compose a process and run it until ``stop`` is set; compose and run another one each time that pools were added.

    What runs leaves its shares, keeps its snapshots and ends before the next is composed, as for a rolling restart.

    Args:
        settings: Which installation.
        stop: Ends everything, also the wait for a log that does not answer.
        composition: Composes the process from what the installation is by then.
        run: Runs it until the event is set.

    Raises:
        SteepestError: It cannot be composed, or what ``run`` raises.
    """
    while not stop.is_set():
        async with _until_pools_are_added(settings, stop) as ended, AsyncExitStack() as stack:
            process = await until_stopped(stack.enter_async_context(composition()), ended)
            if process is not None:
                await run(process, ended)


@asynccontextmanager
async def _until_pools_are_added(settings: Settings, stop: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """An event that is set with ``stop``, or when the installation has pools that it did not have on entry."""
    pools = settings.pools
    ended = asyncio.Event()

    async def look() -> None:
        added: list[str] = []
        while not stop.is_set() and not added:
            await until_stopped(asyncio.sleep(LOOK_EVERY_S), stop)
            with contextlib.suppress(SteepestError):  # what cannot be read now is no reason to end what runs
                added = await pools_opened(settings, pools)
        if added:
            logger.info("pools were added", pools=added)
        ended.set()

    looking = asyncio.create_task(look())
    try:
        yield ended
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
