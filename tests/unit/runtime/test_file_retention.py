"""A log in files that is trimmed while services come and go: what they decide is what they decide over the whole log."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.harness.examples import scaled
from tests.harness.system.fake_cluster import FakeCluster
from tests.harness.system.rig import AT, POOL, Rig, context_on
from tests.harness.virtual_time import VirtualLoop
from tests.harness.waiting import until

from steepest.app.installed_services import installed_services
from steepest.app.settings.tree import RetentionSettings
from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import ID, SEQUENCE, SOURCE
from steepest.log.base import DAY_MS, RETENTION_MS, NewRecord, Record, TopicPartition
from steepest.log.files import partition_file
from steepest.log.files.file_log import FileLog
from steepest.log.kafka.kafka_topics import BY_TOPIC
from steepest.log.snapshot_store import FolderSnapshots
from steepest.runtime import pool_loop, stream_loop
from steepest.runtime.decode import new_record
from steepest.runtime.recovery.trimming import keep_trimmed
from steepest.runtime.service import Service

NAMES = ("placer", "categorizer", "worker-monitor", "node-scorer", "rebalancer", "migrator", "log-collector")
Limits = Callable[[str, int], tuple[int, float]]


class RigLog(FileLog):
    """A log in files, of which each process of a rig opens a handle of its own."""

    def reopen(self) -> FileLog:
        """Another handle."""
        return FileLog.open(self.folder)


@pytest.fixture(autouse=True)
def small_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are indexed and snapshots kept after a few records; no thread's speed decides in which order records come."""

    async def at_once(work: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        return work(*arguments, **more)

    monkeypatch.setattr(partition_file, "CHUNK_BYTES", 2_000)
    monkeypatch.setattr(pool_loop, "SNAPSHOT_EVERY", 20)
    monkeypatch.setattr(stream_loop, "SNAPSHOT_EVERY", 20)
    monkeypatch.setattr(asyncio, "to_thread", at_once)


@contextlib.asynccontextmanager
async def rig_in(folder: Path) -> AsyncIterator[Rig]:
    """A rig over files."""
    async with contextlib.aclosing(Rig(folder, {"n1": 300, "n2": 300})) as rig:
        rig.log = RigLog(folder / "log", rig.layout.partitions())  # type: ignore[assignment]
        yield rig
        await rig.log.close()


async def trimmed_once(rig: Rig, services: list[Service], snapshots: Any, limits: Limits) -> None:
    """What ``up`` does every hour, once."""
    log: Any = rig.log
    began = rig.clock.now_ms()
    trimming = asyncio.create_task(keep_trimmed(log, rig.layout, services, snapshots, limits=limits, clock=rig.clock))
    await rig.clock.sleep(1)
    assert not trimming.done()
    trimming.cancel()
    await asyncio.gather(trimming, return_exceptions=True)
    assert rig.clock.now_ms() - began < 2_000


async def whole_life(folder: Path, seed: int, *, trims: bool) -> tuple[list[Any], dict[str, int]]:
    """Rounds of a system that is stopped and started; all that it has decided, and where each partition begins."""
    draw, found = random.Random(seed), dict[int, Record]()
    async with rig_in(folder) as rig:
        snapshots = FolderSnapshots(folder / "snapshots")
        context = context_on(folder, rig.log, FakeCluster(rig.nodes, POOL, rig.clock), rig.clock)
        services = [installed_services()[name](context) for name in NAMES]
        process, steps = rig.start(*NAMES, rig.beats(), snapshots=snapshots), itertools.count()
        for number in range(4):
            await until(process.runtime.health.is_ready)
            for job in range(draw.randint(0, 2)):
                await rig.submit(f"job-{number}-{job}", f"--steps={draw.choice((5, 400))}")
            for _ in range(draw.randint(0, 20)):
                await rig.log.append([loss(rig, next(steps))])
                await rig.clock.sleep(draw.choice((0, 0.5, 3)))
            if draw.random() < 1 / 2:
                await process.stop()
            else:
                process.kill()  # its newest snapshot stands for some of what it has read
            begin = await rig.log.begin(AT)
            found |= {one.offset: one for one in await everything(rig.log, AT) if one.offset >= begin}
            age_ms, size = draw.choice((0, 5_000, 10**9)), draw.choice((0.0, 4_000.0, float("inf")))
            if trims:
                await trimmed_once(rig, services, snapshots, partial(limited, age_ms, size))
            else:
                await rig.clock.sleep(1)
            process = rig.start(*NAMES, rig.beats(), snapshots=snapshots)
        await until(process.runtime.health.is_ready)
        await process.stop()
        found |= {one.offset: one for one in await everything(rig.log, AT)}
        begins = {
            str(at): await rig.log.begin(at) for topic in rig.layout.partitions() for at in rig.layout.of_topic(topic)
        }
        assert process.view.state.gaps == 0
    return [decided(found[offset]) for offset in sorted(found)], begins


def loss(rig: Rig, step: int) -> NewRecord:
    """The next record of a job that reports every second and hardly learns any more."""
    parameters = SpeConParameters(interval_ms=2_000)
    watched = JobWatched(job="a", pool=POOL, incarnation=1, metric="loss", parameters=parameters)
    event = LossReported(job="a", incarnation=1, step=step, value=1 / (10 + step)) if step else watched
    headers = {SOURCE: "s", SEQUENCE: str(step)}
    return new_record(rig.layout.of_key("loss", "a"), "a", event, rig.clock.now_ms(), headers)


def limited(age_ms: int, size: float, _: str, now_ms: int) -> tuple[int, float]:
    """The same limits for every topic."""
    return max(0, now_ms - age_ms), size


async def everything(log: Any, at: TopicPartition) -> list[Record]:
    """All records that are left."""
    reader, found = log.reader({at: await log.begin(at)}), list[Record]()
    while records := await reader.poll(timeout_s=0):
        found += records
    await reader.close()
    return found


def decided(record: Record) -> tuple[Any, ...]:
    """A record without its place and the log's own name, which is drawn.

    The progress of jobs is left out: it is known once their output is read again, before the first heartbeat or after it.
    """
    value = re.sub(rb',"progress":\[.*?\]', b"", record.value)
    return record.headers.get(ID, "").split("/")[:1], b"epoch" in value or value


def writer_of(one: tuple[Any, ...]) -> str:
    """The decider that a record is of; empty for what others write."""
    return str(one[0][0])


@pytest.mark.parametrize("seed", range(scaled(12)))
def test_whatever_is_trimmed_a_restart_decides_the_same(seed: int, tmp_path: Path) -> None:
    """By any age and size, of every topic: the decisions are those over the whole log, in the same order of each writer."""
    lives = []
    for trims in (False, True):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:  # in each the clock begins again
            lives.append(runner.run(whole_life(tmp_path / str(trims), seed, trims=trims)))
    (whole, begins), (cut, cut_begins) = lives
    assert not any(begins.values())
    assert sorted(cut, key=writer_of) == sorted(whole, key=writer_of)
    assert {writer_of(one) for one in whole} >= {"placer", "worker-monitor", "categorizer"}
    assert seed or all(cut_begins.values())


def test_the_defaults_are_those_of_the_topics_on_kafka() -> None:
    """A pool's log is kept whole; of the other topics, records are kept as long as on a broker, and of any size."""
    for topic, kafka in BY_TOPIC.items():
        since_ms, most_bytes = RetentionSettings().of(topic, 1_000 * DAY_MS)
        kept_ms = 1_000 * DAY_MS - since_ms if since_ms else -1
        assert (kafka["retention.ms"], most_bytes) == (str(kept_ms), float("inf"))
    assert RETENTION_MS.keys() <= BY_TOPIC.keys()


def test_a_topic_that_is_not_named_is_kept_whole() -> None:
    """What is set takes the place of the defaults; a record is too old once it is older than that."""
    limits = RetentionSettings(ms=("cluster=1000",), bytes=("loss=4096",))
    assert limits.of("cluster", 5_000) == (4_000, float("inf"))
    assert limits.of("loss", 5_000) == (0, 4096.0)
    assert limits.of("heartbeats", 5_000) == (0, float("inf"))


async def test_without_a_snapshot_nothing_goes(tmp_path: Path) -> None:
    """A service that has kept none would ask for the first record: everything else that can be trimmed still is."""
    async with rig_in(tmp_path) as rig:
        process = rig.start("placer", "worker-monitor", rig.beats())
        await until(process.runtime.health.is_ready)
        await rig.clock.sleep(30)
        context = context_on(tmp_path, rig.log, FakeCluster(rig.nodes, POOL, rig.clock), rig.clock)
        services = [installed_services()[name](context) for name in ("placer", "worker-monitor")]
        await trimmed_once(rig, services, FolderSnapshots(tmp_path / "none"), partial(limited, 0, 0.0))
        begins = {
            str(at): await rig.log.begin(at) for topic in rig.layout.partitions() for at in rig.layout.of_topic(topic)
        }

    assert begins == {"cluster/0": 0, "loss/0": 1, "loss/1": 1, "heartbeats/0": 0, "dead-letters/0": 1}
