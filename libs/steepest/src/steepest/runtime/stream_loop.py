"""The loop over the partitions of another topic: one decider a partition, whose decisions go to the pools' logs.

It owns the batch; :mod:`steepest.runtime.pool_loop` says why a failed append begins everything anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import structlog

from steepest.clock import Clock
from steepest.errors import LogEpochError, UndecodableError
from steepest.events.cluster import LogOpened
from steepest.events.received import ID, DecisionId
from steepest.log.base import Log, NewRecord, Record, TopicPartition
from steepest.log.snapshots import SnapshotStore
from steepest.policies.decider import StreamDecider
from steepest.runtime.decisions import Stream, scan
from steepest.runtime.decode import dead_letter, received
from steepest.runtime.health import Health
from steepest.runtime.layout import Layout
from steepest.runtime.metric_defs import Metrics
from steepest.runtime.pool_loop import SNAPSHOT_EVERY, poll_or_stop
from steepest.runtime.snapshots import StreamSnapshot, read_stream_snapshot

logger = structlog.get_logger(__name__)


class Lane(msgspec.Struct):
    """One partition: its decider, its position, and what the decider has made of it."""

    at: TopicPartition
    decider: StreamDecider
    stream: Stream
    position: int = 0
    epoch: str = ""
    saved: int = 0
    live_from: int = 0


class StreamLoop:
    """Follows some partitions of one topic with one kind of decider."""

    def __init__(
        self,
        kind: Any,
        partitions: Sequence[TopicPartition],
        *,
        log: Log,
        layout: Layout,
        snapshots: SnapshotStore,
        clock: Clock,
        metrics: Metrics,
        health: Health,
    ) -> None:
        self.name = f"{kind.name}:{kind.topic}"
        self._kind = kind
        self._partitions = partitions
        self._log = log
        self._layout = layout
        self._snapshots = snapshots
        self._clock = clock
        self._metrics = metrics
        self._health = health
        self._lanes: dict[TopicPartition, Lane] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Read snapshots and tails, then follow the log until ``stop`` is set; keep snapshots at the end of a batch.

        Raises:
            LogUnavailableError: An append failed: run again.
            LogEpochError: A partition was made anew.
        """
        self._lanes = {at: await self._lane(at) for at in self._partitions}
        reader = self._log.reader({at: lane.position for at, lane in self._lanes.items()})
        try:
            while not stop.is_set():
                await self._batch(await poll_or_stop(reader, stop))
        finally:
            await reader.close()
        for lane in self._lanes.values():
            await self._save(lane)

    async def _lane(self, at: TopicPartition) -> Lane:
        snapshot = await read_stream_snapshot(self._snapshots, self._kind.name, at)
        decider = (
            self._kind(msgspec.msgpack.decode(snapshot.state, type=self._kind.state_type)) if snapshot else self._kind()
        )
        last_ids = snapshot.last_ids if snapshot else None
        lane = Lane(at, decider, Stream(decider.name, decider.logic, at, self._metrics, last_ids))
        if snapshot:
            lane.position = lane.saved = snapshot.position
            lane.epoch = snapshot.epoch
        since = snapshot.scan_from if snapshot else {}
        outputs = self._layout.of_topic("cluster")
        lane.stream.fence(await scan(self._log, {to: since.get(str(to), 0) for to in outputs}))
        lane.live_from = await self._log.end(at)
        return lane

    async def _batch(self, records: Sequence[Record]) -> None:
        out: list[NewRecord] = []
        for record in records:
            lane = self._lanes[record.at]
            self._one(lane, record, out)
            lane.position = record.offset + 1
        if out:
            await self._log.append(out)
        self._metrics.records.labels(self.name).inc(len(records))
        await self._report()
        for lane in self._lanes.values():
            if lane.position - lane.saved >= SNAPSHOT_EVERY:
                await self._save(lane)

    def _one(self, lane: Lane, record: Record, out: list[NewRecord]) -> None:
        try:
            event = received(record)
        except UndecodableError as error:
            self._metrics.dead_letters.labels(record.at.topic).inc()
            logger.warning("dead letter", record=str(record), why=str(error))
            letter = DecisionId("reader", lane.epoch, record.at.topic, record.at.partition, record.offset, 0)
            out.append(dead_letter(record, error, {ID: str(letter)}))
            return
        if isinstance(event.event, LogOpened):
            if lane.epoch and lane.epoch != event.event.epoch:
                raise LogEpochError(f"{record.at} is {event.event.epoch} now, and was {lane.epoch}")
            lane.epoch = event.event.epoch
            return
        made = [
            (self._layout.of_pool(decision.pool), decision.pool, decision.event)
            for decision in lane.decider.step(event)
            if decision.pool in self._layout.pools
        ]
        if made:
            out.extend(lane.stream.records(lane.epoch, event, made))

    async def _report(self) -> None:
        lag = sum([await self._log.end(lane.at) - lane.position for lane in self._lanes.values()])
        self._metrics.lag.labels(self.name).set(max(0, lag))
        ready = all(lane.position >= lane.live_from for lane in self._lanes.values())
        position = sum(lane.position for lane in self._lanes.values())
        self._health.progress(self.name, position, max(0, lag), ready=ready)

    async def _save(self, lane: Lane) -> None:
        if lane.position == lane.saved:
            return
        ends = {str(to): await self._log.end(to) for to in self._layout.of_topic("cluster")}
        snapshot = StreamSnapshot(
            epoch=lane.epoch,
            position=lane.position,
            state=msgspec.msgpack.encode(lane.decider.state),
            last_ids=lane.stream.last_ids,
            scan_from=ends,
        )
        await snapshot.write(self._snapshots, self._kind.name, lane.at)
        lane.saved = lane.position
