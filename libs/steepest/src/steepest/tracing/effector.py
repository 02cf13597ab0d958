"""The effector that gives a pool's spans away as they end. It appends nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.runtime.effector import Effector, Send
from steepest.tracing.spans import Span, SpanReader
from steepest.view.cluster_view import ClusterView

Take = Callable[[Span], None]
"""Takes a span without waiting."""


class TraceExport(Effector):
    """The spans of one pool, as long as it is this process's. What happened before it caught up is not exported."""

    name = "trace-export"

    def __init__(self, take: Take, pool: str) -> None:
        self._take = take
        self._spans = SpanReader(pool)

    def caught_up(self, view: ClusterView) -> None:
        """Begin with what the view holds."""
        self._spans.begin(view)

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Give the spans that end at a record."""
        for span in self._spans.observe(view, received, accepted=accepted):
            self._take(span)

    async def run(self, send: Send) -> None:
        """Nothing is left to do."""
        del send
        await asyncio.Event().wait()
