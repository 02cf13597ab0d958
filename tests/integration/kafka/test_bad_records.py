"""Records on a real broker that no writer of ours makes: each is a dead letter, and the one after it is read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from steepest.cli.topics import apply_topics
from steepest.clock import SystemClock
from steepest.events.dead_letter import DeadLetter
from steepest.events.loss import JobUnwatched
from steepest.events.registry import encode
from steepest.log.base import TopicPartition
from steepest.log.kafka import KafkaLog
from steepest.log.kafka_settings import KafkaSettings
from steepest.log.snapshots import MemorySnapshots
from steepest.policies.monitor.facts import Facts
from steepest.policies.placement.placer import Placer
from steepest.policies.specon.categorizer import Categorizer
from steepest.runtime.layout import Layout
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service
from steepest.testing.rig import events_of
from steepest.testing.waiting import until

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
    runtime = Runtime(
        [service], log=log, layout=LAYOUT, pool="default", snapshots=MemorySnapshots(), clock=SystemClock()
    )
    stop = asyncio.Event()
    running = asyncio.create_task(runtime.run(stop))
    try:
        await until(lambda: running.done() or runtime.health.is_ready(), "the services to have read everything")
        stop.set()
        await running
        letters = [one.event for one in await events_of(log, TopicPartition("dead-letters"))]
    finally:
        await log.close()

    told = {one.offset: one.reason for one in letters if isinstance(one, DeadLetter) and one.topic == topic}
    assert list(told) == list(range(1, len(BAD) + 1))
    assert all(told.values())
