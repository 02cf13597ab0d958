"""Whatever a client does when its broker is killed or suspended, it stops within seconds, and nothing of it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.harness.waiting import until
from tests.integration.kafka.conftest import HOME
from tests.integration.kafka.replicas import Replicas

from steepest.app.installation import apply_topics
from steepest.app.state_folder import Installation, KafkaPlace, NodeSpec, StateFolder
from steepest.events.common import Resources
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.kafka.broker import Broker, missing
from steepest.log.kafka.consumer_group import KafkaAssignment
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.log.kafka.kafka_topics import KafkaTopics

ALL = [TopicPartition("loss", number) for number in range(3)]
PATIENCE_S = 60.0
"""A stop waits for seconds at most: what does not end within this does not end."""

Harm = Callable[[], None]
Client = Callable[[KafkaSettings, Harm], Awaitable[Callable[[], Awaitable[object]]]]
"""Comes into some state, has the broker harmed, and gives its stop."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that these tests may kill."""
    if why := missing(HOME):
        pytest.skip(f"{why}; get it with: make kafka")
    broker = Broker(tmp_path_factory.mktemp("broker"), home=HOME)
    yield broker
    broker.stop(signal.SIGKILL)


@contextlib.contextmanager
def harmed(broker: Broker, number: int) -> Iterator[Harm]:
    """What harms a broker that runs; afterwards it is as it was."""
    broker.start()
    try:
        yield lambda: os.kill(broker.pid, number)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
        if number == signal.SIGKILL:
            broker.stop(signal.SIGKILL)


@contextlib.asynccontextmanager
async def topic(broker: Broker, prefix: str) -> AsyncIterator[KafkaSettings]:
    """A topic of the test's own."""
    settings = KafkaSettings(bootstrap=broker.bootstrap, prefix=prefix)
    await KafkaTopics(settings, {"loss": len(ALL)}).apply()
    yield settings


async def a_reader_that_waits(settings: KafkaSettings, harm: Harm) -> Callable[[], Awaitable[object]]:
    """It has read, and fetches on."""
    log = await filled(settings)
    reader = log.reader(dict.fromkeys(ALL, 0))
    await reader.poll()
    harm()
    await asyncio.sleep(3)
    return lambda: both(reader.close(), log.close())


async def a_reader_that_connects(settings: KafkaSettings, harm: Harm) -> Callable[[], Awaitable[object]]:
    """Its first poll is on its way."""
    log = await filled(settings)
    reader = log.reader(dict.fromkeys(ALL, 0))
    polling = asyncio.create_task(reader.poll())
    await asyncio.sleep(0.02)
    harm()
    await asyncio.sleep(1)
    polling.cancel()
    return lambda: both(polling, reader.close(), log.close())


async def a_producer_that_sends(settings: KafkaSettings, harm: Harm) -> Callable[[], Awaitable[object]]:
    """Its batch is on its way."""
    log = await filled(settings)
    appending = asyncio.create_task(log.append(records(100)))
    await asyncio.sleep(0)
    harm()
    await asyncio.sleep(2)
    appending.cancel()
    return lambda: both(appending, log.close())


async def a_member(settings: KafkaSettings, harm: Harm) -> Callable[[], Awaitable[object]]:
    """It works on its share, and asks whether it still has it."""
    share = KafkaAssignment(settings, ALL, "group")
    await share.take()
    harm()
    asking = asyncio.create_task(share.is_held(ALL[0]))
    await asyncio.sleep(12)  # longer than its session
    asking.cancel()
    share.give_back()
    return lambda: both(asking, share.close())


async def a_member_that_joins(settings: KafkaSettings, harm: Harm) -> Callable[[], Awaitable[object]]:
    """Another one does not give back what it has."""
    first, second = (KafkaAssignment(settings, ALL, "group") for _ in range(2))
    await first.take()
    taking = asyncio.create_task(second.take())
    await asyncio.sleep(2)
    harm()
    await asyncio.sleep(2)
    taking.cancel()
    return lambda: both(taking, second.close(), first.close())


async def filled(settings: KafkaSettings) -> KafkaLog:
    """A log that has records and a producer."""
    log = KafkaLog(settings, {"loss": len(ALL)})
    await log.append(records(5))
    return log


def records(count: int) -> list[NewRecord]:
    """Some records."""
    return [NewRecord(to=ALL[0], key="", value=b"%d" % number, at_ms=1) for number in range(count)]


async def both(*stops: Awaitable[object]) -> None:
    """One after the other; what was cancelled may say so, or why it failed."""
    for stop in stops:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await stop


CLIENTS: Mapping[str, Client] = {
    client.__name__: client
    for client in (a_reader_that_waits, a_reader_that_connects, a_producer_that_sends, a_member, a_member_that_joins)
}


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["suspended", "killed"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_every_client_stops_without_its_broker(own_broker: Broker, client: str, number: int, prefix: str) -> None:
    """Its stop returns, and whatever tasks it leaves end when they are cancelled, as at the end of a process."""
    before = asyncio.all_tasks()
    with harmed(own_broker, number) as harm:
        async with topic(own_broker, prefix) as settings:
            stop = await CLIENTS[client](settings, harm)
            async with asyncio.timeout(PATIENCE_S):
                await stop()
            left = asyncio.all_tasks() - before
            for task in left:
                task.cancel()
            if left:
                _, pending = await asyncio.wait(left, timeout=PATIENCE_S)
                assert not pending


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["suspended", "killed"])
@pytest.mark.parametrize("service", ["placer", "categorizer"])
async def test_a_service_ends_on_sigterm_without_its_broker(
    own_broker: Broker, service: str, number: int, prefix: str, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has read everything, and is a member of its groups, leaves with the status 0."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1000)),)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("STEEPEST_METRICS_PORT", str(port))
    with harmed(own_broker, number) as harm:
        folder.remember_kafka(KafkaPlace(own_broker.bootstrap, prefix))
        await apply_topics(KafkaSettings(bootstrap=own_broker.bootstrap, prefix=prefix), folder.read().layout)
        replicas = Replicas(folder, service)
        try:
            replicas.start()
            await until(lambda: is_ready(port), "the service to be ready", within_s=PATIENCE_S)
            harm()
            await asyncio.sleep(3)
            await asyncio.to_thread(replicas.send, signal.SIGTERM)
        finally:
            replicas.end()


def is_ready(port: int) -> bool:
    """Whether the service has read its partitions."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
        return True
    return False
