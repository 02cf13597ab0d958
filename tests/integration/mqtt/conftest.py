"""A real broker that tests may stop, kill and start again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCUMENTED = Path(__file__).parents[3] / "docs" / "mosquitto.conf"
"""The tests use the settings that the documentation has."""

PATIENCE_S = 30.0

CONNECT = bytes((0x10, 12, 0, 4, *b"MQTT", 4, 2, 0, 60, 0, 0))
"""Of MQTT 3.1.1: a clean session, without a client's id."""


class Mosquitto:
    """A broker with a folder of its own.

    Attributes:
        port: Where it listens, on this machine only.
    """

    def __init__(self, program: str, folder: Path, *lines: str) -> None:
        """``lines`` are settings beside the documented ones."""
        self.port = free_port()
        self._program = program
        self._config = folder / "mosquitto.conf"
        documented = [line for line in DOCUMENTED.read_text().splitlines() if not line.startswith(OWN)]
        own = [f"listener {self.port} 127.0.0.1", f"persistence_location {folder}/", "user root"]
        access = [] if any(line.startswith("allow_anonymous") for line in lines) else ["allow_anonymous true"]
        self._config.write_text("\n".join([*documented, *own, *access, *lines, ""]))
        self._output = folder / "mosquitto.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"127.0.0.1:{self.port}"

    def kept(self) -> bytes:
        """What is on its disk now."""
        database = self._config.parent / "mosquitto.db"
        return database.read_bytes() if database.exists() else b""

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen([self._program, "-c", str(self._config)], stdout=output, stderr=output)
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert self._process.poll() is None, self._output.read_text()
            assert time.monotonic() < deadline, self._output.read_text()
            time.sleep(0.02)

    def _answers(self) -> bool:
        """Whether its loop runs: it replies, or hangs up where it wants TLS.

        Connections are accepted earlier, and a SIGTERM that comes before the loop is lost.
        """
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(CONNECT)
                connection.recv(1)
        except ConnectionResetError:
            return True
        except OSError:
            return False
        return True

    def end(self, number: int = signal.SIGTERM) -> None:
        """Stop it: with SIGTERM it writes what it holds to disk."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE_S)
            self._process = None


OWN = ("listener", "persistence_location", "allow_anonymous", "password_file", "acl_file", "#")
"""Settings that are each installation's own."""


def free_port() -> int:
    """A port that is not in use."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def find_mosquitto() -> str:
    """The broker's program; without it the test is skipped."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("no mosquitto; get it with: make mosquitto (apt-get install mosquitto)")
    return program


@pytest.fixture
def mosquitto_program() -> str:
    """The broker's program."""
    return find_mosquitto()


@pytest.fixture
def mosquitto(mosquitto_program: str, tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker that runs."""
    folder = tmp_path / "mosquitto"
    folder.mkdir()
    broker = Mosquitto(mosquitto_program, folder)
    broker.start()
    yield broker
    broker.end()
