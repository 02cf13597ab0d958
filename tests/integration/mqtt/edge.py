"""A bridge over a log in files, and devices, for tests.

It owns starting, killing and reading. It must never know what a test checks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from tests.harness.scenarios.folded_pool import FoldedPool
from tests.harness.waiting import until
from tests.unit.mqtt.messages import envelope

from steepest.app.installation import open_log
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.cli.pool.stored_pool import records_to_end
from steepest.clock import SystemClock
from steepest.errors import UndecodableError
from steepest.events.common import Resources
from steepest.log.base import Log, Record, TopicPartition
from steepest.runtime.decode import new_record, received
from steepest.runtime.recovery.log_identity import open_partitions

PATIENCE_S = 60.0


class Edge:
    """An installation with a bridge as a process, or none.

    The job ``job``, whose device is ``edge-1``, runs in its pool as incarnation 1; so does ``another``, which has no device.

    Attributes:
        folder: The installation.
    """

    def __init__(self, root: Path, broker: str, environ: Mapping[str, str] | None = None) -> None:
        """``environ`` has settings of the bridge and its log."""
        self.folder = StateFolder(root)
        self.folder.create(Installation(nodes=(NodeSpec("w1", Resources(cpu_m=1_000)),), loss_partitions=2))
        self._env = {**os.environ, "STEEPEST_STATE_DIR": str(root), "STEEPEST_MQTT": broker, **(environ or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._printed = root / "bridge.log"

    async def open(self) -> None:
        """Write the log's identity and its jobs."""
        pool = FoldedPool(w1=1_000)
        pool.run("job", "w1", device="edge-1")
        pool.run("another", "w1")
        log = self.log()
        await open_partitions(log, self.folder.read().layout, SystemClock())
        at = TopicPartition("cluster")
        await log.append([new_record(at, "default", one.event, one.at_ms, one.headers) for one in pool.log[1:]])
        await log.close()

    def log(self) -> Log:
        """A handle on the log."""
        return open_log(read_settings({"state_dir": self.folder.root}), self.folder.read())

    # --- the bridge ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start a bridge, and wait until it is connected."""
        before = len(self.output())
        self.launch()

        def connected() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self.output()
            return "connected" in self.output()[before:]

        await until(connected, f"the bridge to connect: {self.output()}")

    def launch(self) -> None:
        """Start a bridge that may not get to connect."""
        with self._printed.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "steepest_services.mqtt_bridge"], stdout=output, stderr=output, env=self._env
            )

    def end(self, number: int = signal.SIGKILL) -> int:
        """Send the bridge a signal, and return its exit status."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(number)
        return process.wait(PATIENCE_S)

    def output(self) -> str:
        """What bridges have printed so far."""
        return self._printed.read_text() if self._printed.exists() else ""

    # --- the log -----------------------------------------------------------------------------------------------------------

    async def records(self, topic: str) -> list[Record]:
        """A topic's records beside its identity."""
        log = self.log()
        try:
            found = [one for at in await log.partitions(topic) async for one in records_to_end(log, at)]
        finally:
            await log.close()
        return [one for one in found if b'"LogOpened"' not in one.value]

    async def events(self, topic: str) -> list[Any]:
        """Its events, without the duplicates that a reader drops."""
        events, seen = [], set()
        for record in await self.records(topic):
            name = (record.headers.get("source"), record.headers.get("seq"))
            if name not in seen or name == (None, None):
                seen.add(name)
                try:
                    events.append(received(record).event)
                except UndecodableError as error:
                    events.append(error)
        return events

    async def until(self, count: int, topic: str) -> list[Any]:
        """Wait for so many events of a topic, and return all."""
        async with asyncio.timeout(PATIENCE_S):
            while len(events := await self.events(topic)) < count:
                assert self._process is None or self._process.poll() is None, self.output()
                await asyncio.sleep(0.05)
        return events


class Device:
    """A publisher that waits for the broker's acknowledgement of each message."""

    def __init__(self, port: int, name: str = "edge-1", authority: str = "", **login: str) -> None:
        """Connect; with an authority, over TLS."""
        self._name = name
        self._client = Client(CallbackAPIVersion.VERSION2, f"test-{name}", protocol=MQTTProtocolVersion.MQTTv5)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_publish = lambda _client, _data, mid, *_: self._acknowledged.add(mid)
        self._acknowledged: set[int] = set()
        if login:
            self._client.username_pw_set(**login)
        if authority:
            self._client.tls_set(authority)
        self._client.connect_async("127.0.0.1", port)
        self._client.loop_start()

    async def send(self, event: dict[str, Any], seq: int, **more: Any) -> None:
        """Publish an event under a number."""
        channel = "heartbeats" if event["type"] == "NodeHeartbeat" else "loss"
        await self.publish(f"steepest/{self._name}/{channel}", envelope(event, seq, device=self._name, **more))

    async def publish(self, topic: str, payload: bytes) -> None:
        """Publish bytes."""
        info = self._client.publish(topic, payload, qos=1)
        await until(lambda: info.mid in self._acknowledged, "the broker to take a message")
        self._acknowledged.remove(info.mid)

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()
