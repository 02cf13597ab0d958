"""Clients of Kafka stop within a limit, even if their own stop hangs; a service without its broker ends on SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError
from tests.harness.waiting import until
from tests.integration.kafka.replicas import Replicas

from steepest.app.state_folder import Installation, KafkaPlace, NodeSpec, StateFolder
from steepest.events.common import Resources
from steepest.log.kafka import clients, kafka_reader
from steepest.log.kafka.kafka_settings import KafkaSettings


@pytest.fixture
def stuck() -> asyncio.Event:
    """Set, it ends a client's stop that nothing else ends."""
    return asyncio.Event()


async def stop_that_never_returns(stuck: asyncio.Event) -> None:
    """A client that waits for a task of its own whose broker has died, and suppresses each cancellation."""
    while not stuck.is_set():
        try:
            await stuck.wait()
        except asyncio.CancelledError:
            continue


class Connections:
    """What holds a client's connections."""

    def __init__(self) -> None:
        self.are_closed = False

    async def close(self) -> None:
        """Close them."""
        self.are_closed = True


async def fail() -> None:
    """There is no broker."""
    raise KafkaConnectionError("no broker")


class Client:
    """A client that stops and starts as is given."""

    def __init__(
        self, stop: Callable[[], Coroutine[None, None, None]], start: Callable[[], Coroutine[None, None, None]] = fail
    ) -> None:
        self.stop = stop
        self.start = start
        self._client = Connections()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients are given little time to stop."""
    monkeypatch.setattr(clients, "STOP_S", 0.01)
    monkeypatch.setattr(clients, "CANCEL_S", 0.01)


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_never_stops_is_left(stuck: asyncio.Event) -> None:
    """Its stop is given up after the limit, also where it does not end when it is cancelled; its connections are closed."""
    client = Client(lambda: stop_that_never_returns(stuck))
    async with asyncio.timeout(60):
        await clients.stopped(client)
    stuck.set()

    assert client._client.are_closed


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_cannot_start_and_never_stops_is_left(stuck: asyncio.Event) -> None:
    """Why it could not start is raised, and not hidden behind its stop."""
    with pytest.raises(KafkaConnectionError, match="no broker"):
        async with asyncio.timeout(60):
            await clients.started(Client(lambda: stop_that_never_returns(stuck)))
    stuck.set()


@pytest.mark.usefixtures("impatient")
async def test_a_start_that_suppresses_its_cancellation_is_left(stuck: asyncio.Event) -> None:
    """The caller is cancelled all the same, once the client's connections are closed."""
    client = Client(lambda: stop_that_never_returns(stuck), lambda: stop_that_never_returns(stuck))
    starting = asyncio.create_task(clients.started(client))
    await asyncio.sleep(0)
    starting.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await starting
    stuck.set()

    assert client._client.are_closed


@pytest.mark.usefixtures("impatient")
async def test_a_reader_that_never_connects_closes(stuck: asyncio.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client waits for a broker that has died, whatever it is told."""
    client = Client(lambda: stop_that_never_returns(stuck), lambda: stop_that_never_returns(stuck))
    monkeypatch.setattr(kafka_reader, "consumer", lambda _: client)
    reader = kafka_reader.KafkaReader(KafkaSettings(bootstrap="127.0.0.1:1"), {})
    polling = asyncio.create_task(reader.poll())
    await asyncio.sleep(0.01)
    polling.cancel()
    async with asyncio.timeout(60):
        await asyncio.gather(polling, return_exceptions=True)
        await reader.close()
    stuck.set()

    assert client._client.are_closed


async def test_a_stop_goes_on_while_its_caller_is_cancelled() -> None:
    """The caller's cancellation is kept until the client has stopped."""
    began, may_end, ended = asyncio.Event(), asyncio.Event(), False

    async def stop() -> None:
        nonlocal ended
        began.set()
        await may_end.wait()
        ended = True

    stopping = asyncio.create_task(clients.stopped(Client(stop)))
    await began.wait()
    stopping.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await stopping

    assert ended


async def test_a_service_whose_broker_does_not_answer_ends_on_sigterm(tmp_path: Path) -> None:
    """It waits for its broker without a limit, but not beyond a request to stop, and leaves with the status 0."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1000)),)))
    with socket.socket() as taken:  # nothing listens there, and nothing else can
        taken.bind(("127.0.0.1", 0))
        folder.remember_kafka(KafkaPlace(f"127.0.0.1:{taken.getsockname()[1]}"))
        placers = Replicas(folder, "placer")
        placers.start()
        try:
            await until(
                lambda: "the log takes or gives nothing" in placers.output.read_text(),
                "the placer to wait for the broker",
            )
            await asyncio.to_thread(placers.send, signal.SIGTERM)
        finally:
            placers.end()
