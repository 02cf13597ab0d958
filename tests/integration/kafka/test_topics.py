"""Topics on a real broker: made once, shown as differences, never given keys that are in other partitions."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from tests.harness.memory_log import MemorySnapshots
from tests.harness.waiting import until

from steepest.app.installation import apply_topics
from steepest.clock import SystemClock
from steepest.errors import InputError, LogEpochError
from steepest.events.cluster import LogOpened
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.log.kafka.kafka_topics import SNAPSHOTS, KafkaTopics
from steepest.runtime.decode import received
from steepest.runtime.layout import Layout
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service

LAYOUT = Layout(loss_partitions=2)


async def admin(kafka: KafkaSettings) -> AIOKafkaAdminClient:
    """A client that does what an operator might do."""
    client = AIOKafkaAdminClient(**kafka.client())
    await client.start()
    return client


async def test_topics_are_made_once_as_they_should_be(kafka: KafkaSettings) -> None:
    """The first time makes every topic, with its partitions, retention and limits; the second finds nothing to do."""
    made = await apply_topics(kafka, LAYOUT)
    topics = KafkaTopics(kafka, LAYOUT.partitions())

    assert {change.topic for change in made} == {*LAYOUT.partitions(), SNAPSHOTS}
    assert {change.what for change in made} == {"create"}
    assert await topics.differences() == []
    assert await topics.apply() == []


async def test_a_partition_has_its_identity_before_any_service_reads_it(kafka: KafkaSettings) -> None:
    """Every partition begins with a ``LogOpened``, also after the topics were applied a second time."""
    await apply_topics(kafka, LAYOUT)
    await apply_topics(kafka, LAYOUT)
    log = KafkaLog(kafka, LAYOUT.partitions())
    partitions = [at for topic in LAYOUT.partitions() for at in LAYOUT.of_topic(topic)]

    ends = [await log.end(at) for at in partitions]
    reader = log.reader(dict.fromkeys(partitions, 0))
    first = [received(record).event for _ in partitions for record in await reader.poll(max_records=1)]

    await reader.close()
    await log.close()
    assert set(ends) == {1}
    assert len(first) == len(partitions)
    assert all(isinstance(event, LogOpened) for event in first)


async def test_what_differs_is_set_right_and_nothing_else(kafka: KafkaSettings) -> None:
    """A setting that an operator changed is shown and put back; a setting that Steepest does not manage stays."""
    await apply_topics(kafka, LAYOUT)
    client = await admin(kafka)
    loss = ConfigResource(
        ConfigResourceType.TOPIC, f"{kafka.prefix}loss", {"retention.ms": "1000", "segment.ms": "77777"}
    )
    await client.alter_configs([loss])

    changed = await KafkaTopics(kafka, LAYOUT.partitions()).apply()

    (answer,) = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, f"{kafka.prefix}loss")])
    configs = {name: value for name, value, *_ in answer.resources[0][4]}
    await client.close()
    assert "retention.ms" in {change.what for change in changed if change.topic == "loss"}
    assert int(configs["retention.ms"]) > 1000
    assert configs["segment.ms"] == "77777"
    assert await KafkaTopics(kafka, LAYOUT.partitions()).differences() == []


async def test_an_empty_topic_may_grow(kafka: KafkaSettings) -> None:
    """As long as no key has a record, more partitions are made, and each gets its identity."""
    await apply_topics(kafka, LAYOUT)
    more = Layout(loss_partitions=5)

    changes = await apply_topics(kafka, more)

    log = KafkaLog(kafka, more.partitions())
    ends = [await log.end(at) for at in more.of_topic("loss")]
    await log.close()
    assert [(change.topic, change.what) for change in changes] == [("loss", "partitions")]
    assert ends == [1, 1, 1, 1, 1]


async def test_keys_with_records_keep_their_partition(kafka: KafkaSettings) -> None:
    """The partition count of a keyed topic that holds records is refused a change, before anything is changed."""
    await apply_topics(kafka, LAYOUT)
    log = KafkaLog(kafka, LAYOUT.partitions())
    await log.append([NewRecord(to=TopicPartition("loss", 1), key="job", value=b"{}", at_ms=1)])
    await log.close()

    for count in (1, 4):
        with pytest.raises(InputError, match="loss: partitions 2"):
            await apply_topics(kafka, Layout(loss_partitions=count))

    assert await KafkaTopics(kafka, LAYOUT.partitions()).differences() == []


async def test_a_recreated_topic_is_noticed(kafka: KafkaSettings) -> None:
    """A service whose snapshot is of a topic that was deleted and recreated stops, and names both identities."""
    await apply_topics(kafka, LAYOUT)
    snapshots = MemorySnapshots()
    await run_until_ready(kafka, snapshots)
    client = await admin(kafka)
    await client.delete_topics([f"{kafka.prefix}cluster"])
    await client.close()
    await apply_topics(kafka, LAYOUT)

    with pytest.raises(LogEpochError, match="cluster/0"):
        await run_until_ready(kafka, snapshots)


async def run_until_ready(kafka: KafkaSettings, snapshots: MemorySnapshots) -> None:
    """Run a service with nothing in it until it has caught up; it keeps a snapshot when it stops."""
    log = KafkaLog(kafka, LAYOUT.partitions())
    runtime = Runtime([Service(name="nothing")], log=log, layout=LAYOUT, snapshots=snapshots, clock=SystemClock())
    stop = asyncio.Event()
    running = asyncio.create_task(runtime.run(stop))
    await until(lambda: running.done() or runtime.health.is_ready(), "the runtime to catch up")
    stop.set()
    try:
        await running
    finally:
        await log.close()


def test_the_command_shows_and_applies(kafka: KafkaSettings, tmp_path: Path) -> None:
    """A dry run shows all that differs and changes nothing; applying does it; then nothing is left to do."""

    def apply(*options: str) -> tuple[int, dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "steepest", "topics", "apply", "--state", str(tmp_path), "--json", *options],
            capture_output=True,
            check=False,
            env={**os.environ, "STEEPEST_KAFKA": kafka.bootstrap, "STEEPEST_KAFKA_PREFIX": kafka.prefix},
        )
        assert done.stdout, done.stderr.decode()
        return done.returncode, json.loads(done.stdout)

    dry = apply("--dry-run")
    wet = apply()

    assert dry[0] == 1
    assert wet[0] == 0
    assert dry[1]["changes"] == wet[1]["changes"] != []
    assert apply("--dry-run") == (0, {"changes": [], "applied": False})
