"""The loop over the partitions of another topic: one decider a partition, whose decisions go to the pools' logs.

It owns the batch; :mod:`steepest.runtime.pool_loop` explains why the loop starts again after a failed append.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from steepest.clock import Clock
from steepest.errors import UndecodableError
from steepest.events.cluster import LogOpened
from steepest.log.base import Log, NewRecord, Reader, Record, TopicPartition
from steepest.log.snapshot_store import SnapshotStore
from steepest.logger import Logger
from steepest.policies.decider import StreamDecider
from steepest.runtime.batch import count_decisions, measure_latency, poll_or_stop
from steepest.runtime.dead_letters import DeadLetters
from steepest.runtime.decision_stream import DecisionStream
from steepest.runtime.decode import minted_record, received
from steepest.runtime.layout import DEAD_LETTERS, Layout
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.lag import LagMeter
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.recovery.decision_scan import epoch_in, holds, scan
from steepest.runtime.recovery.log_identity import check_opening, epoch_of
from steepest.runtime.recovery.loop_snapshots import (
    SNAPSHOT_AFTER_S,
    StreamSnapshot,
    keep_stream_snapshot,
    read_stream_snapshot,
    restored,
    state_of,
)
from steepest.runtime.service import StreamDeciderType
from steepest.runtime.sharing.assignment import Assignment, follow_assignments

logger = Logger()

BATCH = 20_000
"""Records a batch at most. No effector waits for its turn here, and each batch waits once for its outputs to be kept; where
more records are there already, the next batch is decided about meanwhile."""

CHUNK = 250
"""Records read in one call: few enough that they are still in the processor's cache when they are decided about, which
halves what a record costs where the loop is far behind."""

SNAPSHOT_EVERY = 100_000
"""Records of a partition between two snapshots; a restart decides about at most as many again, in about a second."""


class FollowedPartition(msgspec.Struct):
    """One partition: its decider, its position, and what the decider has made of it.

    Attributes:
        saved: The position of the newest snapshot; 0 where there is none.
        saved_at: When it was kept, or the partition begun, by the monotonic clock.
        scan_from: Where to look, in each output partition, for what the decider has made beyond the last snapshot.
        restate_at: The position from which on the decider states again what still holds: another logic may have decided
            otherwise, or about records that are lost.
    """

    at: TopicPartition
    decider: StreamDecider
    stream: DecisionStream
    scan_from: dict[str, int]
    saved_at: float
    position: int = 0
    epoch: str = ""
    saved: int = 0
    live_from: int = 0
    restate_at: int | None = None


class DueSnapshot(msgspec.Struct):
    """A partition's snapshot, to be kept after the outputs that it covers are in the log.

    Attributes:
        is_settled: Whether it is beyond all that a scan has found, so that the next scan need not look for that again.
    """

    partition: FollowedPartition
    snapshot: StreamSnapshot
    is_settled: bool


class StreamLoop:
    """Follows some partitions of one topic with one kind of decider."""

    def __init__(
        self,
        kind: StreamDeciderType,
        *,
        log: Log,
        layout: Layout,
        snapshots: SnapshotStore,
        metrics: Metrics,
        health: Health,
        clock: Clock,
        share: Assignment | None = None,
    ) -> None:
        """Follow the partitions of ``share`` as they come and go; without one, all of them."""
        self.name = f"{kind.name}:{kind.topic}"
        self._kind = kind
        self._log = log
        self._layout = layout
        self._pools = {pool: layout.of_pool(pool) for pool in layout.pools}
        self._outputs = [*layout.of_topic("cluster"), DEAD_LETTERS]
        self._snapshots = snapshots
        self._metrics = metrics
        self._health = health
        self._clock = clock
        self._dead_letters = DeadLetters(metrics)
        self._partitions: dict[TopicPartition, FollowedPartition] = {}
        self._share = share
        self._lag = LagMeter(log)
        self._keeping: asyncio.Task[None] | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Read snapshots and tails, then follow the log until ``stop`` is set; keep snapshots at the end of a batch.

        Raises:
            LogUnavailableError: The log gave nothing, or an append failed: run again.
            LogEpochError: A partition was deleted and created again.
        """
        if self._share is None:
            await self._follow(self._layout.of_topic(self._kind.topic), stop)
            return
        await follow_assignments(self._share, stop, self._follow, self._wait, self._idle)

    def _wait(self) -> None:
        """Report that no partitions are assigned yet."""
        self._health.wait(self.name)

    def _idle(self) -> None:
        """Report that there is nothing to follow, which is no fault."""
        self._health.progress(self.name, 0, 0, ready=True)

    async def _follow(self, assigned: Sequence[TopicPartition], stop: asyncio.Event) -> None:
        await self._begin(assigned)
        reader = self._log.reader({at: partition.position for at, partition in self._partitions.items()})
        stopped = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                await self._batch(reader, await self._next(reader, stopped))
            await self._kept()
            await self._keep([], self._due(1))
        finally:
            stopped.cancel()
            self._lag.close()
            await self._give_up()
            await reader.close()

    async def _begin(self, assigned: Sequence[TopicPartition]) -> None:
        self._partitions = {at: await self._partition(at) for at in assigned}
        partitions = self._partitions.values()
        start = {to: min(partition.scan_from[str(to)] for partition in partitions) for to in self._outputs}
        found = await scan(self._log, start, self._report_scan)
        self._dead_letters.fence(found)
        for partition in partitions:
            partition.stream.fence(found)
            partition.stream.fence_ahead(partition.position, self._outputs)
            if partition.position and not partition.epoch:
                # Where nothing was decided either, any name will do that another process would give it as well.
                partition.epoch = epoch_in(found, self._kind.name, partition.at) or f"from-{partition.position}"
            if partition.stream.is_found:
                epoch = partition.epoch or await epoch_of(self._log, partition.at)
                cause = partition.stream.newest_cause(epoch)
                is_truncated = cause is not None and not await holds(self._log, partition.at, cause)
                partition.restate_at = partition.stream.restate_at(epoch, is_truncated=is_truncated)

    def _report_scan(self, lag: int) -> None:
        self._health.progress(
            self.name, sum(partition.position for partition in self._partitions.values()), lag, ready=False
        )

    async def _partition(self, at: TopicPartition) -> FollowedPartition:
        kept = snapshot = await read_stream_snapshot(self._snapshots, self._log, self._kind.name, at)
        deciders = restored([self._kind], {self._kind.name: snapshot.decider}) if snapshot else None
        if snapshot is None or deciders is None:
            # The position belongs to the decider's state: with a new decider, all is read again.
            snapshot, deciders = None, [self._kind()]
        (decider,) = deciders
        partition = FollowedPartition(
            at=at,
            decider=decider,
            stream=DecisionStream(
                decider.name,
                decider.logic,
                at,
                kept.last_ids if kept else None,
                kept.truncations if kept else 0,
            ),
            scan_from={str(to): snapshot.scan_from.get(str(to), 0) if snapshot else 0 for to in self._outputs},
            saved_at=self._clock.monotonic(),
            epoch=kept.epoch if kept else "",
        )
        if snapshot:
            partition.position = partition.saved = snapshot.position
        self._pass_over_removed(partition, await self._log.begin(at))
        partition.live_from = await self._log.end(at)
        return partition

    def _pass_over_removed(self, partition: FollowedPartition, begin: int) -> None:
        """Begin behind the removed records, about which nothing can be decided any more."""
        missed = begin - partition.position
        if missed > 0:
            self._metrics.missed.labels(self.name).inc(missed)
            logger.warning(
                "records were removed before they were read", at=str(partition.at), missed=missed, begin=begin
            )
            partition.position = begin

    async def _next(self, reader: Reader, stopped: asyncio.Task[Any]) -> Sequence[Record]:
        """The next records. Wait first for running appends, unless records are already there."""
        if self._keeping is not None:
            if records := await reader.poll(max_records=CHUNK, timeout_s=0):
                return records
            await self._kept()
        return await poll_or_stop(reader, stopped, CHUNK)

    async def _batch(self, reader: Reader, records: Sequence[Record]) -> None:
        """Decide about these records and all that are already there, and append the decisions."""
        out: list[NewRecord] = []
        count = 0
        first = records[0] if records else None
        while records:
            count += len(records)
            for at, its in groupby(records, attrgetter("at")):
                self._decide(self._partitions[at], its, out)
            records = await reader.poll(max_records=CHUNK, timeout_s=0) if count < BATCH else ()
        await self._kept()
        snapshots = self._due(SNAPSHOT_EVERY)
        if out or snapshots:
            self._keeping = asyncio.create_task(self._keep(out, snapshots, first))
        # There is no next batch to decide about meanwhile.
        if count < BATCH:
            await self._kept()
        self._metrics.records.labels(self.name).inc(count)
        for partition in self._partitions.values():
            count_decisions(self._metrics, partition.stream)
        await self._report()

    async def _keep(
        self, out: Sequence[NewRecord], snapshots: Sequence[DueSnapshot], first: Record | None = None
    ) -> None:
        """Append the outputs of a batch that begins with ``first``, and then keep the snapshots that cover them."""
        if out:
            await self._log.append(out)
            if first is not None and first.offset >= self._partitions[first.at].live_from:
                measure_latency(self._metrics, self._clock, self.name, first, out[0])
        ends = {to: await self._log.end(to) for to in self._outputs} if snapshots else {}
        for due in snapshots:
            if due.is_settled:
                # The ends were read after the append: all that the snapshot stands for is before them.
                due.partition.scan_from = due.snapshot.scan_from = {str(to): end for to, end in ends.items()}
            at = due.partition.at
            stands_for = {**ends, at: due.snapshot.position}
            await keep_stream_snapshot(
                self._snapshots, self._log, self._kind.name, at, due.snapshot, stands_for=stands_for
            )
            self._metrics.snapshots.labels(self.name).inc()

    async def _kept(self) -> None:
        """Wait until running appends are in the log.

        Raises:
            LogUnavailableError: It may not be: run again.
        """
        if self._keeping is not None:
            await self._keeping
            self._keeping = None

    async def _give_up(self) -> None:
        """Append nothing more of a batch that is under way; the next run decides the rest again."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    def _decide(self, partition: FollowedPartition, records: Iterable[Record], out: list[NewRecord]) -> None:
        """Add what these records of a partition make. It is one loop, because calls are what costs most in it."""
        step, pools = partition.decider.step, self._pools
        for record in records:
            partition.position = record.offset + 1
            try:
                event = received(record)
                if type(event.event) is LogOpened:
                    check_opening(event.event, partition.epoch)
                    partition.epoch = event.event.epoch
                    continue
            except UndecodableError as error:
                out.extend(self._dead_letters.about(record, error, partition.epoch))
                continue
            if decisions := step(event):
                made = [(to, one.pool, one.event) for one in decisions if (to := pools.get(one.pool))]
                out.extend(map(minted_record, partition.stream.mint(partition.epoch, event, made)))
        if partition.restate_at is not None and partition.position >= partition.restate_at:
            partition.restate_at = None
            partition.decider.restate()

    async def _report(self) -> None:
        lag = await self._lag.lag({at: partition.position for at, partition in self._partitions.items()})
        self._metrics.lag.labels(self.name).set(lag)
        ready = all(partition.position >= partition.live_from for partition in self._partitions.values())
        position = sum(partition.position for partition in self._partitions.values())
        self._health.progress(self.name, position, lag, ready=ready)

    def _due(self, after: int) -> list[DueSnapshot]:
        """Snapshots, as of now, of the partitions whose last one is old or ``after`` records behind."""
        due, now = [], self._clock.monotonic()
        for partition in self._partitions.values():
            if partition.position - partition.saved < after and now - partition.saved_at < SNAPSHOT_AFTER_S:
                continue
            # Before it has passed both, some of what is decided again is in the log already: the next start must find it.
            position, stream = partition.position, partition.stream
            is_settled = stream.passed(position, partition.epoch) and self._dead_letters.passed(partition.at, position)
            snapshot = StreamSnapshot(
                epoch=partition.epoch,
                position=position,
                decider=state_of(partition.decider),
                last_ids=dict(stream.last_ids),
                scan_from=partition.scan_from,
                truncations=stream.truncations,
            )
            due.append(DueSnapshot(partition, snapshot, is_settled))
            partition.saved, partition.saved_at = position, now
        return due
