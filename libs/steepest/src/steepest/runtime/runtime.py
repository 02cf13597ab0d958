"""Runs services over a log in one process: all of them embedded, or one alone.

A loop whose log fails starts again from its snapshot. A log that is not for this reader stops the process, which reports
why. Any other error is a bug and ends the process: a supervisor starts it again from what the log holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from steepest.aio import leaves, until_stopped
from steepest.clock import Clock
from steepest.errors import LogEpochError, LogVersionError
from steepest.log.base import Log
from steepest.log.snapshot_store import SnapshotStore
from steepest.runtime.keep_running import Loop, keep_running
from steepest.runtime.layout import Layout
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.health_metrics import HealthMetrics
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.outbox import patiently
from steepest.runtime.pool_loop import PoolLoop
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.service import Service, StreamDeciderType
from steepest.runtime.sharing.assignment import Assignment
from steepest.runtime.sharing.pools_loop import PoolsLoop
from steepest.runtime.stream_loop import StreamLoop


class Runtime:
    """Some services over one log.

    Attributes:
        pools: The loop over each pool's log, by the pool's name.
        health: Whether everything progresses.
    """

    def __init__(
        self,
        services: Sequence[Service],
        *,
        log: Log,
        layout: Layout,
        snapshots: SnapshotStore,
        clock: Clock,
        pools: Sequence[str] = (),
        metrics: Metrics | None = None,
        pool_share: Assignment | None = None,
        shares: Callable[[StreamDeciderType], Assignment] | None = None,
        upkeep: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """Run services.

        Args:
            services: What runs.
            log: The log.
            layout: Its topics and partitions.
            snapshots: Where loops keep their snapshots.
            clock: For waits and times.
            pools: Those that the services may work on; empty: all.
            metrics: Where they are counted.
            pool_share: Which of the pools are this process's, while others run the same service; None: all.
            shares: Likewise the share of a stream decider's topic; None: all partitions.
            upkeep: What else runs with the loops, until they stop.
        """
        self.health = Health(clock)
        self.metrics = metrics or Metrics()
        self.metrics.registry.register(HealthMetrics(self.health))
        self._log = log
        self._layout = layout
        self._clock = clock
        self._upkeep = upkeep
        deciders = [kind for service in services for kind in service.cluster_deciders]
        self.pools = {
            pool: PoolLoop(
                pool,
                layout.of_pool(pool),
                log=log,
                snapshots=snapshots,
                deciders=deciders,
                metrics=self.metrics,
                health=self.health,
                clock=clock,
            )
            for pool in pools or layout.pools
        }
        streams = [
            StreamLoop(
                kind,
                log=log,
                layout=layout,
                snapshots=snapshots,
                metrics=self.metrics,
                health=self.health,
                clock=clock,
                share=shares(kind) if shares else None,
            )
            for service in services
            for kind in service.stream_deciders
        ]
        self._loops: list[Loop] = [*streams]
        if any(service.follows_pool for service in services):
            self._loops.insert(
                0,
                PoolsLoop(
                    services,
                    self.pools,
                    log=log,
                    layout=layout,
                    metrics=self.metrics,
                    health=self.health,
                    clock=clock,
                    share=pool_share,
                ),
            )
        for loop in self._loops:
            self.health.expect(loop.name)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set; then finish the batches, keep snapshots, and let go.

        Raises:
            LogVersionError, LogEpochError: The log is not for this reader.
        """
        try:
            await self._run(stop)
        except BaseExceptionGroup as failures:
            for failure in leaves(failures):
                if isinstance(failure, LogVersionError | LogEpochError):
                    raise failure from failures
            raise

    async def _open(self) -> None:
        async for attempt in patiently():
            with attempt:
                for loop in self._loops:
                    self.health.wait(loop.name)
                await open_partitions(self._log, self._layout, self._clock)

    async def _run(self, stop: asyncio.Event) -> None:
        await until_stopped(self._open(), stop)
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                running = keep_running(loop, stop, metrics=self.metrics, health=self.health, clock=self._clock)
                group.create_task(running, name=loop.name)
            if self._upkeep is not None:
                group.create_task(until_stopped(self._upkeep(), stop), name="upkeep")
