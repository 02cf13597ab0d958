"""How effectors append: they wait as long as the log does not take their events, because their reports are accepted once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import stamina

from steepest.clock import Clock
from steepest.errors import LogUnavailableError
from steepest.events.received import SEQUENCE, SOURCE
from steepest.log.base import Log
from steepest.runtime.decode import new_record
from steepest.runtime.layout import Layout


class Outbox:
    """The :class:`~steepest.runtime.effector.Send` of one pool."""

    def __init__(self, log: Log, layout: Layout, pool: str, clock: Clock) -> None:
        self._log = log
        self._layout = layout
        self._pool = pool
        self._clock = clock

    async def __call__(
        self,
        *events: msgspec.Struct,
        topic: str = "cluster",
        key: str | None = None,
        at_ms: int | None = None,
        source: str = "",
        numbers: Sequence[int] = (),
    ) -> None:
        """Append ``events`` in one go, as :class:`~steepest.runtime.effector.Send` says."""
        key = self._pool if key is None else key
        to = self._layout.of_key(topic, key)
        time = self._clock.now_ms() if at_ms is None else at_ms
        headers = [{SOURCE: source, SEQUENCE: str(number)} for number in numbers] or [{} for _ in events]
        records = [new_record(to, key, event, time, header) for event, header in zip(events, headers, strict=True)]
        async for attempt in stamina.retry_context(
            on=LogUnavailableError, attempts=None, timeout=None, wait_initial=0.1, wait_max=5.0, wait_jitter=0.1
        ):
            with attempt:
                await self._log.append(records)
