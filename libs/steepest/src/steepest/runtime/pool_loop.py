"""The live shell of a pool's engine: reads the log, appends what the engine gives, keeps snapshots.

A batch: read, decode, step the engine, append, repeat. Nothing is read before the outputs of what was read are kept, so a
slow log slows the loop and no queue grows. If an append fails, it is not known what was kept: the loop is dropped and starts
again from its snapshot, and a scan of the log finds what is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from steepest.clock import Clock
from steepest.errors import LogEpochError, LogVersionError, UndecodableError
from steepest.events.cluster import ClusterEvent, LogOpened
from steepest.events.received import Received
from steepest.log.base import Log, NewRecord, Record, TopicPartition
from steepest.log.snapshot_store import SnapshotStore
from steepest.runtime.batch import count_decisions, measure_latency, poll_or_stop
from steepest.runtime.dead_letters import DeadLetters
from steepest.runtime.decode import minted_record, received
from steepest.runtime.effector import Effector
from steepest.runtime.engine import PoolEngine
from steepest.runtime.layout import DEAD_LETTERS
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.lag import LagMeter
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.recovery.decision_scan import scan
from steepest.runtime.recovery.log_identity import check_opening
from steepest.runtime.recovery.loop_snapshots import (
    SNAPSHOT_AFTER_S,
    PoolSnapshot,
    keep_pool_snapshot,
    read_pool_snapshot,
    restored,
    restored_or_new,
    state_of,
)
from steepest.runtime.service import ClusterDeciderType
from steepest.view.cluster_view import ClusterView

BATCH = 1_000
"""Records a batch: a few milliseconds of folding, so that an effector is never kept waiting for long."""

SNAPSHOT_EVERY = 20_000
"""Records between two snapshots: a restart then folds at most this many, well under a second."""


class PoolLoop:
    """Follows one pool.

    Attributes:
        engine: The pool as the newest record left it; made again whenever the loop starts.
        effectors: What is shown the records, once the loop has caught up.
    """

    def __init__(
        self,
        pool: str,
        at: TopicPartition,
        *,
        log: Log,
        snapshots: SnapshotStore,
        deciders: Sequence[ClusterDeciderType],
        metrics: Metrics,
        health: Health,
        clock: Clock,
    ) -> None:
        self.name = f"pool:{pool}"
        self.pool = pool
        self.at = at
        self.engine = PoolEngine([], at, pool)
        self.effectors: Sequence[Effector] = ()
        self._log = log
        self._snapshots = snapshots
        self._types = deciders
        self._metrics = metrics
        self._health = health
        self._clock = clock
        self._dead_letters = DeadLetters(metrics)
        self._dead_letters_from = 0
        self._saved = 0
        self._saved_at = 0.0
        self._live_from = 0
        self._live = False
        self._lag = LagMeter(log)

    @property
    def view(self) -> ClusterView:
        """The pool as the newest record left it; read it between batches, never change it."""
        return self.engine.view

    # --- starting ------------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Read snapshot and tail, then follow the log until ``stop`` is set; keep a snapshot at the end of a batch.

        Raises:
            LogUnavailableError: The log gave nothing, or an append failed: run again.
            LogVersionError, LogEpochError: The log is not for this reader.
        """
        await self._begin()
        reader = self._log.reader({self.at: self.view.position})
        stopped = asyncio.ensure_future(stop.wait())
        try:
            self._go_live_at_end()
            while not stop.is_set():
                records = await poll_or_stop(reader, stopped, BATCH)
                with self._metrics.batch_seconds.labels(self.name).time():
                    await self._batch(records)
        finally:
            stopped.cancel()
            self._lag.close()
            await reader.close()
        await self._save()

    async def _begin(self) -> None:
        self._live = False
        snapshot = await read_pool_snapshot(self._snapshots, self._log, self.at)
        begin = await self._log.begin(self.at)
        # A log without its beginning cannot be folded again for the sake of one decider that the snapshot lacks.
        restore = restored_or_new if begin else restored
        deciders = restore(self._types, snapshot.deciders) if snapshot else None
        if snapshot is None or deciders is None:
            snapshot, deciders = None, [kind() for kind in self._types]
        self.engine = PoolEngine(
            deciders,
            self.at,
            self.pool,
            view=ClusterView(snapshot.view) if snapshot else None,
            last_ids=snapshot.last_ids if snapshot else None,
        )
        self._saved, self._saved_at = self.view.position, self._clock.monotonic()
        self._dead_letters_from = snapshot.dead_letters_from if snapshot else 0
        self._check_reaches(begin)
        start = {self.at: self.view.position, DEAD_LETTERS: self._dead_letters_from}
        found = await scan(self._log, start, self._report_scan)
        self._dead_letters.fence(found)
        self.engine.fence(found)
        self._live_from = await self._log.end(self.at)

    def _check_reaches(self, begin: int) -> None:
        """Refuse a log whose beginning was removed if no snapshot covers the removed records."""
        if self.view.position < begin:
            raise LogEpochError(
                f"{self.at} is kept from {begin} on, and no usable snapshot of it reaches so far: the pool cannot be known",
                code="offset-missing",
                hint="start a version whose snapshots are kept, restore the topic `snapshots`, or begin with new topics",
            )

    def _report_scan(self, lag: int) -> None:
        self._health.progress(self.name, self.view.position, lag, ready=False)

    def _go_live_at_end(self) -> None:
        """Effectors act once the view holds all that was there at the start; before, they would act on history."""
        if not self._live and self.view.position >= self._live_from:
            self._live = True
            self.engine.go_live(self.effectors)

    # --- following -----------------------------------------------------------------------------------------------------

    async def _batch(self, records: Sequence[Record]) -> None:
        out: list[NewRecord] = []
        try:
            for record in records:
                self._one(record, out)
        except LogVersionError:
            # The newer reader that takes over decides about what comes; what came before is decided.
            await self._append(out)
            await self._save()
            raise
        await self._append(out)
        if out and records[0].offset >= self._live_from:
            measure_latency(self._metrics, self._clock, self.name, records[0], out[0])
        await self._report(len(records))
        is_old = self._clock.monotonic() - self._saved_at >= SNAPSHOT_AFTER_S
        if is_old or self.view.position - self._saved >= SNAPSHOT_EVERY:
            await self._save()

    async def _append(self, out: Sequence[NewRecord]) -> None:
        if out:
            await self._log.append(out)
        for stream in self.engine.streams:
            count_decisions(self._metrics, stream)

    async def _report(self, records: int) -> None:
        lag = await self._lag.lag({self.at: self.view.position})
        self._metrics.records.labels(self.name).inc(records)
        self._metrics.lag.labels(self.name).set(lag)
        self._metrics.gaps.labels(self.name).set(self.view.state.gaps)
        self._health.progress(self.name, self.view.position, lag, ready=self._live)

    def _one(self, record: Record, out: list[NewRecord]) -> None:
        try:
            event: Received[ClusterEvent] = received(record)
            if type(event.event) is LogOpened:
                check_opening(event.event, self.view.state.epoch)
        except UndecodableError as error:
            out.extend(self._dead_letters.about(record, error, self.view.state.epoch))
            self.engine.skip(record.offset)
        else:
            self._take_in(event, out)
        self._go_live_at_end()

    def _take_in(self, event: Received[ClusterEvent], out: list[NewRecord]) -> None:
        out.extend(map(minted_record, self.engine.step(event)))

    # --- snapshots -----------------------------------------------------------------------------------------------------

    async def _save(self) -> None:
        """Keep a snapshot of the view and of every decider. Everything they made up to here is in the log already."""
        position = self.view.position
        self._saved_at = self._clock.monotonic()
        if position == self._saved:
            return
        for stream in self.engine.streams:
            # The next scan starts at the position, and finds what is beyond it.
            stream.passed(position, self.view.state.epoch)
        if self._dead_letters.passed(self.at, position):
            self._dead_letters_from = await self._log.end(DEAD_LETTERS)
        snapshot = PoolSnapshot(
            view=self.view.state,
            deciders={decider.name: state_of(decider) for decider in self.engine.deciders},
            last_ids=self.engine.last_ids,
            dead_letters_from=self._dead_letters_from,
        )
        # All that the deciders have made stands before the end, and must be there with the snapshot.
        stands_for = {self.at: await self._log.end(self.at), DEAD_LETTERS: self._dead_letters_from}
        await keep_pool_snapshot(self._snapshots, self._log, self.at, snapshot, stands_for=stands_for)
        self._saved = position
        self._metrics.snapshots.labels(self.name).inc()
