"""Snapshots in a compacted topic: whole or absent, the newest or the one before, in memory and on a real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from structlog.testing import capture_logs

from steepest.errors import InputError
from steepest.log.base import Log, NewRecord, TopicPartition
from steepest.log.kafka import KafkaLog
from steepest.log.kafka_settings import KafkaSettings
from steepest.log.kafka_snapshots import CHUNK_BYTES, LogSnapshots
from steepest.log.kafka_topics import SNAPSHOTS, KafkaTopics
from steepest.log.memory import MemoryLog

AT = TopicPartition(SNAPSHOTS)
LARGE = bytes(range(256)) * 8192
KEY = "categorizer-loss-0"


@pytest.fixture(params=["memory", "kafka"])
async def log(request: pytest.FixtureRequest) -> AsyncIterator[Log]:
    """An empty partition for snapshots, on each kind of log."""
    if request.param == "memory":
        yield MemoryLog({SNAPSHOTS: 1})
        return
    kafka = request.getfixturevalue("kafka")
    await KafkaTopics(kafka, {}).apply()
    log = KafkaLog(kafka, {SNAPSHOTS: 1})
    yield log
    await log.close()


@pytest.mark.parametrize("data", [b"", b"x", LARGE[:CHUNK_BYTES], LARGE], ids=["empty", "small", "a chunk", "2 MiB"])
async def test_a_snapshot_comes_back_as_it_was(log: Log, data: bytes) -> None:
    """What was saved last is loaded by whoever opens the store next, of whatever size."""
    store = LogSnapshots(log, AT, "categorizer")
    await store.save(KEY, b"older" * 1000)
    await store.save(KEY, data)

    assert await LogSnapshots(log, AT, "categorizer").load(KEY) == data


async def test_keys_and_services_are_apart(log: Log) -> None:
    """Each key of each service has its own snapshot, whatever signs it is made of."""
    keys = ["a", "a/0", "a/0/0", "a%2F0", "é"]
    for service in ("one", "two"):
        for key in keys:
            await LogSnapshots(log, AT, service).save(key, f"{service} {key}".encode())

    assert await LogSnapshots(log, AT, "one").keys() == sorted(keys)
    assert [await LogSnapshots(log, AT, "two").load(key) for key in keys] == [f"two {key}".encode() for key in keys]
    assert await LogSnapshots(log, AT, "three").keys() == []
    with pytest.raises(InputError, match="snapshot key"):
        await LogSnapshots(log, AT, "one").save("", b"")


@pytest.mark.parametrize("appends", [0, 1, 2, 3, 4])
async def test_who_dies_while_saving_leaves_the_one_before(log: Log, appends: int) -> None:
    """After any number of records of a save that never ended, the snapshot before it is given."""
    store = LogSnapshots(log, AT, "categorizer")
    for number in range(3):
        await store.save(KEY, LARGE[number:])
        doomed = LogSnapshots(dying(log, appends), AT, "categorizer")
        with pytest.raises(ConnectionError):
            await doomed.save(KEY, b"never" * 400_000)

        assert await LogSnapshots(log, AT, "categorizer").load(KEY) == LARGE[number:]


async def test_two_writers_at_once_leave_a_sound_one(log: Log) -> None:
    """Where a second writer has mixed its chunks into a slot, that is told, and the one before is given."""
    store, late = LogSnapshots(log, AT, "c"), LogSnapshots(log, AT, "c")
    await store.save(KEY, b"first")
    await late.load(KEY)
    await store.save(KEY, b"second")
    late._source = dying(log, 1)
    with pytest.raises(ConnectionError):
        await late.save(KEY, b"a late one")

    with capture_logs() as told:
        assert await LogSnapshots(log, AT, "c").load(KEY) == b"first"
    assert [entry["of"] for entry in told] == [f"c/{KEY}"]
    await LogSnapshots(log, AT, "c").save(KEY, b"third")
    assert await LogSnapshots(log, AT, "c").load(KEY) == b"third"


def dying(log: Log, appends: int) -> Log:
    """The log of somebody who dies after so many appends."""
    return cast("Log", Dying(log, appends))


class Dying:
    """A log that takes so many appends and no more."""

    def __init__(self, log: Log, appends: int) -> None:
        self._log = log
        self._left = appends

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    async def append(self, records: list[NewRecord]) -> object:
        """Take it, or fail."""
        if not self._left:
            raise ConnectionError("the writer is dead")
        self._left -= 1
        return await self._log.append(records)


async def test_compaction_keeps_what_counts(kafka: KafkaSettings) -> None:
    """Once Kafka has removed what was replaced, the newest snapshot and the one before it are still whole."""
    await KafkaTopics(kafka, {}).apply()
    admin = AIOKafkaAdminClient(**kafka.client())
    await admin.start()
    eager = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "segment.bytes": str(1 << 20),
        "min.cleanable.dirty.ratio": "0.01",
    }
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, f"{kafka.prefix}{SNAPSHOTS}", eager)])
    await admin.close()
    log = KafkaLog(kafka, {SNAPSHOTS: 1})
    store = LogSnapshots(log, AT, "c")

    number = 0
    while await records(log) >= await log.end(AT):
        await store.save(KEY, LARGE[number:])
        number += 1

    assert await LogSnapshots(log, AT, "c").load(KEY) == LARGE[number - 1 :]
    await log.close()


async def records(log: KafkaLog) -> int:
    """How many records the topic really holds; less than its end once some were removed."""
    end, count = await log.end(AT), 0
    reader = log.reader({AT: 0})
    position = 0
    while position < end:
        for record in await reader.poll():
            count, position = count + 1, record.offset + 1
    await reader.close()
    return count
