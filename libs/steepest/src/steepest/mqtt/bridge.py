"""The bridge: messages of devices, from an MQTT broker to the log, each message once across restarts of any part.

It owns the order of steps: check a message, append the records that it becomes, remember it, acknowledge it. A refused
message becomes a dead letter and is acknowledged as well; the bridge goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

import aiomqtt
import msgspec

from steepest.clock import Clock
from steepest.events import cluster as c
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.loss import JobWatched
from steepest.events.received import SEQUENCE, SOURCE, Received
from steepest.log.base import Log, NewRecord, TopicPartition
from steepest.logger import Logger
from steepest.mqtt.authorization import Authorization
from steepest.mqtt.cursor import ORIGIN, BridgeCursor, origin
from steepest.mqtt.dead_letters import MessageDeadLetters
from steepest.mqtt.deduplication import SequenceCheck
from steepest.mqtt.loss_admission import LossAdmission
from steepest.mqtt.metric_defs import MqttMetrics
from steepest.mqtt.payload import LOSS, DeviceMessage, RefusedMessageError, parse
from steepest.mqtt.settings import MqttSettings
from steepest.mqtt.subscription import Subscription
from steepest.policies.monitor.use import usage_every_ms
from steepest.runtime.decode import new_record
from steepest.runtime.effector import Effector, Send
from steepest.runtime.layout import Layout
from steepest.runtime.outbox import patiently
from steepest.view.cluster_view import ClusterView

logger = Logger()

SAVE_EVERY_S = 10.0
"""A restart reads about this much of the log again, to find the last appends."""

VIEW_WAIT_S = 5.0
"""The first report of a job may arrive before the view has the job. A job that is still unknown after this is refused."""


class MqttBridge(Effector):
    """Carries messages from the broker to the topics ``heartbeats`` and ``loss``."""

    name = "mqtt-bridge"

    def __init__(
        self,
        settings: MqttSettings,
        *,
        pool: str,
        layout: Layout,
        nodes: Collection[str],
        log: Log,
        clock: Clock,
        folder: Path,
        metrics: MqttMetrics,
    ) -> None:
        """The bridge of one pool.

        Args:
            settings: How the broker is reached.
            pool: The pool's name.
            layout: The installation's.
            nodes: The nodes on which adapters start jobs.
            log: Where records are appended.
            clock: For waiting and for the time of records.
            folder: Where the cursor is saved.
            metrics: What is counted.

        Raises:
            InputError: A certificate cannot be read.
        """
        self._prefix = settings.prefix
        self._pool = pool
        self._log = log
        self._clock = clock
        self._metrics = metrics
        client_id = settings.client_id or f"steepest-bridge-{pool}-{settings.prefix}"
        self._subscription = Subscription(settings, client_id, metrics, clock)
        self._cursor = BridgeCursor(log, folder / "cursor")
        self._admission = LossAdmission(pool, {})
        self._authorization = Authorization(nodes, settings.agent_nodes)
        self._dead_letters = MessageDeadLetters(clock)
        self._layout = layout
        self._view = ClusterView()
        self._partition: TopicPartition | None = None
        self._caught_up = asyncio.Event()
        self._ended_jobs: asyncio.Queue[str] = asyncio.Queue()
        self._writing = asyncio.Lock()

    # --- following the log (nothing here waits) --------------------------------------------------------------------------

    def caught_up(self, view: ClusterView) -> None:
        """Look jobs up in this view from now on."""
        self._view = view
        self._authorization.index(view)
        self._caught_up.set()
        self._queue_ended(self._admission.ended(view))

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Note where a job is placed, since the agent there may report about it, and which job has ended."""
        self._partition = TopicPartition(received.topic, received.partition)
        if accepted:
            self._authorization.observe(received.event)
        match received.event:
            case c.JobEnded(job=name) | c.JobRejected(job=name) if accepted and name in view.jobs:
                self._queue_ended([name])

    def _queue_ended(self, jobs: Sequence[str]) -> None:
        for job in jobs:
            self._ended_jobs.put_nowait(job)

    # --- carrying --------------------------------------------------------------------------------------------------------

    async def run(self, send: Send) -> None:  # noqa: ARG002 - the bridge's records have headers of their own
        """Carry until cancelled."""
        await self._caught_up.wait()
        async for attempt in patiently():
            with attempt:
                losses = len(await self._log.partitions(LOSS))
                self._layout = msgspec.structs.replace(self._layout, loss_partitions=losses)
                await self._cursor.restore()
        self._admission = LossAdmission(self._pool, self._cursor.watched)
        self._authorization.restore(self._cursor.agents)
        self._queue_ended(self._admission.ended(self._view))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._subscription.run(self._carry))
            group.create_task(self._unwatch_ended_jobs())
            group.create_task(self._save_regularly())

    async def _carry(self, batch: Sequence[aiomqtt.Message]) -> None:
        """Append what a batch becomes; when this returns, the batch is acknowledged."""
        async with self._writing:
            await self._append([record for message in batch for record in await self._records_of(message)])

    async def _unwatch_ended_jobs(self) -> None:
        while True:
            job = await self._ended_jobs.get()
            async with self._writing:
                if unwatched := self._admission.unwatch(job):
                    await self._append([self._record(job, unwatched, self._clock.now_ms(), {})])

    async def _save_regularly(self) -> None:
        """Save the cursor while nothing is on its way to the log."""
        while True:
            await self._clock.sleep(SAVE_EVERY_S)
            async with self._writing:
                self._authorization.forget_jobs_unknown_to(self._view)
                async for attempt in patiently():
                    with attempt:
                        await self._cursor.save()

    async def _append(self, records: Sequence[NewRecord]) -> None:
        if records:
            async for attempt in patiently():
                with attempt:
                    await self._log.append(records)

    # --- from messages to records ----------------------------------------------------------------------------------------

    async def _records_of(self, message: aiomqtt.Message) -> Sequence[NewRecord]:
        topic, payload = message.topic.value, bytes(message.payload)
        try:
            return await self._accept(parse(self._prefix, self._pool, topic, payload))
        except RefusedMessageError as refused:
            return self._refuse(topic, payload, refused)
        except Exception as error:
            logger.exception("a bug in the handling of a message", topic=topic)
            return self._refuse(topic, payload, RefusedMessageError(f"{type(error).__name__}: {error}", code="bug"))

    def _refuse(self, topic: str, payload: bytes, refused: RefusedMessageError) -> Sequence[NewRecord]:
        self._metrics.refused.labels(refused.code).inc()
        logger.warning("refused", topic=topic, why=str(refused))
        return self._dead_letters.about(topic, payload, refused)

    async def _accept(self, message: DeviceMessage) -> Sequence[NewRecord]:
        """The records of a new message; none for a duplicate.

        Raises:
            RefusedMessageError: Its number is out of order, or its device may not report it.
        """
        seq, seen = message.envelope.seq, self._cursor.deduplication
        match seen.check(message.stream, seq, message.digest):
            case SequenceCheck.DUPLICATE:
                self._metrics.repeated.inc()
                return ()
            case SequenceCheck.OUT_OF_ORDER:
                last = seen.streams[message.stream].last
                raise RefusedMessageError(
                    f"`$.seq` is {seq} after {last}, and not the message that had the number: begin a new generation",
                    code="sequence",
                )
        missing = seen.record(message.stream, seq, message.digest)
        if missing:
            self._metrics.missing.inc(missing)
            logger.warning("messages are missing", stream=message.stream, before=seq, missing=missing)
        return await self._new_records(message)

    async def _new_records(self, message: DeviceMessage) -> Sequence[NewRecord]:
        now_ms = self._clock.now_ms()
        event = message.event
        observed_ms = event.at_ms if isinstance(event, NodeHeartbeat) else message.envelope.at_ms
        at_ms = min(observed_ms or now_ms, now_ms)
        origins = {ORIGIN: origin(message)}
        records = []
        if isinstance(event, NodeHeartbeat):
            event = self._authorization.authorize_heartbeat(event, self._view)
            event = msgspec.structs.replace(event, usage_every_ms=usage_every_ms(self._view))
        else:
            watched = await self._admit(message)
            records += [self._record(message.key, watched, at_ms, origins)] if watched else []
        numbered = {**origins, SOURCE: message.source, SEQUENCE: message.number}
        self._metrics.taken.labels(message.channel).inc()
        return [*records, self._record(message.key, event, at_ms, numbered)]

    async def _admit(self, message: DeviceMessage) -> JobWatched | None:
        """The event that must precede a message on ``loss``, if any.

        Raises:
            RefusedMessageError: The message is not admitted, also by a view that holds all of the pool's log.
        """
        try:
            return self._admit_now(message)
        except RefusedMessageError:
            await self._view_is_current()
            return self._admit_now(message)

    def _admit_now(self, message: DeviceMessage) -> JobWatched | None:
        job = self._view.jobs.get(message.key)
        if job is not None:
            self._authorization.authorize_report(job, message)
        return self._admission.admit(self._view, message)

    async def _view_is_current(self) -> None:
        """Wait until the view has reached the present end of the pool's log."""
        if self._partition is None:
            return
        async for attempt in patiently():
            with attempt:
                end = await self._log.end(self._partition)
        deadline = self._clock.monotonic() + VIEW_WAIT_S
        while self._view.position < end and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.02)

    def _record(self, key: str, event: msgspec.Struct, at_ms: int, headers: dict[str, str]) -> NewRecord:
        topic = "heartbeats" if isinstance(event, NodeHeartbeat) else LOSS
        return new_record(self._layout.of_key(topic, key, self._pool), key, event, at_ms, headers)
