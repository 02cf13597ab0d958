"""Snapshots in a compacted topic: whole or absent, the newest or the one before, in memory and on a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import msgspec
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from structlog.testing import capture_logs
from tests.harness.memory_log import MemoryLog
from tests.harness.system.rig import events_of
from tests.harness.waiting import until

from steepest.app.installation import apply_topics
from steepest.clock import SystemClock
from steepest.errors import InputError, LogEpochError
from steepest.events.cluster import JobAdmitted, JobSpec, JobSubmitted
from steepest.events.loss import JobUnwatched
from steepest.log.base import Log, NewRecord, TopicPartition
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.log.kafka.kafka_snapshots import CHUNK_BYTES, LogSnapshots, SeenSnapshots
from steepest.log.kafka.kafka_topics import SNAPSHOTS, KafkaTopics
from steepest.policies.placement.placer import Placer
from steepest.policies.specon.categorizer import Categorizer
from steepest.runtime.decode import new_record
from steepest.runtime.layout import Layout
from steepest.runtime.recovery import loop_snapshots as kept
from steepest.runtime.recovery.checksum_marks import marks, why_not
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service

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
    """A newly opened store loads the snapshot that was saved last, of any size."""
    store = LogSnapshots(log, AT, "categorizer")
    await store.save(KEY, b"older" * 1000)
    await store.save(KEY, data)

    assert (await LogSnapshots(log, AT, "categorizer").load(KEY))[0] == data


async def test_keys_and_services_are_apart(log: Log) -> None:
    """Each key of each service has its own snapshot, with any characters in it."""
    keys = ["a", "a/0", "a/0/0", "a%2F0", "é"]
    for service in ("one", "two"):
        for key in keys:
            await LogSnapshots(log, AT, service).save(key, f"{service} {key}".encode())

    assert await LogSnapshots(log, AT, "one").keys() == sorted(keys)
    assert [(await LogSnapshots(log, AT, "two").load(key))[0] for key in keys] == [
        f"two {key}".encode() for key in keys
    ]
    assert await LogSnapshots(log, AT, "three").keys() == []
    with pytest.raises(InputError, match="snapshot key"):
        await LogSnapshots(log, AT, "one").save("", b"")


async def test_stores_that_read_together_find_what_each_finds_alone(log: Log) -> None:
    """Also what was kept after the first of them has read, and by another process."""
    seen, at = SeenSnapshots(), TopicPartition(SNAPSHOTS)
    for service in ("one", "other"):
        await LogSnapshots(log, at, service).save("key", service.encode())
    together = {service: LogSnapshots(log, at, service, seen) for service in ("one", "other")}
    before = [await store.load("key") for store in together.values()]
    await LogSnapshots(log, at, "other").save("key", b"newer")

    assert before == [[b"one"], [b"other"]]
    assert await together["one"].load("key") == [b"one"]
    assert await together["other"].load("key") == [b"newer", b"other"]
    assert seen.position == await log.end(at)


@pytest.mark.parametrize("records", [0, 1, 2, 3, 4])
async def test_a_crash_while_saving_leaves_the_snapshot_before(log: Log, records: int) -> None:
    """After any number of records of an unfinished save, the snapshot before it is loaded."""
    store = LogSnapshots(log, AT, "categorizer")
    for number in range(3):
        await store.save(KEY, LARGE[number:])
        doomed = LogSnapshots(dying(log, records), AT, "categorizer")
        with pytest.raises(ConnectionError):
            await doomed.save(KEY, b"never" * 400_000)

        assert (await LogSnapshots(log, AT, "categorizer").load(KEY))[0] == LARGE[number:]


async def test_two_concurrent_writers_leave_a_sound_snapshot(log: Log) -> None:
    """If a second writer has mixed its chunks into a slot, the store logs it and loads the snapshot before."""
    store, late = LogSnapshots(log, AT, "c"), LogSnapshots(log, AT, "c")
    await store.save(KEY, b"first")
    await late.load(KEY)
    await store.save(KEY, b"second")
    late._source = dying(log, 1)
    with pytest.raises(ConnectionError):
        await late.save(KEY, b"a late one")

    with capture_logs() as warnings:
        assert (await LogSnapshots(log, AT, "c").load(KEY))[0] == b"first"
    assert [entry["of"] for entry in warnings] == [f"c/{KEY}"]
    await LogSnapshots(log, AT, "c").save(KEY, b"third")
    assert (await LogSnapshots(log, AT, "c").load(KEY))[0] == b"third"


def dying(log: Log, records: int) -> Log:
    """The log of a writer that dies after that many records."""
    return cast("Log", Dying(log, records))


class Dying:
    """A log that accepts a number of records and then fails."""

    def __init__(self, log: Log, records: int) -> None:
        self._log = log
        self._left = records

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    async def append(self, records: list[NewRecord]) -> object:
        """Take them all, or as many as are left to take, and fail."""
        taken, self._left = records[: self._left], self._left - len(records)
        if self._left < 0:
            if taken:
                await self._log.append(taken)
            raise ConnectionError("the writer is dead")
        return await self._log.append(taken)


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

    assert (await LogSnapshots(log, AT, "c").load(KEY))[0] == LARGE[number - 1 :]
    await log.close()


LAYOUT = Layout(loss_partitions=1)


@pytest.mark.parametrize("gone", ["nothing", "cluster"])
async def test_without_a_snapshot_of_this_version_the_beginning_is_asked_for(
    kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """Where only another version kept snapshots, all is read again; where a pool's beginning is gone, that is refused."""
    await apply_topics(kafka, LAYOUT)
    log = KafkaLog(kafka, {**LAYOUT.partitions(), SNAPSHOTS: 1})
    submitted = JobSubmitted(job="a", request="1", spec=JobSpec(command=("train",)))
    await log.append([new_record(TopicPartition("cluster"), "default", submitted, 1)])
    await log.append([new_record(TopicPartition("loss"), "a", JobUnwatched(job="a"), 1)])
    with monkeypatch.context() as later:
        later.setattr(kept, "VERSION", (99, 99))
        await follow_until_ready(log)
    assert len(await LogSnapshots(log, AT, "all").keys()) == 2

    if gone == "nothing":
        runtime = await follow_until_ready(log)
        records = runtime.metrics.records
        assert records.labels("pool:default")._value.get() == await log.end(TopicPartition("cluster"))
        assert records.labels("categorizer:loss")._value.get() == await log.end(TopicPartition("loss"))
        admitted = [one for one in await events_of(log) if isinstance(one.event, JobAdmitted)]
        assert len(admitted) == 1
    else:
        await KafkaTopics(kafka, LAYOUT.partitions()).trim({TopicPartition(gone): 1})
        with pytest.raises(LogEpochError, match=f"{gone}/0 is kept from 1 on") as caught:
            await follow_until_ready(log)
        assert "snapshots" in caught.value.hint
    await log.close()


async def follow_until_ready(log: KafkaLog) -> Runtime:
    """A placer and a categorizer in one process, until they have read everything; each then keeps a snapshot."""
    service = Service(name="all", cluster_deciders=(Placer,), stream_deciders=(Categorizer,))
    store = LogSnapshots(log, AT, "all")
    runtime = Runtime([service], log=log, layout=LAYOUT, snapshots=store, clock=SystemClock())
    stop = asyncio.Event()
    running = asyncio.create_task(runtime.run(stop))
    await until(lambda: running.done() or runtime.health.is_ready(), "the services to have read everything")
    stop.set()
    await running
    return runtime


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


async def test_a_broker_that_holds_other_records_is_noticed(log: Log) -> None:
    """A snapshot does not match records that others appended in place of lost ones."""
    records = [
        NewRecord(to=AT, key=str(number), value=b"%d" % number, at_ms=1, headers={"id": "x"}) for number in range(3)
    ]
    await log.append(records)
    (mark,) = await marks(log, {AT: 3})
    await log.append(records)

    assert await why_not(log, [mark]) == ""
    assert "other records" in await why_not(log, [msgspec.structs.replace(mark, position=4)])
    assert "ends at 6" in await why_not(log, [msgspec.structs.replace(mark, position=7)])
