"""Reading a log on Apache Kafka.

It owns the consumer: its settings, the meaning of its errors, and the conversion of its records, including those that the
client cannot decode. It must never know what a record's value means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import OffsetOutOfRangeError

from steepest.aio import uncancelled
from steepest.errors import LogEpochError, LogUnavailableError
from steepest.log.base import Record, TopicPartition
from steepest.log.kafka.clients import CLIENT_ERRORS, CONNECT_S, cancelled, consumer, finished, started, stopped
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.log.validation import check_position

FETCH_MS = 1_000
"""How long one wait of the client takes; a poll may wait longer or shorter."""

VERIFY_EVERY_S = 5.0
"""How often the last returned record is verified even if no connection failed: a busy reader may not notice a failure."""


class ParsedRecords(fetcher.PartitionRecords):  # type: ignore[misc]  # the client has no types
    """A fetched partition's records as the client's parser returns them.

    The client would convert each into an object of another class with the same fields, which is not needed and costs as
    much as the parsing.
    """

    def __iter__(self) -> Iterator[Any]:
        """The parser's own iterator, without the client's wrapper."""
        parsed: Iterator[Any] = self._records_iterator
        return parsed

    def _consumer_record(self, tp: KafkaPartition, record: Any) -> Any:
        del tp
        return record


fetcher.PartitionRecords = ParsedRecords  # the fetcher looks it up by this name; there is no other way in


class KafkaReader:
    """Implements ``steepest.log.base.Reader``. It connects at its first poll.

    A separate task fetches; a cancelled poll leaves it to the next poll. So no records are lost between the client's advance
    and their return to the caller.

    When a topic is re-created, or a broker loses records that it had not written to its disk, there may be other records
    below the position when the client reaches it again. So after any connection failure, and periodically, the last returned
    record is read again and compared.
    """

    def __init__(self, settings: KafkaSettings, start: Mapping[KafkaPartition, tuple[TopicPartition, int]]) -> None:
        self._settings = settings
        self._start = start
        self._next = {partition: offset for partition, (_, offset) in start.items()}
        self._connecting: asyncio.Task[AIOKafkaConsumer] | None = None
        self._fetching: asyncio.Task[list[Record]] | None = None
        self._ready: list[Record] = []
        self._given: dict[KafkaPartition, Any] = {}
        self._must_verify = False
        self._verified_at = asyncio.get_running_loop().time()
        self._closed = False

    async def poll(self, *, max_records: int = 1000, timeout_s: float = 1.0) -> Sequence[Record]:
        """See ``steepest.log.base.Reader.poll``."""
        if self._closed:
            raise LogUnavailableError("this reader was closed", hint="Make a new one from the log.")
        # A reader that is far behind never waits: without this, no other task of the event loop would run.
        await asyncio.sleep(0)
        if not self._ready:
            await self._connected()
            await self._fetch(timeout_s, max_records)
        taken, self._ready = self._ready[:max_records], self._ready[max_records:]
        return taken

    async def close(self) -> None:
        """See ``steepest.log.base.Reader.close``."""
        self._closed = True
        await uncancelled(self._close())

    async def _close(self) -> None:
        if self._fetching is not None:
            await cancelled(self._fetching)
        if (connecting := self._connecting) is not None:
            connecting.cancel()  # a client that still connects is stopped by this task
            await finished(connecting, CONNECT_S)
            if connecting.done() and not connecting.cancelled() and connecting.exception() is None:
                await stopped(connecting.result())

    async def _fetch(self, timeout_s: float, max_records: int) -> None:
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetched(max_records))
        if not self._fetching.done():
            await asyncio.wait([self._fetching], timeout=timeout_s)
        if self._fetching.done():
            fetched, self._fetching = self._fetching, None
            self._ready = fetched.result()
            # Fetch the next records while the caller processes these.
            self._fetching = asyncio.create_task(self._fetched(max_records))

    async def _fetched(self, max_records: int) -> list[Record]:
        """The next records; it waits for them without a limit."""
        client = await self._connected()
        got: dict[KafkaPartition, list[Any]] = {}
        try:
            while not got:
                got = await client.getmany(timeout_ms=FETCH_MS, max_records=max_records)
                if got and (self._must_verify or self._is_due()):
                    await self._verify(client)
                    self._verified_at = asyncio.get_running_loop().time()
                    # Verifying moved the client back to the positions: what it fetched before comes again.
                    got = await client.getmany(timeout_ms=FETCH_MS, max_records=max_records)
        except UnicodeDecodeError as error:
            return await self._skip_undecodable(client, max_records, error)
        except OffsetOutOfRangeError as error:
            await self._check_positions(client)
            raise LogUnavailableError(f"Kafka: {type(error).__name__}: {error}") from error
        except CLIENT_ERRORS as error:
            raise LogUnavailableError(f"Kafka: {type(error).__name__}: {error}") from error
        return [record for partition, batch in got.items() for record in self._taken(partition, batch)]

    def _taken(self, partition: KafkaPartition, batch: Sequence[Any]) -> list[Record]:
        self._next[partition] = batch[-1].offset + 1
        self._given[partition] = batch[-1]
        return _records(self._start[partition][0], batch)

    async def _skip_undecodable(
        self, client: AIOKafkaConsumer, max_records: int, error: UnicodeDecodeError
    ) -> list[Record]:
        """The next records one by one, up to the one that the client cannot decode: a header name in it is not UTF-8.

        The client decodes a batch from its start, so the records after such a record in its batch are damaged too.
        """
        found: list[Record] = []
        for partition, (at, _) in self._start.items():
            client.seek(partition, self._next[partition])  # otherwise the records before it in the same fetch are lost
            try:
                for _ in range(max_records):
                    got = await client.getmany(partition, timeout_ms=FETCH_MS, max_records=1)
                    if not got:
                        break
                    found += self._taken(partition, got[partition])
            except UnicodeDecodeError:
                damage = f"a header's name in its batch is not valid text: {error}"
                found.append(Record(at=at, offset=self._next[partition], key="", value=b"", at_ms=0, damage=damage))
                self._next[partition] += 1
                client.seek(partition, self._next[partition])
        return found

    async def _connected(self) -> AIOKafkaConsumer:
        """The connected client; a poll that is cancelled while it connects leaves the task to the next one."""
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
            await self._check_positions(client)
            self._watch_for_failures(client)  # from here on: what a new client asks for is no failure to verify after
            for partition, offset in self._next.items():
                client.seek(partition, offset)
        except CLIENT_ERRORS as error:
            await stopped(client)
            raise LogUnavailableError(f"Kafka: {type(error).__name__}: {error}") from error
        except BaseException:
            await stopped(client)
            raise
        return client

    def _watch_for_failures(self, client: AIOKafkaConsumer) -> None:
        """Note connection failures: the client does not report them, but requests metadata after each of them."""
        ask = client._client.force_metadata_update  # noqa: SLF001 - there is no other way in

        def asked() -> Any:
            self._must_verify = True
            return ask()

        client._client.force_metadata_update = asked  # noqa: SLF001

    def _is_due(self) -> bool:
        return asyncio.get_running_loop().time() - self._verified_at > VERIFY_EVERY_S

    async def _verify(self, client: AIOKafkaConsumer) -> None:
        """Continue from the positions, if the records before them are those that were returned.

        Raises:
            LogEpochError: A record differs.
        """
        self._must_verify = False
        begins = await self._check_positions(client)
        for partition, position in self._next.items():
            given = self._given.get(partition)
            # A record that retention has removed cannot be compared; that the position is still there was checked above.
            if given is not None and given.offset >= begins[partition]:
                client.seek(partition, given.offset)
                got: Sequence[Any] = ()
                while not got:
                    got = (await client.getmany(partition, timeout_ms=FETCH_MS, max_records=1)).get(partition, ())
                if _content(got[0]) != _content(given):
                    raise LogEpochError(
                        f"{self._start[partition][0]} has another record at {given.offset} than before",
                        hint="The topic was re-created, or its broker lost records: start again from the current records.",
                    )
            client.seek(partition, position)

    async def _check_positions(self, client: AIOKafkaConsumer) -> Mapping[KafkaPartition, int]:
        partitions = list(self._next)
        try:
            begins, ends = await client.beginning_offsets(partitions), await client.end_offsets(partitions)
        except CLIENT_ERRORS as error:
            raise LogUnavailableError(f"Kafka: {type(error).__name__}: {error}") from error
        for partition, position in self._next.items():
            check_position(self._start[partition][0], position, begins[partition], ends[partition])
        return dict(begins)


def _content(raw: Any) -> tuple[Any, ...]:
    """The fields of a client's record that identify it."""
    return raw.offset, raw.timestamp, raw.key, raw.value, tuple(raw.headers)


def _records(at: TopicPartition, batch: Sequence[Any]) -> list[Record]:
    """Convert a client's records."""
    records = []
    try:
        for raw in batch:
            key, headers = raw.key, {}
            for name, value in raw.headers:
                headers[name] = value.decode()
            record = Record(
                at=at,
                offset=raw.offset,
                key=key.decode() if key else "",
                value=raw.value or b"",
                at_ms=raw.timestamp,
                headers=headers,
            )
            records.append(record)
    except (UnicodeDecodeError, AttributeError):  # bytes that are not UTF-8, or a header without a value
        return [_decoded_leniently(at, raw) for raw in batch]
    return records


def _decoded_leniently(at: TopicPartition, raw: Any) -> Record:
    """Convert a client's record; mark it as damaged if its key or headers are not UTF-8."""
    key, headers = raw.key or b"", {name: value or b"" for name, value in raw.headers}
    damage = ""
    try:
        for text in (key, *headers.values()):
            text.decode()
    except UnicodeDecodeError as error:
        damage = f"its key or headers are not valid text: {error}"
    return Record(
        at=at,
        offset=raw.offset,
        key=key.decode(errors="replace"),
        value=raw.value or b"",
        at_ms=raw.timestamp,
        headers={name: value.decode(errors="replace") for name, value in headers.items()},
        damage=damage,
    )
