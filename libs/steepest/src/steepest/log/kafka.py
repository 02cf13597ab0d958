"""A log on Apache Kafka.

It owns the client: its settings, its conversions, and what its errors mean. It must never know what a record's value means.

Kafka's defaults lose or repeat records for a log like this one, so every setting that matters is set here: all replicas
acknowledge, the producer is idempotent, nothing is committed (positions are the reader's own), and a position that the
broker no longer has is an error, not a jump. Transactions are not used; ``docs/decisions`` says why.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from steepest.errors import LogEpochError, LogUnavailableError
from steepest.log.base import NewRecord, Record, TopicPartition
from steepest.log.kafka_settings import KafkaSettings
from steepest.log.topics import MAX_RECORD_BYTES, Topics

BATCH_BYTES = 1 << 20
"""The records of one call and partition up to this size stand next to each other for sure; a broker takes 1 MiB."""

OVERHEAD_BYTES = 1 << 16
"""What a record of the largest size takes besides its key, headers and value."""

CLIENT_ERRORS = (KafkaError, OSError, TimeoutError)
"""What clients raise where the cluster does not do what it was asked for."""

Client = TypeVar("Client", AIOKafkaConsumer, AIOKafkaProducer)

FETCH_MS = 1_000
"""How long the client waits at a stretch; whoever polls waits as long as it likes."""


class KafkaLog:
    """A ``steepest.log.base.Log`` on topics of a Kafka cluster. A handle belongs to one event loop."""

    def __init__(self, settings: KafkaSettings, partitions: Mapping[str, int]) -> None:
        """Use these topics, which must exist; clients connect when first used.

        Args:
            settings: How to reach the cluster.
            partitions: Topic to number of partitions.
        """
        self._settings = settings
        self._prefix = settings.prefix
        self._topics = Topics(partitions, source=f"Kafka at {settings.bootstrap}")
        self._producer: AIOKafkaProducer | None = None
        self._asker: AIOKafkaConsumer | None = None
        self._sending = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._closed = False

    async def append(self, records: Sequence[NewRecord]) -> Sequence[int]:
        """See ``steepest.log.base.Log.append``: one batch for each partition.

        Raises:
            InputError: A record that no log can hold; nothing is kept.
            LogUnavailableError: It is not known what is kept. The producer is dropped, so that nothing of it comes later.
        """
        self._check_open()
        self._topics.check_records(records)
        places: dict[TopicPartition, list[int]] = {}
        for place, record in enumerate(records):
            places.setdefault(record.to, []).append(place)
        offsets = [0] * len(records)
        async with self._sending:
            try:
                producer = await self._connected_producer()
                sent = [
                    (mine, await self._send(producer, at, [records[place] for place in mine]))
                    for at, mine in places.items()
                ]
                for mine, batches in sent:
                    self._take_offsets(offsets, mine, [(await future, count) for future, count in batches])
            except CLIENT_ERRORS as error:
                await self._drop_producer()
                raise self._unavailable(error) from error
            except asyncio.CancelledError:
                await self._drop_producer()
                raise
        return offsets

    async def end(self, at: TopicPartition) -> int:
        """See ``steepest.log.base.Log.end``.

        Raises:
            InputError: The log has no such partition.
            LogUnavailableError: The broker does not answer.
        """
        return await self._offset(at, "end_offsets")

    async def begin(self, at: TopicPartition) -> int:
        """The first offset that the broker still has; older ones were dropped by age.

        Raises:
            As ``end``.
        """
        return await self._offset(at, "beginning_offsets")

    async def partitions(self, topic: str) -> Sequence[TopicPartition]:
        """See ``steepest.log.base.Log.partitions``.

        Raises:
            InputError: The log has no such topic.
        """
        return self._topics.of(topic)

    def reader(self, start: Mapping[TopicPartition, int]) -> KafkaReader:
        """See ``steepest.log.base.Log.reader``.

        Raises:
            InputError: A partition that the log does not have, or a negative offset.
        """
        self._check_open()
        self._topics.check_start(start)
        return KafkaReader(self._settings, {self._kafka(at): (at, offset) for at, offset in start.items()})

    async def close(self) -> None:
        """See ``steepest.log.base.Log.close``."""
        if self._closed:
            return
        self._closed = True
        if self._producer is not None:
            await self._producer.stop()
        if self._asker is not None:
            await self._asker.stop()

    async def _offset(self, at: TopicPartition, question: str) -> int:
        self._check_open()
        self._topics.check(at)
        partition = self._kafka(at)
        async with self._asking:
            try:
                if self._asker is None:
                    self._asker = await started(consumer(self._settings))
                offsets: dict[KafkaPartition, int] = await getattr(self._asker, question)([partition])
            except CLIENT_ERRORS as error:
                raise self._unavailable(error) from error
        return offsets[partition]

    async def _connected_producer(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                **self._settings.client(),
                acks="all",
                enable_idempotence=True,
                linger_ms=0,
                max_batch_size=BATCH_BYTES,
                max_request_size=MAX_RECORD_BYTES + OVERHEAD_BYTES,
            )
            self._producer = await started(producer)
        return self._producer

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            # It would send again what failed; its sender is stopped without waiting for that.
            await producer._sender.close()  # noqa: SLF001 - ``stop`` flushes first, which is what must not happen
            await producer.client.close()

    async def _send(
        self, producer: AIOKafkaProducer, at: TopicPartition, records: Sequence[NewRecord]
    ) -> list[tuple[asyncio.Future[Any], int]]:
        """Hand batches over, in order; each with the future of its acknowledgement and its number of records."""
        sent = []
        left = list(records)
        while left:
            batch = producer.create_batch()
            count = 0
            for record in left:
                headers = [(name, text.encode()) for name, text in record.headers.items()]
                kept = batch.append(
                    key=record.key.encode(), value=record.value, timestamp=record.at_ms, headers=headers
                )
                if kept is None:
                    break
                count += 1
            batch.close()
            partition = self._kafka(at)
            sent.append((await producer.send_batch(batch, partition.topic, partition=partition.partition), count))
            left = left[count:]
        return sent

    @staticmethod
    def _take_offsets(offsets: list[int], places: Sequence[int], batches: Iterable[tuple[Any, int]]) -> None:
        numbers = [meta.offset + step for meta, count in batches for step in range(count)]
        for place, number in zip(places, numbers, strict=True):
            offsets[place] = number

    def _kafka(self, at: TopicPartition) -> KafkaPartition:
        return KafkaPartition(self._prefix + at.topic, at.partition)

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailableError(f"{self._topics.source}: this log was closed", mend="Open it again.")

    def _unavailable(self, error: BaseException) -> LogUnavailableError:
        return LogUnavailableError(
            f"{self._topics.source}: {type(error).__name__}: {error}",
            mend="Look whether the broker runs, and whether its topics are there: steepest topics apply",
        )


class KafkaReader:
    """Fulfils ``steepest.log.base.Reader``. It connects at its first poll.

    What fetches is a task of its own, which a cancelled poll leaves to the next one: so nothing is lost between the
    moment that the client moves on and the moment that the caller has the records.
    """

    def __init__(self, settings: KafkaSettings, start: Mapping[KafkaPartition, tuple[TopicPartition, int]]) -> None:
        self._settings = settings
        self._start = start
        self._connecting: asyncio.Task[AIOKafkaConsumer] | None = None
        self._fetching: asyncio.Task[list[Record]] | None = None
        self._ready: deque[Record] = deque()
        self._closed = False

    async def poll(self, *, max_records: int = 1000, timeout_s: float = 1.0) -> Sequence[Record]:
        """See ``steepest.log.base.Reader.poll``."""
        if self._closed:
            raise LogUnavailableError("this reader was closed", mend="Make a new one from the log.")
        # A reader that is far behind never has to wait: without this, nobody else would have a turn.
        await asyncio.sleep(0)
        if not self._ready:
            await self._connected()
            await self._fetch(timeout_s, max_records)
        return [self._ready.popleft() for _ in range(min(max_records, len(self._ready)))]

    async def close(self) -> None:
        """See ``steepest.log.base.Reader.close``."""
        self._closed = True
        if self._fetching is not None:
            self._fetching.cancel()
            with contextlib.suppress(asyncio.CancelledError, LogEpochError, LogUnavailableError):
                await self._fetching
        if self._connecting is not None:
            with contextlib.suppress(asyncio.CancelledError, LogEpochError, LogUnavailableError):
                await (await self._connecting).stop()

    async def _fetch(self, timeout_s: float, max_records: int) -> None:
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetched(max_records))
        done, _ = await asyncio.wait([self._fetching], timeout=timeout_s)
        if done:
            fetched, self._fetching = self._fetching, None
            self._ready.extend(fetched.result())
            # The next ones come while the caller works on these, and waits for what it appends.
            self._fetching = asyncio.create_task(self._fetched(max_records))

    async def _fetched(self, max_records: int) -> list[Record]:
        """The next records, however long they take to come."""
        client = await self._connected()
        got: dict[KafkaPartition, list[Any]] = {}
        try:
            while not got:
                got = await client.getmany(timeout_ms=FETCH_MS, max_records=max_records)
        except OffsetOutOfRangeError as error:
            raise LogEpochError(
                f"the broker does not have the position: {error}",
                mend="Retention has removed it, or the topic was made anew: drop the snapshots that were kept of it.",
            ) from error
        except CLIENT_ERRORS as error:
            raise LogUnavailableError(f"Kafka: {type(error).__name__}: {error}") from error
        return [record for partition, batch in got.items() for record in _records(self._start[partition][0], batch)]

    async def _connected(self) -> AIOKafkaConsumer:
        """The client; a poll that is cancelled while it connects leaves it to the next one."""
        if self._connecting is None or (self._connecting.done() and self._connecting.exception()):
            self._connecting = asyncio.create_task(self._connect())
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> AIOKafkaConsumer:
        try:
            client = await started(consumer(self._settings))
        except CLIENT_ERRORS as error:
            raise LogUnavailableError(f"Kafka: {type(error).__name__}: {error}") from error
        try:
            client.assign(list(self._start))
            begins = await client.beginning_offsets(list(self._start))
            ends = await client.end_offsets(list(self._start))
            for partition, (at, offset) in self._start.items():
                _check_position(at, offset, begins[partition], ends[partition])
                client.seek(partition, offset)
        except CLIENT_ERRORS as error:
            await client.stop()
            raise LogUnavailableError(f"Kafka: {type(error).__name__}: {error}") from error
        except BaseException:
            await client.stop()
            raise
        return client


async def started(client: Client) -> Client:
    """A client that is connected; one that cannot be is stopped, so that it leaves nothing open."""
    try:
        await client.start()
    except BaseException:
        await client.stop()
        raise
    return client


def _check_position(at: TopicPartition, offset: int, begin: int, end: int) -> None:
    if offset < begin:
        raise LogEpochError(
            f"{at} has no offset {offset} any more: the broker keeps it from {begin} on",
            code="offset-missing",
            mend="Raise the topic's retention; to go on, restore a snapshot, or begin with new topics.",
        )
    if offset > end:
        raise LogEpochError(
            f"{at} ends at {end}, before the position {offset}",
            mend="The position is of another log: drop it with all state that was kept with it.",
        )


def consumer(settings: KafkaSettings) -> AIOKafkaConsumer:
    """A client that reads and keeps no position in Kafka."""
    return AIOKafkaConsumer(
        **settings.client(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        fetch_max_wait_ms=250,
        max_partition_fetch_bytes=4 << 20,
        isolation_level="read_uncommitted",
    )


def _records(at: TopicPartition, batch: Sequence[Any]) -> list[Record]:
    """A client's records as ours."""
    try:
        return [
            Record(
                at=at,
                offset=raw.offset,
                key=raw.key.decode() if raw.key else "",
                value=raw.value or b"",
                at_ms=raw.timestamp,
                headers={name: value.decode() for name, value in raw.headers},
            )
            for raw in batch
        ]
    except (UnicodeDecodeError, AttributeError):  # bytes that are no text, or a header without a value
        return [_doubtful(at, raw) for raw in batch]


def _doubtful(at: TopicPartition, raw: Any) -> Record:
    """A client's record as ours, damaged where its key or headers are no text."""
    key, headers = raw.key or b"", {name: value or b"" for name, value in raw.headers}
    damage = ""
    try:
        for text in (key, *headers.values()):
            text.decode()
    except UnicodeDecodeError as error:
        damage = f"its key or headers are no text: {error}"
    return Record(
        at=at,
        offset=raw.offset,
        key=key.decode(errors="replace"),
        value=raw.value or b"",
        at_ms=raw.timestamp,
        headers={name: value.decode(errors="replace") for name, value in headers.items()},
        damage=damage,
    )
