"""The pools that a gateway serves: of a state folder, or of a recording.

It owns what of an installation is served, and how it is opened and closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from steepest.app.installation import open_log, open_snapshots
from steepest.app.pool_changes import LOOK_EVERY_S, pools_opened
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation
from steepest.clock import Clock, SystemClock
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.errors import InputError, SteepestError
from steepest.gateway.metrics import FeedWatch
from steepest.gateway.pool.past import Past
from steepest.gateway.pool.pool_feed import AGAIN_S, PoolFeed, following, stop
from steepest.log.base import Log, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.logger import Logger
from steepest.runtime.recovery.loop_snapshots import read_pool_snapshot
from steepest.view.cluster_view import ClusterView

logger = Logger()

HISTORY_MOST = 200_000
"""A log of at most this many records is read from its beginning; a longer one, from its newest snapshot on."""


class ServedPool(msgspec.Struct, frozen=True, kw_only=True):
    """One pool.

    Attributes:
        installation: What it is a pool of; one without nodes for a recording, to which nothing is submitted.
        title: For people; of a recording, its folder.
        printed: Where what its jobs print is kept; None for a recording, which has none of it.
    """

    feed: PoolFeed
    past: Past
    log: Log
    installation: Installation = Installation(nodes=())
    title: str = ""
    printed: AdapterFolder | None = None


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """The pools that a gateway serves.

    Attributes:
        pools: By name, the first one first; those that are added to a live installation come last.
        recordings: Whether they are recordings, which never change.
    """

    pools: Mapping[str, ServedPool]
    clock: Clock
    recordings: bool = False

    def pool(self, name: str | None) -> ServedPool:
        """A pool by its name; None is the first.

        Raises:
            InputError: There is none.
        """
        if name is None:
            return next(iter(self.pools.values()))
        if name not in self.pools:
            raise InputError(
                f"there is no pool {name[:80]!r}", code="no-such-pool", hint=f"there are {', '.join(self.pools)}"
            )
        return self.pools[name]


@asynccontextmanager
async def installation_served(settings: Settings, watch: FeedWatch | None = None) -> AsyncIterator[Served]:
    """The pools of a state folder, as they go on, and those that are added meanwhile.

    ``watch`` gets the positions of their feeds; None: they are not watched.

    Raises:
        InputError: There is no installation in the folder.
        LogError: The log cannot be read.
    """
    pools: dict[str, ServedPool] = {}
    async with AsyncExitStack() as stack:
        await _serve(settings, settings.pools, pools, watch, stack)
        if settings.pool is None:
            adding = [asyncio.create_task(_serve_added(settings, pools, watch), name="added pools")]
            stack.push_async_callback(stop, adding)
        yield Served(pools=pools, clock=SystemClock())


async def _serve(
    settings: Settings,
    names: Sequence[str],
    pools: dict[str, ServedPool],
    watch: FeedWatch | None,
    stack: AsyncExitStack,
) -> None:
    """Open the log as it is by now, and serve some of its pools from it, once all that is there was read."""
    folder, clock = settings.folder, SystemClock()
    installation = folder.read()
    log = open_log(settings, installation)
    stack.push_async_callback(log.close)
    opened: dict[str, ServedPool] = {}
    for name in names:
        at = installation.layout.of_pool(name)
        own = folder.of_pool(installation, name)
        feed = PoolFeed(
            name,
            at,
            log,
            begin=await _beginning(settings, log, at),
            now_ms=lambda newest: clock.now_ms() if folder.is_up else newest,
            is_up=lambda: folder.is_up,
            watch=watch,
        )
        opened[name] = ServedPool(
            feed=feed,
            past=Past(log, at),
            log=log,
            installation=installation,
            title=f"{name} on {own.root}",
            printed=AdapterFolder(own.cluster),
        )
    stack.push_async_callback(stop, await following([pool.feed for pool in opened.values()]))
    pools |= opened


async def _serve_added(settings: Settings, pools: dict[str, ServedPool], watch: FeedWatch | None) -> None:
    """Serve pools that are added, next to the others: no reader of those notices."""
    async with AsyncExitStack() as stack:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                if added := await pools_opened(settings, tuple(pools)):
                    async with AsyncExitStack() as one:
                        await _serve(settings, added, pools, watch, one)
                        stack.push_async_callback(one.pop_all().aclose)
                    logger.info("pools were added", pools=added)
            except SteepestError as error:
                logger.warning("added pools cannot be read; trying again", error=str(error))
                await asyncio.sleep(AGAIN_S)


@asynccontextmanager
async def recordings_served(folders: Mapping[str, Path]) -> AsyncIterator[Served]:
    """The first pool of each of some recordings, under names of their own.

    Raises:
        RecordingError: One cannot be read.
    """
    logs = [FileLog.open(folder, read_only=True) for folder in folders.values()]
    tasks: list[asyncio.Task[None]] = []
    try:
        pools = {}
        at = TopicPartition("cluster", 0)
        for (name, folder), log in zip(folders.items(), logs, strict=True):
            feed = PoolFeed(name, at, log, now_ms=lambda newest: newest, is_up=lambda: False)
            pools[name] = ServedPool(feed=feed, past=Past(log, at), log=log, title=str(folder))
        tasks = await following([pool.feed for pool in pools.values()])
        yield Served(pools=pools, clock=SystemClock(), recordings=True)
    finally:
        await stop(tasks)
        for log in logs:
            await log.close()


async def _beginning(settings: Settings, log: Log, at: TopicPartition) -> ClusterView | None:
    """The view to continue: None if the log is short enough to be read whole, else the newest snapshot's."""
    if await log.begin(at) == 0 and await log.end(at) <= HISTORY_MOST:
        return None
    snapshot = await read_pool_snapshot(open_snapshots(settings, log), log, at)
    return None if snapshot is None else ClusterView(snapshot.view)
