"""Topics whose oldest records a broker has removed: every service starts again, from its snapshot or from what is left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.chaos.system import KafkaSystem
from tests.harness.system.fake_cluster import FakeCluster
from tests.harness.system.fake_nodes import FakeNodes
from tests.harness.system.rig import context_on, events_of
from tests.harness.waiting import until

from steepest.app.installation import apply_topics
from steepest.app.installed_services import installed_services
from steepest.app.settings.tree import Settings
from steepest.clock import SystemClock
from steepest.errors import LogEpochError
from steepest.events.cluster import JobAdmitted, JobSpec, JobSubmitted, LogOpened
from steepest.events.common import Resources
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.loss import JobUnwatched
from steepest.log.base import Log, TopicPartition
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.log.kafka.kafka_snapshots import LogSnapshots
from steepest.log.kafka.kafka_topics import SNAPSHOTS, KafkaTopics
from steepest.mqtt.settings import MqttSettings
from steepest.runtime.decode import new_record
from steepest.runtime.effector import Effector
from steepest.runtime.layout import Layout
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service

LAYOUT = Layout(loss_partitions=2)
CLUSTER, LETTERS = TopicPartition("cluster"), TopicPartition("dead-letters")
NEVER_TRIMMED = ("cluster",)
"""The topics that no age limit applies to."""


class Idle(Effector):
    """Stands for a service's effectors, which have no part in where it begins."""

    name = "idle"


def deciding(folder: Path, log: Log) -> list[Service]:
    """Every installed service without its effectors."""
    clock = SystemClock()
    cluster = FakeCluster(FakeNodes({}, folder / "nodes", clock), "default", clock)
    context = context_on(folder, log, cluster, clock, settings=Settings(mqtt=MqttSettings(broker="broker:1883")))
    services = [build(context) for build in installed_services().values()]
    return [msgspec.structs.replace(service, effectors=lambda _: (Idle(),)) for service in services]


@asynccontextmanager
async def following(folder: Path, log: Log) -> AsyncIterator[dict[str, Runtime]]:
    """Every service as a process would run it, ready; each keeps its snapshots at the end."""
    stop = asyncio.Event()
    runtimes = {
        service.name: Runtime(
            [service],
            log=log,
            layout=LAYOUT,
            snapshots=LogSnapshots(log, TopicPartition(SNAPSHOTS), service.name),
            clock=SystemClock(),
        )
        for service in deciding(folder, log)
    }
    running = [asyncio.create_task(runtime.run(stop)) for runtime in runtimes.values()]
    try:
        await until(
            lambda: any(task.done() for task in running) or all(one.health.is_ready() for one in runtimes.values())
        )
        yield runtimes
    finally:
        stop.set()
        ended = await asyncio.gather(*running, return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException):
            raise error


@pytest.fixture
async def log(kafka: KafkaSettings) -> AsyncIterator[KafkaLog]:
    """New topics, with unread records in each partition."""
    await apply_topics(kafka, LAYOUT)
    log = KafkaLog(kafka, {**LAYOUT.partitions(), SNAPSHOTS: 1})
    beat = NodeHeartbeat(pool="default", node="n1", at_ms=1, capacity=Resources(1000))
    await log.append([new_record(TopicPartition("heartbeats"), "n1", beat, 1)])
    await log.append([new_record(LETTERS, "x", LogOpened(epoch="x"), 1)])
    for at in LAYOUT.of_topic("loss"):
        await log.append([new_record(at, "a", JobUnwatched(job="a"), 1)])
    await submit(log, "first")
    yield log
    await log.close()


async def submit(log: Log, job: str) -> None:
    """Ask the pool for a job."""
    submitted = JobSubmitted(job=job, request=job, spec=JobSpec(command=("train",)))
    await log.append([new_record(CLUSTER, "default", submitted, 1)])


async def admitted(log: Log, job: str) -> int:
    """How often a job was admitted."""
    return sum(isinstance(one.event, JobAdmitted) and one.event.job == job for one in await events_of(log))


async def age(log: Log, kafka: KafkaSettings) -> None:
    """Let every topic that has an age limit lose all its records."""
    aged = [at for topic in LAYOUT.partitions() if topic not in NEVER_TRIMMED for at in LAYOUT.of_topic(topic)]
    await KafkaTopics(kafka, LAYOUT.partitions()).trim({at: await log.end(at) for at in aged})


async def test_every_service_goes_on_after_a_quiet_time_beyond_retention(
    log: KafkaLog, kafka: KafkaSettings, tmp_path: Path
) -> None:
    """With snapshots, nothing but their position is needed: topics may be empty, and ``cluster`` cut off behind them."""
    async with following(tmp_path, log) as before:
        await until(
            lambda: all(
                "first" in one.pools["default"].view.jobs
                for one in before.values()
                if one.pools["default"].view.position
            )
        )
    reached = min(one.pools["default"].view.position for one in before.values() if one.pools["default"].view.position)
    await age(log, kafka)
    await KafkaTopics(kafka, LAYOUT.partitions()).trim({CLUSTER: reached})
    async with following(tmp_path, log) as again:
        await submit(log, "second")
        placer = again["placer"].pools["default"]
        await until(lambda: "second" in placer.view.jobs and placer.view.jobs["second"].admitted)

        assert "first" in placer.view.jobs
        assert placer.view.state.gaps == 0
        assert placer.view.state.epoch == before["placer"].pools["default"].view.state.epoch != ""
        assert [
            one.metrics.missed.labels(loop)._value.get() for one in again.values() for loop in one.health.loops
        ] == [0] * sum(len(one.health.loops) for one in again.values())


async def test_every_service_starts_without_a_snapshot(log: KafkaLog, kafka: KafkaSettings, tmp_path: Path) -> None:
    """Where no snapshot was ever kept, each begins with what is left of its topic and of those it looks for letters in."""
    await age(log, kafka)
    async with following(tmp_path, log) as runtimes:
        await submit(log, "second")
        placer = runtimes["placer"].pools["default"]
        await until(lambda: "second" in placer.view.jobs and placer.view.jobs["second"].admitted)
        missed = runtimes["categorizer"].metrics.missed.labels("categorizer:loss")._value.get()

    assert missed == 2 * len(LAYOUT.of_topic("loss"))
    assert await admitted(log, "first") == await admitted(log, "second") == 1


async def test_no_service_guesses_a_pool(log: KafkaLog, kafka: KafkaSettings, tmp_path: Path) -> None:
    """Without snapshots and without the beginning of ``cluster``, the message names the offset and the remedy."""
    await submit(log, "second")
    await KafkaTopics(kafka, LAYOUT.partitions()).trim({CLUSTER: 2})
    with pytest.raises(LogEpochError, match="cluster/0 is kept from 2 on") as caught:
        async with following(tmp_path, log):
            pass
    assert "snapshots" in caught.value.hint


async def test_processes_that_open_new_topics_at_once_are_one_installation(
    kafka: KafkaSettings, tmp_path: Path
) -> None:
    """Each partition has as many openings as processes; the first one's counts, for every service, now and later."""
    await KafkaTopics(kafka, LAYOUT.partitions()).apply()
    handles = [KafkaLog(kafka, {**LAYOUT.partitions(), SNAPSHOTS: 1}) for _ in range(3)]
    for handle in handles:
        await handle.end(CLUSTER)  # connects
    await asyncio.gather(*(open_partitions(handle, LAYOUT, SystemClock()) for handle in handles))
    log = handles[0]
    opened = [one.event.epoch for one in await events_of(log)]
    assert len(opened) > 1, "they did not meet"
    for name in ("first", "second"):
        async with following(tmp_path, log) as runtimes:
            placer = runtimes["placer"].pools["default"]
            await submit(log, name)
            await until(lambda: name in placer.view.jobs and placer.view.jobs[name].admitted)  # noqa: B023
            assert {
                one.pools["default"].view.state.epoch for one in runtimes.values() if one.pools["default"].view.position
            } == {opened[0]}
    for handle in handles:
        await handle.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_pool_is_cut_off_behind_its_snapshots(kafka: KafkaSettings, tmp_path: Path) -> None:
    """The command refuses until every service has kept a snapshot; what it removes, no command and no service misses."""
    system = KafkaSystem(tmp_path / "state", kafka, "--node", "n1=0.5")
    try:
        await system.start()
        assert system.ask("submit", "--name", "one", "--", "true")["state"] == "admitted"
        refused = system.plain("topics", "trim", "--keep", "1ms")
        assert refused.returncode == 2
        assert "has kept no snapshot" in refused.stderr
        assert await asyncio.to_thread(system.stop) == 0
        while "has kept no snapshot" in system.plain("topics", "trim", "--keep", "7d").stderr:
            await system.start()  # one of the services had not started yet when the stop arrived
            assert system.call("submit", "--wait", "--", "true").returncode == 0
            assert await asyncio.to_thread(system.stop) == 0
        recording = tmp_path / "recording"
        assert system.call("record", "--out", str(recording)).returncode == 0

        kept = trimmed(system, "7d")
        assert kept["before"] == kept["begin"] == 0
        dry = trimmed(system, "1ms", "--dry-run")
        done = trimmed(system, "1ms")
        again = trimmed(system, "1ms")
        assert dry == {**done, "applied": False}
        assert again["begin"] == done["before"] > done["begin"] == 0

        await system.start()
        assert "one" in {job["job"] for job in system.ask("jobs", "--all")}
        assert system.ask("submit", "--name", "two", "--", "true")["state"] == "admitted"
        assert "two" in system.call("events", "--type", "JobAdmitted").stdout
        refused = system.call("explain", "one")
        assert refused.returncode == 2
        assert f"kept from {done['before']} on" in refused.stderr
        assert await asyncio.to_thread(system.stop) == 0
        assert system.call("record", "--out", str(recording)).returncode == 0
        assert system.plain("replay", str(recording)).returncode == 0
    finally:
        await asyncio.to_thread(system.end)


def trimmed(system: KafkaSystem, keep: str, *options: str) -> Any:
    """The command's report of what it removed."""
    done = system.plain("topics", "trim", "--keep", keep, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
