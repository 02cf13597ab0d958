"""How effectors append: they wait as long as the log does not take their events, because their reports are accepted once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec
import stamina

from steepest.clock import Clock
from steepest.errors import LogUnavailableError
from steepest.events.received import SEQUENCE, SOURCE
from steepest.log.base import Log
from steepest.runtime.decode import new_record
from steepest.runtime.layout import Layout
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.trace_context import TRACEPARENT

LONGEST_WAIT_S = 5.0
"""Between two attempts while the log takes or gives nothing."""


def patiently() -> AsyncIterator[stamina.Attempt]:
    """Attempts without end, for as long as the log takes or gives nothing."""
    return stamina.retry_context(
        on=LogUnavailableError,
        attempts=None,
        timeout=None,
        wait_initial=0.1,
        wait_max=LONGEST_WAIT_S,
        wait_jitter=0.1,
    )


class Outbox:
    """The :class:`~steepest.runtime.effector.Send` of one pool."""

    def __init__(self, log: Log, layout: Layout, pool: str, clock: Clock, metrics: Metrics | None = None) -> None:
        self._log = log
        self._layout = layout
        self._pool = pool
        self._clock = clock
        self._metrics = metrics or Metrics()

    async def __call__(
        self,
        *events: msgspec.Struct,
        topic: str = "cluster",
        key: str | None = None,
        times: Sequence[int] = (),
        source: str = "",
        numbers: Sequence[int] = (),
        trace: str = "",
    ) -> None:
        """Append ``events`` in one go, as :class:`~steepest.runtime.effector.Send` says."""
        key = self._pool if key is None else key
        to = self._layout.of_key(topic, key, self._pool)
        times = times or [self._clock.now_ms()] * len(events)
        of_all = {TRACEPARENT: trace} if trace else {}
        headers = [{SOURCE: source, SEQUENCE: str(number), **of_all} for number in numbers] or [of_all for _ in events]
        records = [
            new_record(to, key, event, at_ms, header)
            for event, at_ms, header in zip(events, times, headers, strict=True)
        ]
        try:
            await self._log.append(records)  # without the retries, which cost more to set up than this takes
        except LogUnavailableError:
            async for attempt in patiently():
                with attempt:
                    await self._log.append(records)
        for event in events:
            self._metrics.reports.labels(type(event).__name__).inc()
