"""A log on Apache Kafka.

It owns appending and offset queries; :mod:`steepest.log.kafka.kafka_reader` owns reading. It must never know what a
record's value means.

Kafka's defaults can lose or repeat records, so every setting that matters is explicit here: all replicas acknowledge, the
producer is idempotent, no offsets are committed (readers keep their own positions), and a position that the broker no longer
has is an error, not a jump. Transactions are not used; ``docs/decisions`` says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition

from steepest.errors import LogUnavailableError
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.kafka.clients import CLIENT_ERRORS, closed, consumer, started, stopped
from steepest.log.kafka.kafka_reader import KafkaReader
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.log.validation import MAX_RECORD_BYTES, Topics

BATCH_BYTES = 1 << 20
"""Records of one call and partition up to this size are guaranteed to be adjacent; a broker's default limit is 1 MiB."""

OVERHEAD_BYTES = 1 << 16
"""Bound on a record's size apart from its key, headers and value."""


class KafkaLog:
    """A ``steepest.log.base.Log`` on topics of a Kafka cluster. A handle belongs to one event loop."""

    def __init__(self, settings: KafkaSettings, partitions: Mapping[str, int]) -> None:
        """Use these topics, which must exist; clients connect on first use.

        Args:
            settings: How to reach the cluster.
            partitions: Topic to number of partitions.
        """
        self._settings = settings
        self._prefix = settings.prefix
        self._topics = Topics(partitions, source=f"Kafka at {settings.bootstrap}")
        self._producer: AIOKafkaProducer | None = None
        self._query_client: AIOKafkaConsumer | None = None
        self._sending = asyncio.Lock()
        self._querying = asyncio.Lock()
        self._closed = False

    async def append(self, records: Sequence[NewRecord]) -> Sequence[int]:
        """See ``steepest.log.base.Log.append``: one batch for each partition.

        Raises:
            InputError: A record is invalid; nothing is stored.
            LogUnavailableError: It is not known what is stored. The producer is dropped, so that it does not retry later.
        """
        self._check_open()
        self._topics.check_records(records)
        indices: dict[TopicPartition, list[int]] = {}
        for index, record in enumerate(records):
            indices.setdefault(record.to, []).append(index)
        offsets = [0] * len(records)
        async with self._sending:
            try:
                producer = await self._connected_producer()
                # All partitions are sent before the first acknowledgement is awaited, so they wait side by side.
                sent = [
                    (mine, await self._send(producer, at, [records[index] for index in mine]))
                    for at, mine in indices.items()
                ]
                for mine, batches in sent:
                    self._take_offsets(offsets, mine, [(await future, count) for future, count in batches])
            except CLIENT_ERRORS as error:
                await self._drop_producer()
                raise self._unavailable(error) from error
            except asyncio.CancelledError:
                # The caller no longer waits, and may append again: these batches must not be retried beside that.
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
        """See ``steepest.log.base.Log.begin``.

        Raises:
            As ``end``.
        """
        return await self._offset(at, "beginning_offsets")

    async def since(self, at: TopicPartition, at_ms: int) -> int:
        """The offset of the first record that was observed at this time or later; the end if there is none.

        Raises:
            As ``end``.
        """
        self._check_open()
        self._topics.check(at)
        partition = self._kafka(at)
        try:
            async with self._querying:
                found = (await (await self._connected_query_client()).offsets_for_times({partition: at_ms}))[partition]
        except CLIENT_ERRORS as error:
            raise self._unavailable(error) from error
        return await self.end(at) if found is None else int(found.offset)

    async def sync(self, partitions: Iterable[TopicPartition]) -> None:
        """See ``steepest.log.base.Log.sync``: it does nothing; durability is configured in the brokers."""

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
            await stopped(self._producer)
        if self._query_client is not None:
            await stopped(self._query_client)

    async def _offset(self, at: TopicPartition, question: str) -> int:
        self._check_open()
        self._topics.check(at)
        partition = self._kafka(at)
        async with self._querying:
            try:
                offsets: dict[KafkaPartition, int] = await getattr(await self._connected_query_client(), question)(
                    [partition]
                )
            except CLIENT_ERRORS as error:
                raise self._unavailable(error) from error
        return offsets[partition]

    async def _connected_query_client(self) -> AIOKafkaConsumer:
        if self._query_client is None:
            self._query_client = await started(consumer(self._settings))
        return self._query_client

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
            # It would retry the failed batches, which may duplicate records; so its sender is stopped without a flush.
            await closed(producer._sender.close())  # noqa: SLF001 - ``stop`` would flush first
            await closed(producer.client.close())
            producer._closed = True  # noqa: SLF001 - avoids its warning that it was not closed

    async def _send(
        self, producer: AIOKafkaProducer, at: TopicPartition, records: Sequence[NewRecord]
    ) -> list[tuple[asyncio.Future[Any], int]]:
        """Send batches in order; return the future of each acknowledgement and its number of records."""
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
    def _take_offsets(offsets: list[int], indices: Sequence[int], batches: Iterable[tuple[Any, int]]) -> None:
        numbers = [meta.offset + step for meta, count in batches for step in range(count)]
        for index, number in zip(indices, numbers, strict=True):
            offsets[index] = number

    def _kafka(self, at: TopicPartition) -> KafkaPartition:
        return KafkaPartition(self._prefix + at.topic, at.partition)

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailableError(f"{self._topics.source}: this log was closed", hint="Open it again.")

    def _unavailable(self, error: BaseException) -> LogUnavailableError:
        return LogUnavailableError(
            f"{self._topics.source}: {type(error).__name__}: {error}",
            hint="Check that the broker runs and that its topics exist: steepest topics apply",
        )
