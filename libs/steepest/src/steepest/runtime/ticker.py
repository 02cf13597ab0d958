"""The pool's clock: one ``Tick`` a period, with counted time that an outage does not run away with."""

from __future__ import annotations

import asyncio

from steepest.clock import Clock
from steepest.events.cluster import ClusterEvent, PoolConfigured, Tick
from steepest.events.common import LARGEST
from steepest.events.received import Received
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView
from steepest.view.folds.fold_pool import PERIODS_COUNTED


class Ticker(Effector):
    """Writes the ticks of one pool; it is their only writer."""

    name = "ticker"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._period_ms = 0
        self._counted_ms = 0
        self._caught_up = asyncio.Event()

    def caught_up(self, view: ClusterView) -> None:
        """Continue from the counted time of the log."""
        self._period_ms = view.parameters.tick_ms
        self._counted_ms = max(self._counted_ms, view.counted_ms)
        self._caught_up.set()

    def observe(self, view: ClusterView, received: Received[ClusterEvent], *, accepted: bool) -> None:
        """Follow a change of the period."""
        if accepted and isinstance(received.event, PoolConfigured):
            self._period_ms = view.parameters.tick_ms

    async def run(self, send: Send) -> None:
        """Tick until cancelled, from the moment that the log was read."""
        await self._caught_up.wait()
        before = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._period_ms / 1000)
            now = self._clock.monotonic()
            elapsed_ms = round((now - before) * 1000)
            before = now
            counted_ms = self._counted_ms + min(elapsed_ms, PERIODS_COUNTED * self._period_ms)
            self._counted_ms = min(counted_ms, LARGEST)
            await send(Tick(counted_ms=self._counted_ms))
