"""The bridge: what devices say over MQTT, onto the log, each message once, whoever is restarted when.

It owns the order of things: judge a message, append what it becomes, remember it, acknowledge it. A message that is refused
becomes a dead letter, and is acknowledged as well; the bridge goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec
import structlog

from steepest.clock import Clock
from steepest.events import cluster as c
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.loss import JobWatched
from steepest.events.received import SEQUENCE, SOURCE, Received
from steepest.log.base import Log, NewRecord, TopicPartition
from steepest.mqtt.letters import EdgeLetters
from steepest.mqtt.metric_defs import MqttMetrics
from steepest.mqtt.own import Own
from steepest.mqtt.payload import LOSS, Message, RefusedMessageError, parse
from steepest.mqtt.place import ORIGIN, Memory, origin
from steepest.mqtt.seen import Standing
from steepest.mqtt.session import ON_THE_WAY, Arrived, Session
from steepest.mqtt.settings import MqttSettings
from steepest.mqtt.watching import Watching
from steepest.policies.monitor.use import usage_every_ms
from steepest.runtime.decode import new_record
from steepest.runtime.effector import Effector, Send
from steepest.runtime.layout import Layout
from steepest.runtime.outbox import patiently
from steepest.view.cluster_view import ClusterView

logger = structlog.get_logger(__name__)

BATCH = 500
"""Messages that are appended in one go."""

KEEP_EVERY_S = 10.0
"""A restart reads this much of the log again, to see what came last."""

VIEW_WAIT_S = 5.0
"""A job may be on the log, and its first report here, before the view has it; after this it is not the view that is late."""


class Over(msgspec.Struct, frozen=True):
    """A job that has ended."""

    job: str


class MqttBridge(Effector):
    """Carries messages from the broker to the topics ``heartbeats`` and ``loss``."""

    name = "mqtt-bridge"

    def __init__(
        self,
        settings: MqttSettings,
        *,
        pool: str,
        nodes: Collection[str],
        log: Log,
        clock: Clock,
        folder: Path,
        metrics: MqttMetrics,
    ) -> None:
        """Keep what was seen in ``folder``; ``nodes`` are those that adapters start jobs on."""
        self._prefix = settings.prefix
        self._pool = pool
        self._log = log
        self._clock = clock
        self._metrics = metrics
        self._work: asyncio.Queue[Arrived | Over] = asyncio.Queue()
        client_id = settings.client_id or f"steepest-bridge-{pool}-{settings.prefix}"
        self._session = Session(settings, client_id, metrics, self._take)
        self._memory = Memory(log, folder / "place")
        self._watching = Watching(pool, {})
        self._own = Own(nodes, settings.agent_nodes)
        self._letters = EdgeLetters(clock)
        self._layout = Layout(pools=(pool,))
        self._view = ClusterView()
        self._at: TopicPartition | None = None
        self._caught_up = asyncio.Event()

    # --- following the log (nothing here waits) --------------------------------------------------------------------------

    def caught_up(self, view: ClusterView) -> None:
        """Jobs are looked up in this view from now on."""
        self._view = view
        self._own.look(view)
        self._caught_up.set()
        self._end(self._watching.ended(view))

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """A job that has ended is watched no more; one that is placed has a node more that may report about it."""
        self._at = TopicPartition(received.topic, received.partition)
        if accepted:
            self._own.observe(received.event)
        match received.event:
            case c.JobEnded(job=name) | c.JobRejected(job=name) if accepted and name in view.jobs:
                self._end([name])

    def _end(self, jobs: Sequence[str]) -> None:
        for job in jobs:
            self._work.put_nowait(Over(job))

    # --- carrying --------------------------------------------------------------------------------------------------------

    async def run(self, send: Send) -> None:  # noqa: ARG002 - what is sent here has headers of its own
        """Carry until cancelled."""
        await self._caught_up.wait()
        async for attempt in patiently():
            with attempt:
                self._layout = Layout(pools=(self._pool,), loss_partitions=len(await self._log.partitions(LOSS)))
                await self._memory.restore()
        self._watching = Watching(self._pool, self._memory.watched)
        self._own.go_on_with(self._memory.homes)
        self._end(self._watching.ended(self._view))
        kept_at = self._clock.monotonic()
        async with self._session.connected():
            while True:
                await self._carry(await self._batch())
                if self._clock.monotonic() - kept_at >= KEEP_EVERY_S:
                    kept_at = self._clock.monotonic()
                    self._own.forget(self._view)
                    async for attempt in patiently():
                        with attempt:
                            await self._memory.keep()

    def _take(self, arrived: Arrived) -> None:
        """A message of QoS 0 is nothing that the broker would keep back until we have room."""
        if arrived.mid == 0 and self._work.qsize() >= ON_THE_WAY:
            self._metrics.refused.labels("qos").inc()
            return
        self._work.put_nowait(arrived)

    async def _batch(self) -> Sequence[Arrived | Over]:
        """What is there, after waiting for the first for a while."""
        try:
            async with asyncio.timeout(KEEP_EVERY_S):
                batch = [await self._work.get()]
        except TimeoutError:
            return ()
        while len(batch) < BATCH and not self._work.empty():
            batch.append(self._work.get_nowait())
        return batch

    async def _carry(self, batch: Sequence[Arrived | Over]) -> None:
        records = [record for one in batch for record in await self._become(one)]
        if records:
            async for attempt in patiently():
                with attempt:
                    await self._log.append(records)
        for one in batch:
            if isinstance(one, Arrived):
                self._session.acknowledge(one)

    async def _become(self, one: Arrived | Over) -> Sequence[NewRecord]:
        """The records of a message or of a job's end."""
        if isinstance(one, Over):
            unwatched = self._watching.over(one.job)
            return [self._record(one.job, unwatched, self._clock.now_ms(), {})] if unwatched else []
        try:
            return await self._taken(parse(self._prefix, self._pool, one.topic, one.payload))
        except RefusedMessageError as refused:
            return self._refuse(one, refused)
        except Exception as error:
            logger.exception("a message that makes trouble", topic=one.topic)
            return self._refuse(one, RefusedMessageError(f"{type(error).__name__}: {error}", code="bug"))

    def _refuse(self, one: Arrived, refused: RefusedMessageError) -> Sequence[NewRecord]:
        self._metrics.refused.labels(refused.code).inc()
        logger.warning("refused", topic=one.topic, why=str(refused))
        return self._letters.about(one.topic, one.payload, refused)

    async def _taken(self, message: Message) -> Sequence[NewRecord]:
        """The records of a message that is new; none where it comes again.

        Raises:
            RefusedMessageError: Its number goes back, or its job is not to be reported about.
        """
        said, seen = message.said, self._memory.seen
        match seen.judge(message.stream, said.seq, message.digest):
            case Standing.REPEATED:
                self._metrics.repeated.inc()
                return ()
            case Standing.BACK:
                last = seen.streams[message.stream].last
                raise RefusedMessageError(
                    f"`$.seq` is {said.seq} after {last}, and not the message that had the number: begin a new generation",
                    code="sequence",
                )
        missing = seen.note(message.stream, said.seq, message.digest)
        if missing:
            self._metrics.missing.inc(missing)
            logger.warning("messages never came", stream=message.stream, before=said.seq, missing=missing)
        return await self._records(message)

    async def _records(self, message: Message) -> Sequence[NewRecord]:
        now_ms = self._clock.now_ms()
        event = message.event
        said_ms = event.at_ms if isinstance(event, NodeHeartbeat) else message.said.at_ms
        at_ms = min(said_ms or now_ms, now_ms)
        origins = {ORIGIN: origin(message)}
        records = []
        if isinstance(event, NodeHeartbeat):
            event = self._own.heartbeat(event)
            event = msgspec.structs.replace(event, usage_every_ms=usage_every_ms(self._view))
        else:
            watched = await self._watched(message)
            records += [self._record(message.key, watched, at_ms, origins)] if watched else []
        numbered = {**origins, SOURCE: message.source, SEQUENCE: message.number}
        self._metrics.taken.labels(message.channel).inc()
        return [*records, self._record(message.key, event, at_ms, numbered)]

    async def _watched(self, message: Message) -> JobWatched | None:
        """What must stand before a message on ``loss``.

        Raises:
            RefusedMessageError: The message may not stand there.
        """
        try:
            return self._before(message)
        except RefusedMessageError:
            await self._view_is_current()
            return self._before(message)

    def _before(self, message: Message) -> JobWatched | None:
        job = self._view.jobs.get(message.key)
        if job is not None:
            self._own.refuse_others_job(job, message)
        return self._watching.before(self._view, message)

    async def _view_is_current(self) -> None:
        """Until the view holds what is on the pool's log now."""
        if self._at is None:
            return
        async for attempt in patiently():
            with attempt:
                end = await self._log.end(self._at)
        deadline = self._clock.monotonic() + VIEW_WAIT_S
        while self._view.position < end and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.02)

    def _record(self, key: str, event: msgspec.Struct, at_ms: int, headers: dict[str, str]) -> NewRecord:
        topic = "heartbeats" if isinstance(event, NodeHeartbeat) else LOSS
        return new_record(self._layout.of_key(topic, key), key, event, at_ms, headers)
