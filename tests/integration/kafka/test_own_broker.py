"""The broker of ``steepest up --kafka auto``: it serves the installation's user and no other user of the machine."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.harness.system.running_system import RunningSystem
from tests.integration.kafka.conftest import HOME

from steepest.app.installation import kafka_of
from steepest.app.settings.reading import read_settings
from steepest.errors import LogUnavailableError
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.kafka.broker import Broker, missing
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.runtime.layout import Layout

DESCRIBE_CLUSTER = struct.pack(">hhihbbb", 60, 0, 1, -1, 0, 0, 0)
"""A request that every listener answers whose clients need not say who they are."""


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """A system on a broker of its own."""
    if why := missing(HOME):
        pytest.skip(f"{why}; get it with: make kafka")
    system = RunningSystem(
        tmp_path / "state",
        *("--kafka", "auto", "--node", "n1=0.5"),
        env={"STEEPEST_KAFKA_HOME": str(HOME), "STEEPEST_KAFKA_PREFIX": "own-"},
    )
    yield system
    system.end()


def settings(system: RunningSystem) -> KafkaSettings:
    """What the commands on the folder use."""
    found = kafka_of(read_settings({"state_dir": system.state}, environ={}))
    assert found is not None
    return found


def ports(properties: Path) -> list[int]:
    """Where a broker listens, and its controller."""
    return [int(port) for port in re.findall(r"://127\.0\.0\.1:(\d+)", properties.read_text())][:2]


def answer(port: int) -> bytes:
    """The answer to a client that does not authenticate."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(struct.pack(">i", len(DESCRIBE_CLUSTER)) + DESCRIBE_CLUSTER)
        return client.recv(100)


def append(by: KafkaSettings) -> None:
    """Append a request to run a command."""
    asyncio.run(_append(by))


async def _append(by: KafkaSettings) -> None:
    log = KafkaLog(by, Layout().partitions())
    try:
        await log.append([NewRecord(to=TopicPartition("cluster"), key="default", value=b"{}", at_ms=1)])
    finally:
        await log.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_only_its_user_appends_to_an_installations_own_broker(system: RunningSystem, broker: Broker) -> None:
    """Commands and services find the password in the state folder; without it neither port answers, and it never stays."""
    system.start()
    system.submit("one", sys.executable, "-c", "pass")
    assert system.await_end("one").exit_status == 0
    first = settings(system)
    append(first)
    for wrong in (
        KafkaSettings(bootstrap=first.bootstrap, prefix=first.prefix),
        msgspec.structs.replace(first, password="wrong"),  # noqa: S106
    ):
        with pytest.raises(LogUnavailableError):
            append(wrong)
    folder = system.state / "kafka"
    assert [answer(port) for port in ports(folder / "server.properties")] == [b"", b""]
    assert all(answer(port) for port in ports(broker.folder / "server.properties"))  # an open one does answer
    for secret in (folder / "server.properties", folder / "password", system.state):
        assert secret.stat().st_mode & 0o077 == 0
    assert first.password not in "".join(path.read_text() for path in (system.state / "services").iterdir())

    system.call("down")
    system.wait()
    system.start()
    second = settings(system)
    assert second.bootstrap == first.bootstrap
    append(second)
    with pytest.raises(LogUnavailableError):
        append(first)
