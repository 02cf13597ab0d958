"""The loop over a pool's log: one view folded once a record, all deciders of the process over it, effectors after it.

A batch: read, decode, fold, decide, append what was decided, go on. Nothing is read before the outputs of what was read are
kept, so a slow log slows the loop and no queue grows. If an append fails, it is not known what was kept: the loop is dropped
and begun anew from its snapshot, and a scan of the log tells what was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from steepest.clock import Clock
from steepest.errors import LogEpochError, LogVersionError, UndecodableError
from steepest.events.cluster import ClusterEvent, LogOpened
from steepest.events.received import Received
from steepest.log.base import Log, NewRecord, Reader, Record, TopicPartition
from steepest.log.snapshot_store import SnapshotStore
from steepest.policies.decider import ClusterDecider, fold_and_decide
from steepest.runtime.dead_letters import DEAD_LETTERS, DeadLetters
from steepest.runtime.decisions import Stream, scan
from steepest.runtime.decode import received
from steepest.runtime.effector import Effector
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.lag import LagMeter
from steepest.runtime.monitoring.metric_defs import Metrics
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
from steepest.view.cluster_view import ClusterView

BATCH = 1_000
"""Records a batch: a few milliseconds of folding, so that an effector is never kept waiting for long."""

SNAPSHOT_EVERY = 20_000
"""Records between two snapshots: a restart then folds at most this many, well under a second."""


class PoolLoop:
    """Follows one pool.

    Attributes:
        view: The pool as the newest record left it; read it between batches, never change it.
    """

    def __init__(
        self,
        pool: str,
        at: TopicPartition,
        *,
        log: Log,
        snapshots: SnapshotStore,
        deciders: Sequence[Any],
        effectors: Sequence[Effector],
        metrics: Metrics,
        health: Health,
        clock: Clock,
    ) -> None:
        self.name = f"pool:{pool}"
        self.pool = pool
        self.at = at
        self.view = ClusterView()
        self._log = log
        self._snapshots = snapshots
        self._types = deciders
        self._effectors = effectors
        self._metrics = metrics
        self._health = health
        self._clock = clock
        self._deciders: list[ClusterDecider] = []
        self._streams: list[Stream] = []
        self._letters = DeadLetters(metrics)
        self._letters_from = 0
        self._saved = 0
        self._saved_at = 0.0
        self._live_from = 0
        self._live = False
        self._lag = LagMeter(log)

    # --- beginning -----------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Read snapshot and tail, then follow the log until ``stop`` is set; keep a snapshot at the end of a batch.

        Raises:
            LogUnavailableError: The log gave nothing, or an append failed: run again.
            LogVersionError, LogEpochError: The log is not for this reader.
        """
        await self._begin()
        reader = self._log.reader({self.at: self.view.position})
        try:
            self._go_live_at_end()
            while not stop.is_set():
                records = await poll_or_stop(reader, stop)
                with self._metrics.batch_seconds.labels(self.name).time():
                    await self._batch(records)
        finally:
            self._lag.close()
            await reader.close()
        await self._save()

    async def _begin(self) -> None:
        self._live = False
        snapshot = await read_pool_snapshot(self._snapshots, self._log, self.at)
        begin = await self._log.begin(self.at)
        restore = restored_or_new if begin else restored
        deciders = restore(self._types, snapshot.deciders) if snapshot else None
        if snapshot is None or deciders is None:
            snapshot, deciders = None, [kind() for kind in self._types]
        self._deciders = deciders
        self.view = ClusterView(snapshot.view) if snapshot else ClusterView()
        self._saved, self._saved_at = self.view.position, self._clock.monotonic()
        self._letters_from = snapshot.letters_from if snapshot else 0
        self._check_reaches(begin)
        found = await scan(self._log, {self.at: self.view.position, DEAD_LETTERS: self._letters_from}, self._tell_lag)
        self._streams = [
            Stream(one.name, one.logic, self.at, self._metrics, snapshot.last_ids.get(one.name) if snapshot else None)
            for one in deciders
        ]
        self._letters.fence(found)
        for stream in self._streams:
            stream.fence(found)
        self._live_from = await self._log.end(self.at)

    def _check_reaches(self, begin: int) -> None:
        """Refuse a log whose beginning is gone where no snapshot stands for it."""
        if self.view.position < begin:
            raise LogEpochError(
                f"{self.at} is kept from {begin} on, and no usable snapshot of it reaches so far: the pool cannot be known",
                code="offset-missing",
                hint="start a version whose snapshots are kept, restore the topic `snapshots`, or begin with new topics",
            )

    def _tell_lag(self, lag: int) -> None:
        self._health.progress(self.name, self.view.position, lag, ready=False)

    def _go_live_at_end(self) -> None:
        """Effectors act once the view holds all that was there at the start; before, they would act on history."""
        if not self._live and self.view.position >= self._live_from:
            self._live = True
            for effector in self._effectors:
                effector.caught_up(self.view)

    # --- following -----------------------------------------------------------------------------------------------------

    async def _batch(self, records: Sequence[Record]) -> None:
        out: list[NewRecord] = []
        try:
            for record in records:
                self._one(record, out)
        except LogVersionError:
            # Whoever goes on from here decides about what comes; what came before is decided.
            await self._append(out)
            await self._save()
            raise
        await self._append(out)
        await self._report(len(records))
        is_old = self._clock.monotonic() - self._saved_at >= SNAPSHOT_AFTER_S
        if is_old or self.view.position - self._saved >= SNAPSHOT_EVERY:
            await self._save()

    async def _append(self, out: Sequence[NewRecord]) -> None:
        if out:
            await self._log.append(out)
        for stream in self._streams:
            stream.count()

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
            out.extend(self._letters.about(record, error, self.view.state.epoch))
            self.view.skip(record.offset)
        else:
            self._take_in(event, out)
        self._go_live_at_end()

    def _take_in(self, event: Received[ClusterEvent], out: list[NewRecord]) -> None:
        accepted, made = fold_and_decide(self.view, self._deciders, event)
        if self.view.refused:
            self._metrics.void_plans.labels(type(event.event).__name__, self.view.refused.value).inc()
        for stream, events in zip(self._streams, made, strict=False):
            if events:
                out.extend(stream.records(self.view.state.epoch, event, [(self.at, self.pool, one) for one in events]))
        if self._live:
            for effector in self._effectors:
                effector.observe(self.view, event, accepted=accepted)

    # --- snapshots -----------------------------------------------------------------------------------------------------

    async def _save(self) -> None:
        """Keep a snapshot of the view and of every decider. Everything they made up to here is in the log already."""
        position = self.view.position
        self._saved_at = self._clock.monotonic()
        if position == self._saved:
            return
        for stream in self._streams:
            stream.passed(position)  # what stands beyond the position is found again by a scan from there
        if self._letters.passed(self.at, position):
            self._letters_from = await self._log.end(DEAD_LETTERS)
        snapshot = PoolSnapshot(
            view=self.view.state,
            deciders={decider.name: state_of(decider) for decider in self._deciders},
            last_ids={stream.name: stream.last_ids for stream in self._streams},
            letters_from=self._letters_from,
        )
        # All that the deciders have made stands before the end, and must be there with the snapshot.
        stands_for = {self.at: await self._log.end(self.at), DEAD_LETTERS: self._letters_from}
        await keep_pool_snapshot(self._snapshots, self._log, self.at, snapshot, stands_for=stands_for)
        self._saved = position


async def poll_or_stop(reader: Reader, stop: asyncio.Event, max_records: int = BATCH) -> Sequence[Record]:
    """The next records; none once ``stop`` is set. What is not read now is read the next time."""
    poll = asyncio.ensure_future(reader.poll(max_records=max_records))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((poll, stopped), return_when=asyncio.FIRST_COMPLETED)
        return poll.result() if poll.done() else ()
    finally:
        for task in (poll, stopped):
            task.cancel()
        await asyncio.gather(poll, stopped, return_exceptions=True)
