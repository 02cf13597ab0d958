"""Readers that follow a topic while it is recreated, or while its broker loses data, never continue silently."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.kafka.conftest import HOME

from steepest.errors import LogEpochError
from steepest.log.base import NewRecord, Reader, TopicPartition
from steepest.log.kafka import kafka_reader
from steepest.log.kafka.broker import Broker, missing
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.log.kafka.kafka_topics import KafkaTopics

AT = TopicPartition("cluster")
PARTITIONS = {AT.topic: 1}


def numbered(count: int, *, first: int = 0) -> list[NewRecord]:
    """Records whose values are the numbers from ``first`` on."""
    return [NewRecord(to=AT, key="", value=b"%d" % number, at_ms=1) for number in range(first, first + count)]


async def read(reader: Reader, count: int) -> list[int]:
    """The next ``count`` numbers."""
    found: list[int] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += [int(record.value) for record in await reader.poll()]
    return found


def make(settings: KafkaSettings) -> None:
    """Make the topic."""
    asyncio.run(KafkaTopics(settings, PARTITIONS).apply())


async def _append(settings: KafkaSettings, count: int, first: int) -> None:
    log = KafkaLog(settings, PARTITIONS)
    await log.append(numbered(count, first=first))
    await log.close()


def append(settings: KafkaSettings, count: int, first: int) -> None:
    """Append numbers."""
    asyncio.run(_append(settings, count, first))


async def _delete(settings: KafkaSettings) -> None:
    from aiokafka.admin import AIOKafkaAdminClient  # noqa: PLC0415 - another process needs no more than this

    client = AIOKafkaAdminClient(**settings.client())
    await client.start()
    await client.delete_topics([settings.prefix + AT.topic])
    while settings.prefix + AT.topic in await client.list_topics():  # noqa: ASYNC110 - the broker sends no event
        await asyncio.sleep(0.05)
    await client.close()


def delete(settings: KafkaSettings) -> None:
    """Delete the topic."""
    asyncio.run(_delete(settings))


@asynccontextmanager
async def reading(log: KafkaLog) -> AsyncIterator[kafka_reader.KafkaReader]:
    """A reader from the first record on."""
    reader = log.reader({AT: 0})
    try:
        yield reader
    finally:
        await reader.close()


def meanwhile(settings: KafkaSettings, *calls: str) -> None:
    """Let another process call these of the functions above, and wait without giving the reader a turn."""
    lines = [
        "from tests.integration.kafka.test_live_readers import *",
        f"at = KafkaSettings(bootstrap={settings.bootstrap!r}, prefix={settings.prefix!r})",
        *calls,
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, cwd=Path(__file__).parents[3])


@pytest.fixture
async def log(kafka: KafkaSettings) -> AsyncIterator[KafkaLog]:
    """A topic with three records."""
    await KafkaTopics(kafka, PARTITIONS).apply()
    log = KafkaLog(kafka, PARTITIONS)
    await log.append(numbered(3))
    yield log
    await log.close()


async def test_a_topic_recreated_under_a_reader_is_noticed(
    log: KafkaLog, kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the new topic already has records at the reader's position when the reader checks."""
    monkeypatch.setattr(kafka_reader, "VERIFY_EVERY_S", 0.0)  # each fetch is checked
    async with reading(log) as reader:
        await read(reader, 3)
        meanwhile(kafka, "delete(at)", "make(at)", "append(at, 10, first=100)")
        with pytest.raises(LogEpochError, match="cluster/0 has another record at 2"):
            await read(reader, 1)


async def test_a_broker_that_lost_its_tail_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a loss of power the log ends earlier; others append beyond the reader's position before it is back."""
    monkeypatch.setattr(kafka_reader, "VERIFY_EVERY_S", 3600.0)  # the connection that breaks is enough
    if why := missing(HOME):
        pytest.skip(f"{why}; get it with: make kafka")
    broker = Broker(tmp_path / "broker", home=HOME)
    broker.start()
    try:
        settings = KafkaSettings(bootstrap=broker.bootstrap)
        await KafkaTopics(settings, PARTITIONS).apply()
        log = KafkaLog(settings, PARTITIONS)
        await log.append(numbered(2))
        (segment,) = (broker.folder / "data" / "cluster-0").glob("*.log")
        synced = segment.stat().st_size
        await log.append(numbered(3, first=2))
        async with reading(log) as reader:
            await read(reader, 5)
            broker.stop(9)
            os.truncate(segment, synced)
            for index in (*segment.parent.glob("*.index"), *segment.parent.glob("*.timeindex")):
                index.unlink()
            broker.start()
            meanwhile(settings, "append(at, 10, first=100)")
            with pytest.raises(LogEpochError, match="cluster/0 has another record at 4"):
                await read(reader, 1)
        await log.close()
    finally:
        broker.stop()


async def test_failed_fetches_alone_change_nothing(
    log: KafkaLog, kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that looks back before every fetch sees each record once, also once its last ones were removed."""
    monkeypatch.setattr(kafka_reader, "VERIFY_EVERY_S", -1.0)
    verified = 0
    verify = kafka_reader.KafkaReader._verify

    async def counting(reader: kafka_reader.KafkaReader, client: object) -> None:
        nonlocal verified
        verified += 1
        await verify(reader, client)
        monkeypatch.setattr(kafka_reader, "VERIFY_EVERY_S", 3600.0)

    monkeypatch.setattr(kafka_reader.KafkaReader, "_verify", counting)
    async with reading(log) as reader:
        found = await read(reader, 3)
        for first in (3, 6, 9):
            monkeypatch.setattr(kafka_reader, "VERIFY_EVERY_S", -1.0)
            await log.append(numbered(3, first=first))
            found += await read(reader, 3)
            if first == 6:
                await KafkaTopics(kafka, PARTITIONS).trim({AT: 9})

    assert found == list(range(12))
    assert verified >= 4
