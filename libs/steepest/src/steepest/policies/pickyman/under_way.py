"""Suspensions and resumptions under way: when a resumed job trains again, and how many jobs read at the same time.

It owns what is concluded from reports that come seconds apart. It must never know how long one takes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from steepest.events import cluster as c


class UnderWay(msgspec.Struct, kw_only=True):
    """A suspension or resumption that has begun.

    Attributes:
        began_ms: The time of the record by which it began.
        epoch_left_ms: What was left of the epoch then.
        makes_room: Whether another job starts where this one is suspended.
        step: The step from which the incarnation goes on; None: unknown.
        quiet_ms: When its node last reported no further step.
        first: When its node first reported a further step, and which.
        loading: The last two counts of what it has read that were less than it loads, each with its time.
        loaded_ms: When it had read that.
    """

    plan: str
    kind: c.Overhead
    incarnation: int
    began_ms: int
    predicted_ms: int | None
    readers: int = 1
    epoch_left_ms: int | None = None
    makes_room: bool = False
    step: int | None = None
    quiet_ms: int | None = None
    first: tuple[int, int] | None = None
    loading: list[tuple[int, int]] = []
    loaded_ms: int | None = None

    def trained_from(self, step: int | None, at_ms: int, loading: tuple[int, int] | None = None) -> int | None:
        """When a resumed incarnation began its first step; None as long as that is not known.

        Args:
            step: The step that its node reports.
            at_ms: When.
            loading: What it has read, and what it reads before its first step; None: the steps alone must tell.
        """
        from_step, quiet_ms = self.step or 0, self.began_ms if self.quiet_ms is None else self.quiet_ms
        is_further = step is not None and step > from_step
        if not is_further and self.first is None:
            self.quiet_ms = at_ms
        if loading is not None:
            self._load(*loading, at_ms)
            is_over = self.loaded_ms is not None and is_further
            return min(max(self.loaded_ms or 0, quiet_ms), at_ms) if is_over else None
        if step is None or not is_further:
            return None
        if self.first is None:
            self.first = (at_ms, step)
            return None
        first_ms, first = self.first
        if step <= first:
            return None
        pace_ms = max(at_ms - first_ms, 0) / (step - first)
        return min(max(round(first_ms - (first - from_step) * pace_ms), quiet_ms), first_ms)

    def _load(self, read_bytes: int, load_bytes: int, at_ms: int) -> None:
        """Note when all was read, by the rate of the last two counts before."""
        if self.loaded_ms is not None:
            return
        if read_bytes < load_bytes:
            self.loading = [*self.loading[-1:], (at_ms, read_bytes)]
            return
        known = [(self.began_ms, 0), *self.loading][-2:]
        (since_ms, since), (before_ms, before) = known[0], known[-1]
        left_ms = (
            (load_bytes - before) * (before_ms - since_ms) / (before - since) if before > since else at_ms - before_ms
        )
        self.loaded_ms = min(max(round(before_ms + left_ms), before_ms), at_ms)


def mean_readers(spans: Iterable[tuple[int, int]], from_ms: int, until_ms: int) -> int:
    """How many jobs read on average over a span of time, rounded: one all the time, and others in their own spans."""
    took_ms = until_ms - from_ms
    shared_ms = sum(max(min(end_ms, until_ms) - max(began_ms, from_ms), 0) for began_ms, end_ms in spans)
    return 1 + round(shared_ms / took_ms) if took_ms > 0 else 1
