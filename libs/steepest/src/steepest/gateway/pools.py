"""The pools that a gateway serves: of a state folder, or of a recording.

It owns what of an installation is served, and how it is opened and closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from steepest.app.installation import open_log, open_snapshots
from steepest.app.settings.tree import Settings
from steepest.clock import Clock, SystemClock
from steepest.errors import InputError
from steepest.events.common import Resources
from steepest.gateway.metrics import FeedWatch
from steepest.gateway.pool.past import Past
from steepest.gateway.pool.pool_feed import PoolFeed, following, stop
from steepest.log.base import Log, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.runtime.recovery.loop_snapshots import read_pool_snapshot
from steepest.view.cluster_view import ClusterView

HISTORY_MOST = 200_000
"""A log of at most this many records is read from its beginning; a longer one, from its newest snapshot on."""


class ServedPool(msgspec.Struct, frozen=True, kw_only=True):
    """One pool.

    Attributes:
        nodes: What it was set up with; empty where nodes come and go, and for a recording, to which nothing is submitted.
        isolated: Whether processes on different nodes cannot reach each other.
        title: For people; of a recording, its folder.
    """

    feed: PoolFeed
    past: Past
    log: Log
    nodes: Mapping[str, Resources] = {}
    isolated: bool = False
    title: str = ""


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway serves.

    Attributes:
        pools: By name, the first one first.
        log: To be appended to; None: recordings, which never change.
    """

    pools: Mapping[str, ServedPool]
    clock: Clock
    log: Log | None = None

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
    """The pools of a state folder, as they go on.

    ``watch`` gets the positions of their feeds; None: they are not watched.

    Raises:
        InputError: There is no installation in the folder.
        LogError: The log cannot be read.
    """
    folder, clock = settings.folder, SystemClock()
    installation = folder.read()
    log = open_log(settings, installation)
    names = [settings.pool] if settings.pool else installation.layout.pools
    tasks: list[asyncio.Task[None]] = []
    try:
        pools = {}
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
            isolated = installation.isolates(name)
            nodes = {node.name: node.capacity for node in installation.nodes_of(name)}
            pools[name] = ServedPool(
                feed=feed,
                past=Past(name, log, at),
                log=log,
                nodes=nodes,
                isolated=isolated,
                title=f"{name} on {own.root}",
            )
        tasks = await following([pool.feed for pool in pools.values()])
        yield Served(pools=pools, clock=clock, log=log)
    finally:
        await stop(tasks)
        await log.close()


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
            pools[name] = ServedPool(feed=feed, past=Past(name, log, at), log=log, title=str(folder))
        tasks = await following([pool.feed for pool in pools.values()])
        yield Served(pools=pools, clock=SystemClock())
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
