"""What every port withstands that answers HTTP: the gateway's, that of probes, the webhook's, each as a real process."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.integration.gateway.served import PATIENCE_S, ServedFolder, limited
from tests.unit.admission.test_webhook import ORDER, await_port, make_certificate

FILES_MOST = 200
OUTPUT_MOST = 10_000
"""Bytes that a flood may make a process print."""

HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "


class Port:
    """A port that is attacked.

    Attributes:
        number: Its number.
        process: Who listens there; it may have :data:`FILES_MOST` files.
        output: What that has printed.
        tls: How others speak to it; None: in the clear.
    """

    def __init__(self, number: int, process: int, output: Path, tls: ssl.SSLContext | None = None) -> None:
        self.number = number
        self.process = psutil.Process(process)
        self.output = output
        self.tls = tls

    def connect(self) -> socket.socket:
        """A connection, which has said nothing."""
        return socket.create_connection(("127.0.0.1", self.number), timeout=PATIENCE_S)

    def speak(self) -> socket.socket:
        """A connection over which HTTP is spoken."""
        return self.connect() if self.tls is None else self.tls.wrap_socket(self.connect(), server_hostname="127.0.0.1")

    def status(self, host: str = "127.0.0.1") -> str:
        """The status of an answer to a probe under a name."""
        with self.speak() as one:
            one.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            return one.recv(100).decode().split()[1]


@contextlib.contextmanager
def gateway(root: Path) -> Iterator[Port]:
    """The gateway's own port."""
    with _gateway(root) as (served, _):
        yield Port(int(served.address.rpartition(":")[2]), served.pid, served.output_file)


@contextlib.contextmanager
def probes(root: Path) -> Iterator[Port]:
    """The port of its probes and metrics, as every process has one."""
    with _gateway(root) as (served, metrics):
        yield Port(metrics, served.pid, served.output_file)


@contextlib.contextmanager
def _gateway(root: Path) -> Iterator[tuple[ServedFolder, int]]:
    served, metrics = ServedFolder(root), _free()
    served.files_most = FILES_MOST
    served.start(STEEPEST_METRICS_PORT=str(metrics))
    try:
        yield served, metrics
    finally:
        assert served.stop() == 0


@contextlib.contextmanager
def webhook(root: Path) -> Iterator[Port]:
    """The admission webhook's port, to which any pod of a cluster may connect."""
    make_certificate(root)
    number, output = _free(), root / "webhook.log"
    files = (f"--certificate={root}/tls.crt", f"--key={root}/tls.key", f"--port={number}")
    with (
        output.open("wb") as out,
        subprocess.Popen([*limited(FILES_MOST), *ORDER, *files], stdout=out, stderr=out) as process,
    ):
        try:
            await_port(number, process)
            yield Port(number, process.pid, output, ssl.create_default_context(cafile=str(root / "tls.crt")))
        finally:
            process.terminate()


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number: int = free.getsockname()[1]
        return number


@pytest.fixture(scope="module", params=[gateway, probes, webhook], ids=lambda make: make.__name__)
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    """Each of them in turn."""
    make: Callable[[Path], contextlib.AbstractContextManager[Port]] = request.param
    with make(tmp_path_factory.mktemp("port")) as one:
        yield one


@pytest.mark.parametrize("kind", ["connected", "spoken", "half"])
def test_who_says_too_little_is_in_nobody_s_way(port: Port, kind: str) -> None:
    """Of so many silent connections, or halves of requests, that its files are too few: others are answered meanwhile."""
    with contextlib.ExitStack() as held:
        for number in range(3 * FILES_MOST):
            one = held.enter_context(port.connect() if kind == "connected" else port.speak())
            if kind == "half":
                with contextlib.suppress(OSError):  # it is closed already
                    one.sendall(HALF)
            if number % 100 == 0:
                assert port.status() == "200"
        assert port.status() == "200"
    assert port.output.stat().st_size < OUTPUT_MOST


def test_no_page_reads_it_under_a_name_of_its_own(port: Port) -> None:
    """A name that others can make point to this machine is refused; only the webhook, which tells nothing, needs no name."""
    refused = "200" if port.tls else "421"
    assert [port.status(host) for host in ("evil.example", "127.0.0.1.evil.example:80")] == [refused] * 2
    assert [port.status(host) for host in ("127.0.0.1:1", "localhost", "[::1]:9400")] == ["200"] * 3
