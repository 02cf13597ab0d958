"""Records on a real broker that no Steepest writer makes: each is a dead letter, and the one after it is read."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.record.util import calc_crc32c
from tests.harness.memory_log import MemorySnapshots
from tests.harness.system.rig import events_of, read_all
from tests.harness.waiting import until

from steepest.app.installation import apply_topics
from steepest.clock import SystemClock
from steepest.events.dead_letter import DeadLetter
from steepest.events.loss import JobUnwatched
from steepest.events.registry import encode
from steepest.log.base import TopicPartition
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.policies.monitor.facts import Facts
from steepest.policies.placement.placer import Placer
from steepest.policies.specon.categorizer import Categorizer
from steepest.runtime.layout import Layout
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service

GOOD = encode(JobUnwatched(job="a"))
LAYOUT = Layout(loss_partitions=1)
READ = ("cluster", "loss", "heartbeats")

BAD: dict[str, dict[str, Any]] = {
    "no value": {"value": None, "key": b"a"},
    "an empty value": {"value": b""},
    "a key that is no text": {"value": GOOD, "key": b"\xff\xfe"},
    "a header that is no text": {"value": GOOD, "headers": [("id", b"\xff\xfe")]},
    "a header without a value": {"value": b"?", "headers": [("id", None)]},
    "wrong bytes": {"value": b"\xff\xfe\x00"},
    "an unknown type": {"value": b'{"type":"JobTeleported"}', "key": b"nobody"},
    "the largest": {"value": b"x" * (8 << 20)},
}


async def test_a_headers_name_that_is_no_text_stops_no_reader(kafka: KafkaSettings) -> None:
    """Its batch is damaged from there on; what was fetched with it, and what comes after it, is read as it is."""
    await apply_topics(kafka, LAYOUT)
    producer = AIOKafkaProducer(**kafka.client())
    await producer.start()
    for batch in (("before",), ("with it", SPOILT, "behind it"), ("after",)):
        sending = await producer.send_batch(a_batch(producer, batch), f"{kafka.prefix}loss", partition=0)
        await sending
    await producer.stop()
    log = KafkaLog(kafka, LAYOUT.partitions())
    records = await read_all(log, TopicPartition("loss"))
    await log.close()

    assert [record.offset for record in records] == list(range(6))
    assert [record.value for record in records[1:] if not record.damage] == [b"before", b"with it", b"after"]
    assert ["not valid text" in record.damage for record in records] == [False, False, False, True, True, False]


SPOILT = "spoilt"


def a_batch(producer: AIOKafkaProducer, values: Sequence[str]) -> Any:
    """A batch of these values; the spoilt one has a header whose name is not UTF-8, which no client would write."""
    batch = producer.create_batch()
    for value in values:
        headers = [(SPOILT, b"x")] if value == SPOILT else []
        batch.append(key=b"a", value=value.encode(), timestamp=1, headers=headers)
    build = batch._build

    def spoil() -> bytearray:
        data = bytearray(build())
        # The name stands behind the value, which reads the same; the checksum covers all from byte 21 on.
        at = data.rfind(SPOILT.encode())
        if at >= 0:
            data[at : at + 2] = b"\xff\xfe"
            data[17:21] = struct.pack(">I", calc_crc32c(bytes(data[21:])))
        return data

    batch._build = spoil
    return batch


@pytest.mark.parametrize("topic", READ)
async def test_every_bad_record_is_a_letter_and_the_reader_goes_on(kafka: KafkaSettings, topic: str) -> None:
    """One letter a record, with its place and a reason, from services that are ready all the time."""
    await apply_topics(kafka, LAYOUT)
    producer = AIOKafkaProducer(**kafka.client(), max_request_size=9 << 20)
    await producer.start()
    for bad in BAD.values():
        await producer.send_and_wait(kafka.prefix + topic, partition=0, **bad)
    await producer.stop()
    log = KafkaLog(kafka, LAYOUT.partitions())
    service = Service(name="all", cluster_deciders=(Placer,), stream_deciders=(Categorizer, Facts))
    runtime = Runtime([service], log=log, layout=LAYOUT, snapshots=MemorySnapshots(), clock=SystemClock())
    stop = asyncio.Event()
    running = asyncio.create_task(runtime.run(stop))
    try:
        await until(lambda: running.done() or runtime.health.is_ready(), "the services to have read everything")
        stop.set()
        await running
        letters = [one.event for one in await events_of(log, TopicPartition("dead-letters"))]
    finally:
        await log.close()

    reasons = {one.offset: one.reason for one in letters if isinstance(one, DeadLetter) and one.topic == topic}
    assert list(reasons) == list(range(1, len(BAD) + 1))
    assert all(reasons.values())
