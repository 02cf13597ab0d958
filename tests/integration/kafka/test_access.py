"""The documented access-control lists: every service works under them, and writes nothing else."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest
from tests.harness.waiting import until
from tests.integration.kafka.conftest import HOME
from tests.integration.mqtt.conftest import Mosquitto, find_mosquitto
from tests.integration.mqtt.edge import Device
from tests.unit.mqtt.messages import beat, loss

from steepest.app.installation import apply_topics
from steepest.app.installed_services import GROUP
from steepest.app.settings.rows import as_environment
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.clock import SystemClock
from steepest.errors import LogUnavailableError
from steepest.events.cluster import PoolConfigured
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.events.registry import TOPICS
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.kafka.broker import (
    PROPERTIES,
    SASL_LOGIN,
    SASL_PROPERTIES,
    USER,
    Broker,
    _free_port,
    cluster_id,
    missing,
)
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.runtime.decode import new_record
from steepest.runtime.layout import Layout

DOCUMENTED = Path(__file__).parents[3] / "docs" / "kafka.md"
PREFIX = "acl-"
TOPIC, KAFKA_GROUP, LITERAL, READ, WRITE, DESCRIBE, ALLOW = 2, 3, 3, 3, 4, 8, 3
"""Kafka's numbers for these."""

AUTHORIZER = f"""\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{USER}
"""


POOLS_GROUP = "`NAME-pools`"
"""Stands for the group by which the replicas of a service share the pools."""


class Rights(msgspec.Struct):
    """The rights of one user, beside reading every topic."""

    writes: set[str]
    groups: set[str]


def documented() -> dict[str, Rights]:
    """The table of the documentation, by user."""
    section = DOCUMENTED.read_text().partition("## Who may write what")[2].partition("\n## ")[0]
    rights: dict[str, Rights] = {}
    for line in section.splitlines():
        if not line.startswith("| `"):
            continue
        who, writes, groups = (re.findall(r"`([a-z-]+)`", cell) for cell in line.strip("|").split("|"))
        rights |= {
            one: Rights(set(writes), {*groups, *([f"{one}-pools"] if POOLS_GROUP in line else [])})
            for one in who
            if one not in {"submit", "cancel"}
        }
    return rights


RIGHTS = documented()

TRAINING = """
import time
for step in range(1, 31):
    print(f"step {step} loss {1 / step}", flush=True)
    time.sleep(0.1)
"""


class Guarded:
    """A broker on which only what is granted is allowed."""

    def __init__(self, folder: Path) -> None:
        self.broker = Broker(folder, home=HOME)
        logins = " ".join(f'user_{name}="word-{name}"' for name in RIGHTS)
        login = SASL_LOGIN.format(user=USER, password=f"word-{USER}").replace(";", f" {logins};")
        own = {"port": self.broker.port, "controller": _free_port(), "folder": folder, "security": "SASL_PLAINTEXT"}
        properties = folder / "server.properties"
        properties.write_text(PROPERTIES.format(**own) + SASL_PROPERTIES.format(login=login) + AUTHORIZER)
        self.broker._java(
            "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id(), "-c", str(properties)
        )
        self.broker.start()

    def settings(self, user: str) -> KafkaSettings:
        """A user's connection settings."""
        return KafkaSettings(
            bootstrap=self.broker.bootstrap,
            prefix=PREFIX,
            security="SASL_PLAINTEXT",
            username=user,
            password=f"word-{user}",
        )

    async def grant(self, rights: Mapping[str, Rights]) -> None:
        """Write the lists."""
        lists = [
            (kind, PREFIX + name, LITERAL, f"User:{user}", "*", operation, ALLOW)
            for user, has in rights.items()
            for kind, name, operation in (
                *((TOPIC, topic, operation) for topic in Layout().partitions() for operation in (READ, DESCRIBE)),
                *((TOPIC, "snapshots", operation) for operation in (READ, DESCRIBE)),
                *((TOPIC, topic, WRITE) for topic in has.writes),
                *((KAFKA_GROUP, group, READ) for group in has.groups),
            )
        ]
        admin = AIOKafkaAdminClient(**self.settings(USER).client())
        await admin.start()
        try:
            for one in lists:
                answer = await admin._send_to_controller(CreateAclsRequest(*one))
                assert [code for code, _ in answer.creation_responses] == [0]
        finally:
            await admin.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The broker, with the topics and the lists."""
    if why := missing(HOME):
        pytest.skip(f"{why}; get it with: make kafka")
    found = Guarded(tmp_path_factory.mktemp("guarded"))
    try:
        asyncio.run(apply_topics(found.settings(USER), Layout()))
        asyncio.run(found.grant(RIGHTS))
        yield found
    finally:
        found.broker.stop()


def test_every_service_is_in_the_table() -> None:
    """The table also has the users who submit and cancel."""
    assert set(RIGHTS) == {point.name for point in entry_points(group=GROUP)} | {"people"}


@pytest.mark.slow
@pytest.mark.parametrize("user", RIGHTS)
async def test_no_user_writes_what_the_table_does_not_grant(guarded: Guarded, user: str) -> None:
    """Each topic accepts a user's record exactly where the table grants it."""
    topics = [*TOPICS, "snapshots"]
    taken = set()
    for topic in topics:
        log = KafkaLog(guarded.settings(user), {**Layout().partitions(), "snapshots": 1})
        try:
            await log.append([NewRecord(to=TopicPartition(topic), key="k", value=b"no event", at_ms=1)])
            taken.add(topic)
        except LogUnavailableError as refused:
            assert "uthoriz" in str(refused)  # noqa: PT017 - where it is refused, this is why
        finally:
            await log.close()

    assert taken == RIGHTS[user].writes


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_service_works_with_the_rights_of_the_table(guarded: Guarded, tmp_path: Path) -> None:
    """Each service is a process with its own user, and no request of it is refused.

    A job is submitted, placed, run and judged, and a device reports its node and the job over MQTT.
    """
    mosquitto = Mosquitto(find_mosquitto(), tmp_path)
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(500)),)))
    asyncio.run(configure(guarded.settings(USER)))
    modules = {point.name: point.module for point in entry_points(group=GROUP)}

    def environ(user: str) -> dict[str, str]:
        own = {"STEEPEST_STATE_DIR": str(folder.root), **as_environment(Settings(kafka=guarded.settings(user)))}
        broker = {"STEEPEST_MQTT": mosquitto.address} if user == "mqtt-bridge" else {}
        return {**os.environ, **own, **broker}

    def steepest(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "steepest", *arguments]
        return subprocess.Popen(command, env=environ("people"), stdout=subprocess.PIPE, text=True)

    processes: dict[str, subprocess.Popen[bytes]] = {}
    judged = steepest("events", "--type", "GrowthMeasured", "--json", "--follow", "--since", "0")
    mosquitto.start()
    try:
        for name, module in modules.items():
            with (tmp_path / f"{name}.log").open("wb") as output:
                processes[name] = subprocess.Popen(
                    [sys.executable, "-m", module], stdout=output, stderr=output, env=environ(name)
                )
        job = steepest(
            "submit", "--wait", "--json", "--name", "one", "--device", "edge-1", "--", sys.executable, "-c", TRAINING
        )
        submitted, _ = job.communicate()
        assert judged.stdout is not None
        assert '"GrowthMeasured"' in judged.stdout.readline()
        asyncio.run(report_over_mqtt(mosquitto, tmp_path / "mqtt-bridge.log", guarded.settings(USER)))
        assert {name for name, process in processes.items() if process.poll() is not None} == set()
    finally:
        ended: list[subprocess.Popen[Any]] = [judged, *processes.values()]
        for process in ended:
            process.terminate()
            process.wait()
        mosquitto.end()
        assert judged.stdout is not None
        judged.stdout.close()

    assert '"outcome":"finished"' in submitted
    for name in modules:
        assert "uthoriz" not in (tmp_path / f"{name}.log").read_text(), name


async def configure(operator: KafkaSettings) -> None:
    """Short intervals, so that a short training is judged."""
    parameters = PoolParameters(specon=SpeConParameters(interval_ms=500), tick_ms=500)
    log = KafkaLog(operator, Layout().partitions())
    try:
        cluster = TopicPartition("cluster")
        await log.append(
            [new_record(cluster, "default", PoolConfigured(parameters=parameters), SystemClock().now_ms())]
        )
    finally:
        await log.close()


async def report_over_mqtt(mosquitto: Mosquitto, printed: Path, operator: KafkaSettings) -> None:
    """Send a message for each topic that the bridge writes, and wait until the bridge has appended them."""
    await until(lambda: "connected" in printed.read_text(), "the bridge to connect")
    device = Device(mosquitto.port)
    try:
        await device.send(beat(at_ms=1), 1)
        await device.send(loss(job="one"), 2)
        await device.publish("steepest/edge-1/loss", b"no event")
    finally:
        device.close()
    log = KafkaLog(operator, Layout().partitions())
    try:
        for topic in ("heartbeats", "loss", "dead-letters"):
            await await_record_of_the_bridge(log, topic)
    finally:
        await log.close()


async def await_record_of_the_bridge(log: KafkaLog, topic: str) -> None:
    """Read a topic up to a record with the bridge's header, or a dead letter about a message."""
    reader = log.reader(dict.fromkeys(await log.partitions(topic), 0))
    try:
        async with asyncio.timeout(60):
            while True:
                for record in await reader.poll():
                    if "mqtt" in record.headers or (topic == "dead-letters" and record.key == "mqtt"):
                        return
    finally:
        await reader.close()
