"""Earlier positions of a pool's log: the view as it was, for the strip's cursor and ``?at=``.

It owns how an earlier view is found without folding everything again: from the nearest one that is kept.
"""

from __future__ import annotations

import bisect
from collections import deque
from contextlib import aclosing

from steepest.errors import InputError
from steepest.gateway.pool.folding import folded
from steepest.gateway.pool.pictures import PastMoment
from steepest.log.base import Log, TopicPartition
from steepest.read_models.decisions import DecisionEntry, decision
from steepest.view.cluster_view import ClusterView

KEEP_EVERY = 2_000
"""Records between two views that are kept. Folding them takes some hundredths of a second."""

KEPT_BYTES = 64 * 2**20
"""The most kept views; from then on no further one is kept."""

ENTRIES = 200
"""Entries of what was decided, before a position."""


class Past:
    """The past of one pool."""

    def __init__(self, log: Log, at: TopicPartition) -> None:
        self._log = log
        self._at = at
        self._offsets: list[int] = []
        self._views: dict[int, tuple[bytes, int, tuple[DecisionEntry, ...]]] = {}
        self._bytes = 0

    async def at(self, offset: int) -> tuple[PastMoment, tuple[DecisionEntry, ...]]:
        """The pool before the record of an offset, and the newest entries by then.

        Raises:
            InputError: The log does not reach so far, or its first records were removed.
        """
        begin, end = await self._log.begin(self._at), await self._log.end(self._at)
        if begin or not 0 <= offset <= end:
            why = f"is kept from {begin} on" if begin else f"has the offsets 0 to {end}"
            raise InputError(f"there is no earlier state at {offset}: {self._at} {why}", code="offset-missing")
        view, now_ms, entries = self._nearest(offset)
        newest: deque[DecisionEntry] = deque(entries, maxlen=ENTRIES)
        async with aclosing(folded(self._log, self._at, view, offset)) as records:
            async for one in records:
                now_ms = max(now_ms, one.record.at_ms)
                entry = decision(view, one.event, accepted=one.accepted) if one.event else None
                if entry is not None:
                    newest.append(entry)
                self._keep(view, now_ms, newest)
        return PastMoment(view, now_ms), tuple(newest)

    def _nearest(self, offset: int) -> tuple[ClusterView, int, tuple[DecisionEntry, ...]]:
        place = bisect.bisect_right(self._offsets, offset)
        if place == 0:
            return ClusterView(), 0, ()
        data, now_ms, entries = self._views[self._offsets[place - 1]]
        return ClusterView.restore(data), now_ms, entries

    def _keep(self, view: ClusterView, now_ms: int, entries: deque[DecisionEntry]) -> None:
        position = view.position
        if position % KEEP_EVERY or position in self._views or self._bytes >= KEPT_BYTES:
            return
        data = view.snapshot()
        self._bytes += len(data)
        self._views[position] = (data, now_ms, tuple(entries))
        bisect.insort(self._offsets, position)
