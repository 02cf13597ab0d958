"""Turns the records of an incarnation's sources into events on the ``loss`` topic.

It owns the events and their order. It must never know files, or when reading starts and ends.

Reports through the SDK take precedence over the job's metric folder, and that over its printed output: a source counts only
until a better one has produced a record. Losses that are not finite become events of another type: no decision uses
them, but users should see them.
"""

from __future__ import annotations

import enum
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import msgspec

from steepest.clock import Clock
from steepest.collector.folders import Batch
from steepest.collector.metric_selection import MetricSelection
from steepest.collector.progress import ReadProgress
from steepest.collector.source import Source, numbered
from steepest.events import cluster as c
from steepest.events.common import LARGEST
from steepest.events.loss import JobWatched, LossDiverged, LossReported
from steepest.logger import Logger
from steepest.runtime.effector import Send
from steepest.training_logs.records import LossRecord
from steepest.untrusted.allowance import RECORDS_BURST, RECORDS_S, Allowance

LONGEST_NAME = 2_000

WATCH_AGAIN_S = 86_400.0
"""Time after which a job is announced again before its next report: deciders forget jobs that are silent for long."""

logger = Logger()


class Rank(enum.IntEnum):
    """The precedence of a source."""

    PRINTED = 1
    FOLDER = 2
    REPORTED = 3


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """An incarnation to follow, with its job's spec."""

    job: str
    incarnation: int
    spec: c.JobSpec


class Feed:
    """Sends the records of one incarnation's sources to the log.

    Attributes:
        dropped: Number of records dropped by the rate limit.
    """

    def __init__(
        self,
        follow: Follow,
        pool: str,
        in_force: Callable[[], c.PoolConfigured],
        clock: Clock,
        send: Send,
        *,
        progress: ReadProgress | None = None,
    ) -> None:
        """Send the records of ``follow``.

        Args:
            follow: The incarnation.
            pool: Its pool.
            in_force: Returns the pool's current configuration, which applies to the reports from then on.
            clock: The time of records.
            send: Sends events.
            progress: Where to note how far the incarnation is.
        """
        self._progress = progress or ReadProgress()
        self._follow = follow
        self._pool = pool
        self._in_force = in_force
        self._clock = clock
        self._send = send
        self._best = Rank.PRINTED
        self._judged = MetricSelection(follow.spec.metric)
        self._announced: JobWatched | None = None
        self._announced_s = 0.0
        self._allowed = Allowance(RECORDS_S, RECORDS_BURST, clock)
        self.dropped = 0

    async def carry_reports(self, reports: Source) -> None:
        """Send the job's SDK reports until all are read."""
        if reports.has_brought_any:
            self._best = Rank.REPORTED
        async for records in reports.batches():
            self._best = Rank.REPORTED
            await self._carry(self._stream("reports"), reports, records)

    async def carry_output(self, output: Source, reports: Source) -> None:
        """Send the losses that the job prints until all are read. Before each batch, pending SDK reports are read."""
        async for records in output.batches():
            await reports.caught_up()
            if self._best is Rank.PRINTED:
                await self._carry(self._stream("output"), output, records)

    async def carry_folder(self, batches: AsyncIterator[Batch]) -> None:
        """Send the metrics in the job's metric folder; its sources continue across incarnations."""
        async for batch in batches:
            self._best = max(self._best, Rank.FOLDER)
            if self._best is Rank.FOLDER:
                times = [self._clock.now_ms()] * len(batch.records)
                await self._report(f"{self._follow.job}.{batch.source}", batch.records, batch.numbers, times)

    def _stream(self, name: str) -> str:
        return f"{self._follow.job}.{self._follow.incarnation}.{name}"

    async def _carry(self, stream: str, source: Source, records: Sequence[LossRecord]) -> None:
        numbers = [numbered(record) for record in records]
        times = [source.time_of(record) for record in records]
        await self._report(source.stream(stream), records, numbers, times)

    async def _report(
        self, stream: str, records: Sequence[LossRecord], numbers: Sequence[int], times: Sequence[int]
    ) -> None:
        """Send reports. ``JobWatched`` (metric, parameters) precedes the first one and every change; it repeats daily."""
        allowed = self._allowed.take(len(records))
        if allowed < len(records):
            self._drop(len(records) - allowed)
            records = records[:allowed]
        for begin, end, judged in self._runs(records):
            for record in records[begin:end]:
                self._progress.take(record, judged)
            watched, now_s = self._watched(judged), self._clock.monotonic()
            if self._is_news(watched) or now_s - self._announced_s >= WATCH_AGAIN_S:
                self._announced, self._announced_s = watched, now_s
                await self._send(watched, topic="loss", key=self._follow.job, times=times[begin : begin + 1])
            await self._send(
                *(self._event(record) for record in records[begin:end]),
                topic="loss",
                key=self._follow.job,
                times=times[begin:end],
                source=stream,
                numbers=numbers[begin:end],
            )

    async def finish(self) -> None:
        """After the last record of every source: say how many were left out in all."""
        if self._announced is not None and self._announced.left_out != self.dropped:
            await self._send(self._watched(self._announced.metric), topic="loss", key=self._follow.job)

    def _is_news(self, watched: JobWatched) -> bool:
        """A count that grows all the time is said where it has doubled."""
        announced = self._announced
        if announced is None:
            return True
        return watched.left_out > 2 * announced.left_out or watched != msgspec.structs.replace(
            announced, left_out=watched.left_out
        )

    def _drop(self, count: int) -> None:
        """Count dropped records: one job must not delay the reports of others."""
        if not self.dropped:
            logger.warning(
                "too many reports; dropping the excess",
                job=self._follow.job,
                incarnation=self._follow.incarnation,
                most_a_second=RECORDS_S,
            )
        self.dropped += count

    def _runs(self, records: Sequence[LossRecord]) -> Iterator[tuple[int, int, str]]:
        """Split records into runs with the same judged metric: first index, last index + 1, metric."""
        begin, judged = 0, self._judged.name
        for at, record in enumerate(records):
            if not self._judged.take(record):
                continue
            if at > begin:
                yield begin, at, judged
            begin, judged = at, self._judged.name
        if records:
            yield begin, len(records), judged

    def _watched(self, metric: str) -> JobWatched:
        configured = self._in_force()
        return JobWatched(
            job=self._follow.job,
            pool=self._pool,
            incarnation=self._follow.incarnation,
            metric=metric[:LONGEST_NAME],
            parameters=configured.parameters.specon,
            left_out=self.dropped,
            rungs=self._follow.spec.rungs if self._judged.is_wanted(metric) else None,
        )

    def _event(self, record: LossRecord) -> LossReported | LossDiverged:
        job, incarnation = self._follow.job, self._follow.incarnation
        metric = record.metric[:LONGEST_NAME]
        step, total = _countable(record.step), _countable(record.total)
        if not math.isfinite(record.value):
            word = "nan" if math.isnan(record.value) else ("inf" if record.value > 0 else "-inf")
            return LossDiverged(job=job, incarnation=incarnation, step=step, metric=metric, value=word)
        return LossReported(
            job=job,
            incarnation=incarnation,
            step=step,
            total=total,
            epoch=record.epoch,
            metric=metric,
            value=record.value,
            split="train" if self._judged.is_named(record.metric) else record.split,
        )


def _countable(number: int | None) -> int | None:
    """A number of steps, as far as an event can hold it."""
    return number if number is not None and 0 <= number <= LARGEST else None
