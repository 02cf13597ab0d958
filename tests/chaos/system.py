"""A real system on a real broker, for chaos tests: ``steepest up`` with one process per service.

It owns starting, finding processes, and waiting. It must never know what a test checks.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psutil
from tests.harness.processes import with_command_lines

from steepest.app.installation import open_log
from steepest.app.settings.reading import read_settings
from steepest.app.settings.rows import as_environment
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import KafkaPlace, StateFolder
from steepest.log.base import Log
from steepest.log.kafka.kafka_settings import KafkaSettings

STEEPEST = (sys.executable, "-m", "steepest")
PATIENCE_S = 180.0

METRICS_AT = re.compile(r"metrics on (http://\S+)/metrics")


class KafkaSystem:
    """A state folder whose log is on Kafka, and at most one system on it.

    Attributes:
        folder: The installation.
        kafka: Where its log is.
    """

    def __init__(self, state: Path, kafka: KafkaSettings, *options: str) -> None:
        self.folder = StateFolder(state)
        self.kafka = kafka
        self._options = options
        self._env = {**os.environ, **as_environment(Settings(kafka=kafka))}
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it, and wait until it has printed that it follows its log."""
        output = self._launch()
        await self.until(lambda: b"caught up" in output.read_bytes(), f"the system to follow its log; see {output}")
        self.folder.remember_kafka(KafkaPlace(self.kafka.bootstrap, self.kafka.prefix))

    def _launch(self) -> Path:
        self.folder.root.mkdir(parents=True, exist_ok=True)
        output = self.folder.root / "up.log"
        output.unlink(missing_ok=True)
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                [*STEEPEST, "up", "--state", str(self.folder.root), "--kafka", self.kafka.bootstrap, *self._options],
                stdout=file,
                stderr=file,
                env=self._env,
                start_new_session=True,
            )
        return output

    async def until_ready(self) -> None:
        """Wait until every process is ready: all partitions are assigned, and each loop has read what was there.

        The system must have been started with ``--metrics``.
        """
        try:
            await self.until(lambda: all(map(is_ready, METRICS_AT.findall(self.output()))), "every process to be ready")
        except AssertionError as error:
            for at in METRICS_AT.findall(self.output()):
                if not is_ready(at):
                    error.add_note(f"{at} is not ready: {_readings(at)}")
            raise

    async def until(self, condition: Any, what: str) -> None:
        """Wait for something that must come while the system runs."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not await asyncio.to_thread(condition):
            assert self._process is not None
            assert self._process.poll() is None, f"the system has ended: {self.output()}"
            assert asyncio.get_running_loop().time() < deadline, f"timed out waiting for {what}: {self.output()}"
            await asyncio.sleep(0.05)

    def output(self) -> str:
        """What it has printed so far."""
        return (self.folder.root / "up.log").read_text(errors="replace")

    def services(self) -> dict[int, str]:
        """The services' processes that run now, with their modules."""
        assert self._process is not None
        found = {}
        for child, command in with_command_lines(psutil.Process(self._process.pid).children()):
            if command and command[-1].startswith("steepest_services."):
                found[child.pid] = command[-1]
        return found

    def wait(self) -> int:
        """Wait until it has left, and give its exit status."""
        assert self._process is not None
        return self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        """SIGKILL to the supervisor process alone; its services continue."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        """Leave nothing running, however the test ended."""
        if self._process is not None and self._process.poll() is None:
            self.call("down", "--grace", "0.2s")
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command with ``--state`` set to the folder."""
        command, *rest = arguments
        return subprocess.run(
            [*STEEPEST, command, "--state", str(self.folder.root), *rest],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            env=self._env,
        )

    def plain(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command that is not about the folder."""
        return subprocess.run(
            [*STEEPEST, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            env={**self._env, "STEEPEST_STATE_DIR": str(self.folder.root)},
        )

    def ask(self, *arguments: str) -> Any:
        """Run a command that must succeed, with ``--json``, and give what it printed."""
        command, *rest = arguments
        done = self.call(command, "--json", *rest)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def log(self) -> Log:
        """A handle on its log."""
        return open_log(read_settings({"state_dir": self.folder.root}), self.folder.read())


def is_ready(address: str) -> bool:
    """Whether a process answers that it is ready."""
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def _readings(address: str) -> list[str]:
    """What a process measures of its loops: their lag, and whether they are ready."""
    try:
        with urllib.request.urlopen(f"{address}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError as error:
        return [str(error)]
    return [line for line in lines if re.match(r"steepest_\w*(lag|ready|silence)", line)]


def free_ports(number: int) -> int:
    """The first of so many neighbouring ports that are free now, for ``--metrics``: each process answers at one.

    Raises:
        OSError: There is none.
    """
    for first in random.sample(range(20_000, 32_000, number), 12_000 // number):
        with ExitStack() as stack:
            try:
                for port in range(first, first + number):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise OSError(f"no {number} neighbouring ports are free")
