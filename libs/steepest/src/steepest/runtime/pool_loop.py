"""The loop over a pool's log: one view folded once a record, all deciders of the process over it, effectors after it.

A batch: read, decode, fold, decide, append what was decided, go on. Nothing is read before the outputs of what was read are
kept, so a slow log slows the loop and no queue grows. If an append fails, it is not known what was kept: the loop is dropped
and begun anew from its snapshot, and a scan of the log tells what was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import structlog

from steepest.clock import Clock
from steepest.errors import UndecodableError
from steepest.events.cluster import ClusterEvent
from steepest.events.received import ID, DecisionId, Received
from steepest.log.base import Log, NewRecord, Reader, Record, TopicPartition
from steepest.log.snapshots import SnapshotStore
from steepest.policies.decider import ClusterDecider, fold_and_decide
from steepest.runtime.decisions import Stream, scan
from steepest.runtime.decode import dead_letter, received
from steepest.runtime.effector import Effector
from steepest.runtime.health import Health
from steepest.runtime.metric_defs import Metrics
from steepest.runtime.snapshots import PoolSnapshot, read_pool_snapshot
from steepest.view.cluster_view import ClusterView

logger = structlog.get_logger(__name__)

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
        clock: Clock,
        metrics: Metrics,
        health: Health,
    ) -> None:
        self.name = f"pool:{pool}"
        self.pool = pool
        self.at = at
        self.view = ClusterView()
        self._log = log
        self._snapshots = snapshots
        self._types = deciders
        self._effectors = effectors
        self._clock = clock
        self._metrics = metrics
        self._health = health
        self._deciders: list[ClusterDecider] = []
        self._streams: list[Stream] = []
        self._snapshot_position = 0
        self._live_from = 0
        self._live = False

    # --- beginning -----------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Read snapshot and tail, then follow the log until ``stop`` is set; keep a snapshot at the end of a batch.

        Raises:
            LogUnavailableError: An append failed: run again.
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
            await reader.close()
        await self.save()

    async def _begin(self) -> None:
        snapshot = await read_pool_snapshot(self._snapshots, self.at)
        self.view = ClusterView(snapshot.view) if snapshot else ClusterView()
        self._deciders = [_restored(kind, snapshot.deciders if snapshot else {}) for kind in self._types]
        last_ids = snapshot.last_ids if snapshot else {}
        self._streams = [
            Stream(decider.name, decider.logic, self.at, self._metrics, last_ids.get(decider.name))
            for decider in self._deciders
        ]
        found = await scan(self._log, {self.at: self.view.position})
        for stream in self._streams:
            stream.fence(found)
        self._snapshot_position = self.view.position
        self._live_from = await self._log.end(self.at)
        self._live = False

    def _go_live_at_end(self) -> None:
        """Effectors act once the view holds all that was there at the start; before, they would act on history."""
        if not self._live and self.view.position >= self._live_from:
            self._live = True
            for effector in self._effectors:
                effector.caught_up(self.view)

    # --- following -----------------------------------------------------------------------------------------------------

    async def _batch(self, records: Sequence[Record]) -> None:
        out: list[NewRecord] = []
        for record in records:
            self._one(record, out)
        if out:
            await self._log.append(out)
        self._metrics.records.labels(self.name).inc(len(records))
        lag = max(0, await self._log.end(self.at) - self.view.position)
        self._metrics.lag.labels(self.name).set(lag)
        self._metrics.gaps.labels(self.name).set(self.view.state.gaps)
        self._health.progress(self.name, self.view.position, lag, ready=self._live)
        if self.view.position - self._snapshot_position >= SNAPSHOT_EVERY:
            await self.save()

    def _one(self, record: Record, out: list[NewRecord]) -> None:
        try:
            event: Received[ClusterEvent] = received(record)
        except UndecodableError as error:
            self._refuse(record, error, out)
            return
        counts, made = fold_and_decide(self.view, self._deciders, event)
        for stream, events in zip(self._streams, made, strict=False):
            if events:
                out.extend(stream.records(self.view.state.epoch, event, [(self.at, self.pool, one) for one in events]))
        if self._live:
            for effector in self._effectors:
                effector.observe(self.view, event, counts=counts)
        self._go_live_at_end()

    def _refuse(self, record: Record, error: UndecodableError, out: list[NewRecord]) -> None:
        self.view.skip(record.offset)
        self._metrics.dead_letters.labels(record.at.topic).inc()
        logger.warning("dead letter", record=str(record), why=str(error))
        letter = DecisionId("reader", self.view.state.epoch, record.at.topic, record.at.partition, record.offset, 0)
        out.append(dead_letter(record, error, {ID: str(letter)}))
        self._go_live_at_end()

    # --- snapshots -----------------------------------------------------------------------------------------------------

    async def save(self) -> None:
        """Keep a snapshot of the view and of every decider. Everything they made up to here is in the log already."""
        if self.view.position == self._snapshot_position:
            return
        snapshot = PoolSnapshot(
            view=self.view.state,
            deciders={decider.name: msgspec.msgpack.encode(decider.state) for decider in self._deciders},
            last_ids={stream.name: stream.last_ids for stream in self._streams},
        )
        await snapshot.write(self._snapshots, self.at)
        self._snapshot_position = self.view.position


def _restored(kind: Any, states: dict[str, bytes]) -> ClusterDecider:
    data = states.get(kind.name)
    decider: ClusterDecider = kind(msgspec.msgpack.decode(data, type=kind.state_type)) if data else kind()
    return decider


async def poll_or_stop(reader: Reader, stop: asyncio.Event) -> Sequence[Record]:
    """The next records; none once ``stop`` is set. What is not read now is read the next time."""
    poll = asyncio.ensure_future(reader.poll(max_records=BATCH))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((poll, stopped), return_when=asyncio.FIRST_COMPLETED)
        return poll.result() if poll.done() else ()
    finally:
        stopped.cancel()
        poll.cancel()
