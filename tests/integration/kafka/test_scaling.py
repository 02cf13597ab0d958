"""Several processes of one service: members join, leave and are killed, and what they write is what a single one would.

Categorizers share the partitions of ``loss``, worker-monitors the pools.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.chaos.load import Load
from tests.harness.system.rig import events_of
from tests.integration.kafka.replicas import Replicas

from steepest.app.installation import apply_topics, open_log
from steepest.app.pool_changes import apply_pools
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import Installation, KafkaPlace, NodeSpec, PoolSpec, StateFolder
from steepest.events.cluster import PoolConfigured, Tick
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.log.base import Log, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.replay.compare import Report
from steepest.replay.record import record
from steepest.replay.replay import Replay
from steepest.runtime.decision_stream import Found
from steepest.runtime.decode import new_record, received
from steepest.runtime.layout import Layout
from steepest.runtime.recovery.decision_scan import note

CLUSTER = TopicPartition("cluster")
PATIENCE_S = 60.0


@pytest.fixture
def installation(tmp_path: Path, kafka: KafkaSettings) -> StateFolder:
    """A new installation of three pools."""
    folder = StateFolder(tmp_path / "state")
    pools = tuple(PoolSpec(name=name, nodes=(NodeSpec(f"{name}-1", Resources(1000)),)) for name in ("blue", "green"))
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1000)),), pools=pools))
    folder.remember_kafka(KafkaPlace(kafka.bootstrap, kafka.prefix))
    return folder


@pytest.fixture
def categorizers(installation: StateFolder) -> Iterator[Replicas]:
    """No categorizer runs yet."""
    found = Replicas(installation, "categorizer")
    yield found
    found.end()


@pytest.fixture
def monitors(installation: StateFolder) -> Iterator[Replicas]:
    """No worker-monitor runs yet."""
    found = Replicas(installation, "worker-monitor")
    yield found
    found.end()


@pytest.mark.slow
async def test_members_come_and_go_without_a_trace(
    categorizers: Replicas, installation: StateFolder, kafka: KafkaSettings, tmp_path: Path
) -> None:
    """Under load, members join, one leaves, one is killed: replayed, every decision is there once, byte for byte."""
    layout = installation.read().layout
    await apply_topics(kafka, layout)
    log = open_log(read_settings({"state_dir": installation.root}), installation.read())
    stop = asyncio.Event()
    load = Load(log, layout, ("default",))
    loading = asyncio.create_task(load.run(stop))

    categorizers.start()
    await until_it_works(log)
    for act in (
        categorizers.start,
        categorizers.start,
        lambda: categorizers.send(signal.SIGKILL),
        categorizers.start,
        lambda: categorizers.send(signal.SIGTERM),
        lambda: categorizers.send(signal.SIGKILL),
    ):
        await asyncio.to_thread(act)
        await until_it_works(log)
    stop.set()
    await loading

    report = await until_all_is_decided(log, tmp_path / "recording", layout.partitions())
    await log.close()
    assert report.decisions > 100
    assert report.first_difference is None
    assert set(report.by_decider) == {"categorizer"}


TAKE_OVER_S = 30.0
"""The session of a dead member ends after 6 s, and its successor then reads its snapshots: 10 s on a machine at rest."""


@pytest.mark.slow
async def test_the_pools_of_a_killed_replica_are_taken_over(
    monitors: Replicas, installation: StateFolder, kafka: KafkaSettings
) -> None:
    """Two replicas write the clocks of three pools, each pool's by one of them; one is killed, and the other goes on."""
    layout = installation.read().layout
    await apply_topics(kafka, layout)
    log = open_log(read_settings({"state_dir": installation.root}), installation.read())
    try:
        for pool in layout.pools:
            configured = PoolConfigured(parameters=PoolParameters(tick_ms=200))
            await log.append([new_record(layout.of_pool(pool), pool, configured, 1)])
        monitors.start()
        await until_all_tick(log, layout)
        monitors.start()
        await until_all_tick(log, layout)
        began = time.monotonic()
        await asyncio.to_thread(monitors.send, signal.SIGKILL)
        await until_all_tick(log, layout)
        took_s = time.monotonic() - began
        assert took_s < TAKE_OVER_S
        for pool in layout.pools:
            counted = await counted_ms(log, layout.of_pool(pool))
            assert counted == sorted(counted), f"two have written the clock of {pool}"
    finally:
        await log.close()


@pytest.mark.slow
async def test_a_pool_that_is_added_meanwhile_is_taken_over(
    monitors: Replicas, installation: StateFolder, kafka: KafkaSettings
) -> None:
    """Two replicas write the clocks of three pools, then of a fourth, each pool's by one of them, in the same processes."""
    first = installation.read().layout
    await apply_topics(kafka, first)
    monitors.start()
    monitors.start()
    log = open_log(read_settings({"state_dir": installation.root}), installation.read())
    try:
        for pool in first.pools:
            configured = PoolConfigured(parameters=PoolParameters(tick_ms=200))
            await log.append([new_record(first.of_pool(pool), pool, configured, 1)])
        await until_all_tick(log, first)
    finally:
        await log.close()

    settings = read_settings({"state_dir": installation.root})
    grown = await apply_pools(settings, [PoolSpec(name="red", nodes=(NodeSpec("red-1", Resources(1000)),))])
    log = open_log(settings, grown)
    try:
        await until_all_tick(log, grown.layout)
        for pool in grown.layout.pools:
            counted = await counted_ms(log, grown.layout.of_pool(pool))
            assert counted == sorted(counted), f"two have written the clock of {pool}"
    finally:
        await log.close()
    assert [process.poll() for process in monitors.running] == [None, None]


async def until_all_tick(log: Log, layout: Layout) -> None:
    """Wait until the clock of each pool has gone on three times from now on."""
    ticks = dict.fromkeys(layout.of_topic("cluster"), 0)
    reader = log.reader({at: await log.end(at) for at in ticks})
    try:
        async with asyncio.timeout(PATIENCE_S):
            while min(ticks.values()) < 3:
                for one in await reader.poll():
                    ticks[one.at] += isinstance(received(one).event, Tick)
    finally:
        await reader.close()


async def counted_ms(log: Log, at: TopicPartition) -> list[int]:
    """The counted times of a pool's ticks."""
    return [one.event.counted_ms for one in await events_of(log, at) if isinstance(one.event, Tick)]


async def until_it_works(log: Log) -> None:
    """Wait until something has been decided about every partition from now on."""
    position = await log.end(CLUSTER)
    found: Found = {}
    reader = log.reader({CLUSTER: position})
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < 4:
            for one in await reader.poll():
                note(found, one)
    await reader.close()


async def until_all_is_decided(log: Log, folder: Path, partitions: Mapping[str, int]) -> Report:
    """Record what is there until a replay decides nothing more than was recorded."""
    into = FileLog(folder, partitions)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async for _ in record(log, into):
                pass
            report = await Replay(into).run()
            if not report.not_yet_recorded:
                await into.close()
                return report
            await asyncio.sleep(0.5)
