"""What an incarnation's sources become on the ``loss`` topic: which of them counts, what is judged, and when it was.

It owns the events and their order. It must never know files, or when reading begins and ends.

What a job reports through the SDK goes before what is found in its metric folder, and that before what it prints: a source
counts only as long as no better one has brought anything. Losses that are no finite numbers are told apart, because they
decide nothing and people should know.
"""

from __future__ import annotations

import enum
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import msgspec
import structlog

from steepest.clock import Clock
from steepest.collector.allowance import RECORDS_BURST, RECORDS_S, Allowance
from steepest.collector.folders import Batch
from steepest.collector.metric_selection import MetricSelection
from steepest.collector.source import Source, numbered
from steepest.events import cluster as c
from steepest.events.common import LARGEST
from steepest.events.loss import JobWatched, LossDiverged, LossReported
from steepest.runtime.effector import Send
from steepest.training_logs.records import LossRecord

LONGEST_NAME = 2_000

WATCH_AGAIN_S = 86_400.0
"""Time after which a job is announced again before its next report: one of which nothing is heard is forgotten."""

logger = structlog.get_logger(__name__)


class Rank(enum.IntEnum):
    """How good a source is."""

    PRINTED = 1
    FOLDER = 2
    REPORTED = 3


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """An incarnation to follow, with all that must be known of its job."""

    job: str
    incarnation: int
    spec: c.JobSpec


class Feed:
    """The sources of one incarnation, on their way to the log.

    Attributes:
        dropped: Records beyond what is taken of one incarnation.
    """

    def __init__(
        self, follow: Follow, pool: str, in_force: Callable[[], c.PoolConfigured], clock: Clock, send: Send
    ) -> None:
        """``in_force`` gives the pool's configuration as it is now: what is reported from then on is judged by it."""
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
        """Send what the job reports, until all is read."""
        if reports.has_brought_any:
            self._best = Rank.REPORTED
        async for records in reports.batches():
            self._best = Rank.REPORTED
            await self._carry(self._stream("reports"), reports, records)

    async def carry_output(self, output: Source, reports: Source) -> None:
        """Send what the job prints, until all is read. What it has reported by then is looked at first."""
        async for records in output.batches():
            await reports.caught_up()
            if self._best is Rank.PRINTED:
                await self._carry(self._stream("output"), output, records)

    async def carry_folder(self, batches: AsyncIterator[Batch]) -> None:
        """Send what is found in the job's metric folder; its sources go on from one incarnation to the next."""
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
        """Say what is judged, and by which parameters, before the first report, wherever that is another one, and daily."""
        allowed = self._allowed.take(len(records))
        if allowed < len(records):
            self._drop(len(records) - allowed)
            records = records[:allowed]
        for begin, end, judged in self._runs(records):
            watched, now_s = self._watched(judged), self._clock.monotonic()
            if watched != self._announced or now_s - self._announced_s >= WATCH_AGAIN_S:
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

    def _drop(self, count: int) -> None:
        """What is beyond its allowance decides nothing: one job must not delay what is known of the others."""
        if not self.dropped:
            logger.warning(
                "more reports than are taken; the rest is left out",
                job=self._follow.job,
                incarnation=self._follow.incarnation,
                most_a_second=RECORDS_S,
            )
        self.dropped += count

    def _runs(self, records: Sequence[LossRecord]) -> Iterator[tuple[int, int, str]]:
        """Records from and up to, that are judged alike; with the name."""
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
            flags=configured.flags,
        )

    def _event(self, record: LossRecord) -> LossReported | LossDiverged:
        job, incarnation = self._follow.job, self._follow.incarnation
        metric = record.metric[:LONGEST_NAME]
        step = record.step if record.step is not None and 0 <= record.step <= LARGEST else None
        if not math.isfinite(record.value):
            word = "nan" if math.isnan(record.value) else ("inf" if record.value > 0 else "-inf")
            return LossDiverged(job=job, incarnation=incarnation, step=step, metric=metric, value=word)
        return LossReported(
            job=job,
            incarnation=incarnation,
            step=step,
            epoch=record.epoch,
            metric=metric,
            value=record.value,
            split=record.split,
        )
