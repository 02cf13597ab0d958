"""A gateway over a log in memory, within a test's own process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.harness.memory_log import MemoryLog

from steepest.app.settings.gateway import GatewaySettings
from steepest.app.state_folder import Installation, NodeSpec
from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.gateway.pool.past import Past
from steepest.gateway.pool.pool_feed import PoolFeed, following, stop
from steepest.gateway.pools import Served, ServedPool
from steepest.gateway.server import Listening, listening
from steepest.log.base import TopicPartition
from steepest.runtime.decode import new_record, received
from steepest.runtime.layout import Layout
from steepest.view.cluster_view import ClusterView

AT = TopicPartition("cluster")
BEGINNING: Sequence[c.ClusterEvent] = (
    c.LogOpened(epoch="e"),
    c.PoolConfigured(),
    c.NodeJoined(node="n1", capacity=Resources(cpu_m=4_000)),
)


async def log_of(*events: c.ClusterEvent) -> MemoryLog:
    """A log of a pool that is configured, with a node, and then these events."""
    log = MemoryLog(Layout(pools=("default",)).partitions())
    await append(log, *BEGINNING, *events)
    return log


async def append(log: MemoryLog, *events: c.ClusterEvent) -> None:
    """Append more."""
    await log.append([new_record(AT, "default", event, 1_700_000_000_000) for event in events])


@asynccontextmanager
async def served_pool(
    log: MemoryLog, *, begin: ClusterView | None = None, is_up: bool = False, on_kubernetes: bool = False
) -> AsyncIterator[ServedPool]:
    """The pool of a log, read from its beginning or from a view on."""
    feed = PoolFeed("default", AT, log, begin=begin, now_ms=lambda newest: newest, is_up=lambda: is_up)
    node = NodeSpec("n1", Resources(cpu_m=4_000), engine="kubernetes://n/c:/v" if on_kubernetes else "")
    tasks = await following([feed])
    try:
        yield ServedPool(feed=feed, past=Past(log, AT), log=log, installation=Installation(nodes=(node,)))
    finally:
        await stop(tasks)


@asynccontextmanager
async def gateway(pool: ServedPool, settings: GatewaySettings | None = None) -> AsyncIterator[Listening]:
    """A gateway that serves it."""
    served = Served(pools={"default": pool}, clock=SystemClock())
    async with listening(served, settings or GatewaySettings(port=0)) as here:
        yield here


async def view_of(log: MemoryLog, until: int) -> ClusterView:
    """The view before the record of an offset."""
    view, reader = ClusterView(), log.reader({AT: 0})
    for record in await reader.poll(max_records=until):
        view.fold(received(record))
    await reader.close()
    return view
