"""Runs services over a log in one process: all of them embedded, or one alone.

A loop whose log fails is begun anew from its snapshot; a log that is not for this reader stops the process, which says so;
any other error is a bug and ends it, because whoever starts it again starts it from what the log holds.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence

import stamina
import structlog

from steepest.clock import Clock
from steepest.errors import LogEpochError, LogUnavailableError, LogVersionError
from steepest.events.cluster import LogOpened
from steepest.log.base import Log
from steepest.log.snapshots import SnapshotStore
from steepest.runtime.decode import new_record
from steepest.runtime.effector import Effector
from steepest.runtime.health import Health
from steepest.runtime.layout import Layout
from steepest.runtime.metric_defs import Metrics
from steepest.runtime.outbox import Outbox
from steepest.runtime.pool_loop import PoolLoop
from steepest.runtime.service import Service
from steepest.runtime.stream_loop import StreamLoop

logger = structlog.get_logger(__name__)


class Runtime:
    """Some services over one log, for one pool.

    Attributes:
        pool: The loop over the pool's log.
        health: Whether everything progresses.
    """

    def __init__(
        self,
        services: Sequence[Service],
        *,
        log: Log,
        layout: Layout,
        pool: str,
        snapshots: SnapshotStore,
        clock: Clock,
        metrics: Metrics | None = None,
    ) -> None:
        self.health = Health(clock)
        self.metrics = metrics or Metrics()
        self._log = log
        self._layout = layout
        self._clock = clock
        self._effectors: tuple[Effector, ...] = tuple(one for service in services for one in service.effectors)
        self.pool = PoolLoop(
            pool,
            layout.of_pool(pool),
            log=log,
            snapshots=snapshots,
            deciders=[kind for service in services for kind in service.cluster_deciders],
            effectors=self._effectors,
            clock=clock,
            metrics=self.metrics,
            health=self.health,
        )
        self._streams = [
            StreamLoop(
                kind,
                layout.of_topic(kind.topic),
                log=log,
                layout=layout,
                snapshots=snapshots,
                clock=clock,
                metrics=self.metrics,
                health=self.health,
            )
            for service in services
            for kind in service.stream_deciders
        ]

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set; then finish the batches, keep snapshots, and let go.

        Raises:
            LogVersionError, LogEpochError: The log is not for this reader.
        """
        await open_partitions(self._log, self._layout, self._clock)
        async with asyncio.TaskGroup() as group:
            loops = [group.create_task(self._again(loop.name, loop.run, stop)) for loop in self._loops()]
            send = Outbox(self._log, self._layout, self.pool.pool, self._clock)
            effectors = [group.create_task(effector.run(send), name=effector.name) for effector in self._effectors]
            await stop.wait()
            for effector in effectors:
                effector.cancel()
            await asyncio.gather(*loops)

    def _loops(self) -> list[PoolLoop | StreamLoop]:
        return [self.pool, *self._streams]

    async def _again(self, name: str, run: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event) -> None:
        try:
            async for attempt in stamina.retry_context(
                on=LogUnavailableError, attempts=None, timeout=None, wait_initial=0.1, wait_max=5.0, wait_jitter=0.1
            ):
                with attempt:
                    if attempt.num > 1:
                        self.metrics.restarts.labels(name).inc()
                    await run(stop)
        except (LogVersionError, LogEpochError) as error:
            self.health.refuse(str(error))
            logger.critical("this log is not for this reader", loop=name, why=str(error), mend=error.mend)
            raise


async def open_partitions(log: Log, layout: Layout, clock: Clock) -> None:
    """Give every partition that is still empty its identity: a random epoch in its first record."""
    empty = [at for topic in layout.partitions() for at in layout.of_topic(topic) if await log.end(at) == 0]
    opened = [new_record(at, "", LogOpened(epoch=secrets.token_hex(8)), clock.now_ms()) for at in empty]
    if opened:
        await log.append(opened)
