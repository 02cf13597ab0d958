"""Runs services over a log in one process: all of them embedded, or one alone.

A loop whose log fails starts again from its snapshot. A log that is not for this reader stops the process, which reports
why. Any other error is a bug and ends the process: a supervisor starts it again from what the log holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from steepest.aio import leaves
from steepest.clock import Clock
from steepest.errors import LogEpochError, LogUnavailableError, LogVersionError
from steepest.log.base import Log
from steepest.log.snapshot_store import SnapshotStore
from steepest.logger import Logger
from steepest.runtime.assignment import Assignment
from steepest.runtime.effector import Effector
from steepest.runtime.layout import Layout
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.outbox import LONGEST_WAIT_S, Outbox, patiently
from steepest.runtime.pool_loop import PoolLoop
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.service import Service, StreamDeciderType
from steepest.runtime.stream_loop import StreamLoop

logger = Logger()


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
        shares: Callable[[StreamDeciderType], Assignment] | None = None,
    ) -> None:
        """``shares`` gives, for a stream decider, the share of its topic; without it, one has all partitions."""
        self.health = Health(clock)
        self.metrics = metrics or Metrics()
        self._log = log
        self._layout = layout
        self._clock = clock
        self._effectors: tuple[Effector, ...] = tuple(one for service in services for one in service.effectors)
        for effector in self._effectors:
            self.health.listen(effector.name, effector.silence_s)
        self.pool = PoolLoop(
            pool,
            layout.of_pool(pool),
            log=log,
            snapshots=snapshots,
            deciders=[kind for service in services for kind in service.cluster_deciders],
            effectors=self._effectors,
            metrics=self.metrics,
            health=self.health,
            clock=clock,
        )
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
        follows_pool = any(service.follows_pool for service in services)
        self._loops: tuple[PoolLoop | StreamLoop, ...] = (self.pool, *streams) if follows_pool else tuple(streams)
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

    async def _run(self, stop: asyncio.Event) -> None:
        async for attempt in patiently():
            with attempt:
                for loop in self._loops:
                    self.health.wait(loop.name)
                await open_partitions(self._log, self._layout, self._clock)
        async with asyncio.TaskGroup() as group:
            loops = [group.create_task(self._keep_running(loop, stop), name=loop.name) for loop in self._loops]
            send = Outbox(self._log, self._layout, self.pool.pool, self._clock, self.metrics)
            effectors = [group.create_task(effector.run(send), name=effector.name) for effector in self._effectors]
            await stop.wait()
            for effector in effectors:
                effector.cancel()
            await asyncio.gather(*loops)

    async def _keep_running(self, loop: PoolLoop | StreamLoop, stop: asyncio.Event) -> None:
        try:
            while not stop.is_set():
                async for attempt in patiently():
                    with attempt:
                        await self._run_once(loop, stop)
        except (LogVersionError, LogEpochError) as error:
            self.health.refuse(str(error))
            logger.critical("this log is not for this reader", loop=loop.name, why=str(error), hint=error.hint)
            raise

    async def _run_once(self, loop: PoolLoop | StreamLoop, stop: asyncio.Event) -> None:
        """Run a loop until it stops or its log fails; raise only if the caller should retry after a wait."""
        began = self._clock.monotonic()
        try:
            await loop.run(stop)
        except LogUnavailableError as error:
            self.metrics.restarts.labels(loop.name).inc()
            self.health.wait(loop.name)
            logger.warning("the log failed; starting again", loop=loop.name, why=str(error), hint=error.hint)
            has_worked = self._clock.monotonic() - began > LONGEST_WAIT_S
            if not (has_worked or stop.is_set()):
                raise
