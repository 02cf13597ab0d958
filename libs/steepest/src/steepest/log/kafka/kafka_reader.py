"""Reading a log on Apache Kafka.

It owns the consumer: its settings, what its errors mean, and its records as ours, also those that it cannot take itself. It
must never know what a record's value means.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from steepest.errors import LogEpochError, LogUnavailableError
from steepest.log.base import Record, TopicPartition
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.log.validation import check_position

CLIENT_ERRORS = (KafkaError, OSError, TimeoutError)
"""What clients raise where the cluster does not do what it was asked for."""

Client = TypeVar("Client", AIOKafkaConsumer, AIOKafkaProducer)

FETCH_MS = 1_000
"""How long the client waits at a stretch; whoever polls waits as long as it likes."""


VERIFY_EVERY_S = 5.0
"""How often the last record that was given is read once more although no trouble was heard of: a reader that was busy
for a moment hears of none."""


class ParsedRecords(fetcher.PartitionRecords):  # type: ignore[misc]  # the client has no types
    """A fetched partition's records as the client's parser gives them.

    The client makes an object of another class of each, with the same fields. Nobody here needs it, and it costs as much
    as the parsing.
    """

    def __iter__(self) -> Iterator[Any]:
        """The parser's own iterator, without the client's around it."""
        parsed: Iterator[Any] = self._records_iterator
        return parsed

    def _consumer_record(self, tp: KafkaPartition, record: Any) -> Any:
        del tp
        return record


fetcher.PartitionRecords = ParsedRecords  # the fetcher looks it up by this name; there is no other way in


class KafkaReader:
    """Fulfils ``steepest.log.base.Reader``. It connects at its first poll.

    What fetches is a task of its own, which a cancelled poll leaves to the next one: so nothing is lost between the
    moment that the client moves on and the moment that the caller has the records.

    A topic that is made anew, or a broker that has lost what it had not written to its disk, may have other records below
    the position by the time that the client reaches it again. So after any trouble, and now and then, the last record that
    was given is read once more.
    """

    def __init__(self, settings: KafkaSettings, start: Mapping[KafkaPartition, tuple[TopicPartition, int]]) -> None:
        self._settings = settings
        self._start = start
        self._next = {partition: offset for partition, (_, offset) in start.items()}
        self._connecting: asyncio.Task[AIOKafkaConsumer] | None = None
        self._fetching: asyncio.Task[list[Record]] | None = None
        self._ready: list[Record] = []
        self._given: dict[KafkaPartition, Any] = {}
        self._doubts = False
        self._verified_at = asyncio.get_running_loop().time()
        self._closed = False

    async def poll(self, *, max_records: int = 1000, timeout_s: float = 1.0) -> Sequence[Record]:
        """See ``steepest.log.base.Reader.poll``."""
        if self._closed:
            raise LogUnavailableError("this reader was closed", hint="Make a new one from the log.")
        # A reader that is far behind never has to wait: without this, nobody else would have a turn.
        await asyncio.sleep(0)
        if not self._ready:
            await self._connected()
            await self._fetch(timeout_s, max_records)
        taken, self._ready = self._ready[:max_records], self._ready[max_records:]
        return taken

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
        if not self._fetching.done():
            await asyncio.wait([self._fetching], timeout=timeout_s)
        if self._fetching.done():
            fetched, self._fetching = self._fetching, None
            self._ready = fetched.result()
            # The next ones come while the caller works on these, and waits for what it appends.
            self._fetching = asyncio.create_task(self._fetched(max_records))

    async def _fetched(self, max_records: int) -> list[Record]:
        """The next records, however long they take to come."""
        client = await self._connected()
        got: dict[KafkaPartition, list[Any]] = {}
        try:
            while not got:
                got = await client.getmany(timeout_ms=FETCH_MS, max_records=max_records)
                if got and (self._doubts or self._is_due()):
                    await self._verify(client)
                    self._verified_at = asyncio.get_running_loop().time()
                    got = await client.getmany(timeout_ms=FETCH_MS, max_records=max_records)
        except UnicodeDecodeError as error:
            return await self._around_a_name(client, max_records, error)
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

    async def _around_a_name(
        self, client: AIOKafkaConsumer, max_records: int, error: UnicodeDecodeError
    ) -> list[Record]:
        """The next records one by one, up to the one that the client cannot take: a header's name in it is no text.

        The client goes through a batch from its start, so what stands behind such a record in its batch is damaged too.
        """
        found: list[Record] = []
        for partition, (at, _) in self._start.items():
            client.seek(partition, self._next[partition])  # what came before it in the same fetch is lost otherwise
            try:
                for _ in range(max_records):
                    got = await client.getmany(partition, timeout_ms=FETCH_MS, max_records=1)
                    if not got:
                        break
                    found += self._taken(partition, got[partition])
            except UnicodeDecodeError:
                damage = f"a header's name in its batch is no text: {error}"
                found.append(Record(at=at, offset=self._next[partition], key="", value=b"", at_ms=0, damage=damage))
                self._next[partition] += 1
                client.seek(partition, self._next[partition])
        return found

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
            self._hear_of_trouble(client)
            await self._check_positions(client)
            for partition, offset in self._next.items():
                client.seek(partition, offset)
        except CLIENT_ERRORS as error:
            await client.stop()
            raise LogUnavailableError(f"Kafka: {type(error).__name__}: {error}") from error
        except BaseException:
            await client.stop()
            raise
        return client

    def _hear_of_trouble(self, client: AIOKafkaConsumer) -> None:
        """The client asks for metadata when a connection broke, or a broker does not have a partition; it tells nobody."""
        ask = client._client.force_metadata_update  # noqa: SLF001 - there is no other way in

        def asked() -> Any:
            self._doubts = True
            return ask()

        client._client.force_metadata_update = asked  # noqa: SLF001

    def _is_due(self) -> bool:
        return asyncio.get_running_loop().time() - self._verified_at > VERIFY_EVERY_S

    async def _verify(self, client: AIOKafkaConsumer) -> None:
        """Go on from the positions, if the records before them are those that were given.

        Raises:
            LogEpochError: They are not.
        """
        self._doubts = False
        begins = await self._check_positions(client)
        for partition, position in self._next.items():
            given = self._given.get(partition)
            if given is not None and given.offset >= begins[partition]:
                client.seek(partition, given.offset)
                got: Sequence[Any] = ()
                while not got:
                    got = (await client.getmany(partition, timeout_ms=FETCH_MS, max_records=1)).get(partition, ())
                if _content(got[0]) != _content(given):
                    raise LogEpochError(
                        f"{self._start[partition][0]} has another record at {given.offset} than it gave before",
                        hint="The topic was made anew, or its broker lost records: start again, from what is there now.",
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
    """All that a record of the client's says."""
    return raw.offset, raw.timestamp, raw.key, raw.value, tuple(raw.headers)


async def started(client: Client) -> Client:
    """A client that is connected; one that cannot be is stopped, so that it leaves nothing open."""
    try:
        await client.start()
    except BaseException:
        await client.stop()
        raise
    return client


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
    except (UnicodeDecodeError, AttributeError):  # bytes that are no text, or a header without a value
        return [_doubtful(at, raw) for raw in batch]
    return records


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
