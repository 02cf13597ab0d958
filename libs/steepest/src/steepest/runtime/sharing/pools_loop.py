"""The pools that a process works on: all of them, or those that the replicas of its service leave to it.

It owns the hand-over of a pool: its effectors are made when it is taken, and have ended before it is given back. It must
never read a record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from steepest.clock import Clock
from steepest.log.base import Log, TopicPartition
from steepest.runtime.effector import Effector
from steepest.runtime.keep_running import keep_running
from steepest.runtime.layout import Layout
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.outbox import Outbox
from steepest.runtime.pool_loop import PoolLoop
from steepest.runtime.service import HeldPool, Service
from steepest.runtime.sharing.assignment import Assignment, follow_assignments


class PoolsLoop:
    """Runs the loop and the effectors of each pool that is this process's."""

    def __init__(
        self,
        services: Sequence[Service],
        pools: Mapping[str, PoolLoop],
        *,
        log: Log,
        layout: Layout,
        metrics: Metrics,
        health: Health,
        clock: Clock,
        share: Assignment | None = None,
    ) -> None:
        """Work on the pools of ``share`` as they come and go; without one, on all of ``pools``."""
        self.name = "pools"
        self._services = services
        self._pools = {loop.at: loop for loop in pools.values()}
        self._log = log
        self._layout = layout
        self._metrics = metrics
        self._health = health
        self._clock = clock
        self._share = share

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set.

        Raises:
            LogUnavailableError: No share can be had now: run again.
            LogVersionError, LogEpochError: In a group: a pool's log is not for this reader.
        """
        if self._share is None:
            await self._follow(tuple(self._pools), stop)
            return
        await follow_assignments(self._share, stop, self._follow, self._wait, self._idle)

    def _wait(self) -> None:
        """Which pools are this process's is not known yet."""
        self._health.wait(self.name)

    def _idle(self) -> None:
        """There are more replicas than pools."""
        self._health.progress(self.name, 0, 0, ready=True)

    async def _follow(self, partitions: Sequence[TopicPartition], ended: asyncio.Event) -> None:
        loops = [self._pools[at] for at in partitions]
        for loop in loops:
            self._health.expect(loop.name)
        self._health.forget(self.name)
        try:
            async with asyncio.TaskGroup() as group:
                for loop in loops:
                    group.create_task(self._work(loop, ended), name=loop.name)
        finally:
            self._health.expect(self.name)
            for loop in loops:
                self._health.forget(loop.name)
                self._metrics.forget_loop(loop.name)

    async def _work(self, loop: PoolLoop, ended: asyncio.Event) -> None:
        """Work on a pool until it must be given back; when this returns, nothing acts for it any more."""
        held = HeldPool(loop.pool, partial(self._is_held, loop.at))
        loop.effectors = tuple(one for service in self._services for one in service.effectors_of(held))
        for effector in loop.effectors:
            self._health.listen(_name(effector, loop), effector.silence_s)
        send = Outbox(self._log, self._layout, loop.pool, self._clock, self._metrics)
        try:
            async with asyncio.TaskGroup() as group:
                following = group.create_task(
                    keep_running(loop, ended, metrics=self._metrics, health=self._health, clock=self._clock)
                )
                acting = [group.create_task(one.run(send), name=_name(one, loop)) for one in loop.effectors]
                await ended.wait()
                for task in acting:
                    task.cancel()
                await following
        finally:
            for effector in loop.effectors:
                self._health.stop_listening(_name(effector, loop))

    async def _is_held(self, at: TopicPartition) -> bool:
        return self._share is None or await self._share.is_held(at)


def _name(effector: Effector, loop: PoolLoop) -> str:
    return f"{effector.name}:{loop.pool}"
