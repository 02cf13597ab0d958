"""Steps around a batch that both loops share: wait for its records, and report its decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from steepest.aio import unless_stopped
from steepest.clock import Clock
from steepest.log.base import NewRecord, Reader, Record
from steepest.runtime.decision_stream import DecisionStream
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.trace_context import exemplar_of


async def poll_or_stop(reader: Reader, stopped: asyncio.Task[Any], max_records: int) -> Sequence[Record]:
    """The next records; none once ``stopped`` has ended. Unread records are read the next time."""
    return await unless_stopped(reader.poll(max_records=max_records), stopped) or ()


def measure_latency(metrics: Metrics, clock: Clock, loop: str, record: Record, decided: NewRecord) -> None:
    """All that was decided because of a batch is in the log: for how long its first record had to wait for that.

    ``decided`` is the first of it, whose trace is the exemplar.
    """
    seconds = max(0, clock.now_ms() - record.at_ms) / 1000
    metrics.latency_seconds.labels(loop).observe(seconds, exemplar_of(decided.headers))


def count_decisions(metrics: Metrics, stream: DecisionStream) -> None:
    """Add to the metrics what a stream made since the last call: one by one it would cost as much as making them."""
    for kind, made in stream.counts.items():
        metrics.decisions.labels(stream.name, kind).inc(made)
    stream.counts.clear()
    if stream.repeated:
        metrics.repeated.labels(stream.name).inc(stream.repeated)
        stream.repeated = 0
