"""A private storage server: lighttpd over a folder.

It owns starting, stopping and the server's own count of what it sent; ``make storage`` installs the server (Debian's
``lighttpd``). It must never know who reads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from steepest.errors import ClusterError, InputError

START_S = 30.0
"""It starts within 50 ms on an idle machine."""

STOP_S = 10.0
_LOOK_S = 0.02
_LOCAL = "127.0.0.1"

_CONFIG = """\
server.modules = ("mod_accesslog")
server.document-root = "{root}"
server.bind = "{host}"
server.port = {port}
server.errorlog = "{errors}"
accesslog.filename = "{log}"
accesslog.format = "%U %O"
server.max-connections = 1024
server.max-fds = 4096
server.max-keep-alive-requests = 1000000
server.max-keep-alive-idle = 600
server.max-write-idle = 3600
server.max-read-idle = 3600
"""


class StorageServer:
    """One server.

    Args:
        folder: For its files; what it serves is in ``data`` below it.
        host: The address that it listens at.
    """

    def __init__(self, folder: Path, *, host: str = _LOCAL) -> None:
        self.data = folder / "data"
        self._folder = folder
        self._host = host
        self._log = folder / "access.log"
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which it serves ``data``."""
        return self._host, self._port

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            InputError: The server is not installed.
            ClusterError: It does not start; the message has what it said.
        """
        program = found()
        if program is None:
            raise InputError("there is no lighttpd on this machine", code="no-storage", hint="make storage")
        self.data.mkdir(parents=True, exist_ok=True)
        self._port = _free_port(self._host)
        config, errors = self._folder / "lighttpd.conf", self._folder / "error.log"
        lines = _CONFIG.format(root=self.data, host=self._host, port=self._port, errors=errors, log=self._log)
        config.write_text(lines, encoding="utf-8")
        with (self._folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen([program, "-D", "-f", str(config)], stdout=output, stderr=output)
        self._wait(output.name)

    def stop(self) -> None:
        """Stop it; its count is complete after that."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def sent(self) -> dict[str, int]:
        """Bytes that it sent for each path, with headers, by its own log. A request counts once it is over."""
        totals: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines():
                path, _, number = line.rpartition(" ")
                if number.isdecimal():
                    totals[path] = totals.get(path, 0) + int(number)
        return totals

    def _wait(self, output: str) -> None:
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection((self._host, self._port), timeout=1):
                return
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                said = Path(output).read_text(encoding="utf-8", errors="replace")
                raise ClusterError(f"the storage server does not start: {said[-500:]}", code="no-storage")
            time.sleep(_LOOK_S)


@contextlib.contextmanager
def running_storage(folder: Path, *, host: str = _LOCAL) -> Iterator[StorageServer]:
    """A server that runs within the context.

    Raises:
        InputError: The server is not installed.
        ClusterError: It does not start.
    """
    server = StorageServer(folder, host=host)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def found() -> str | None:
    """The server's program; None where it is not installed. Administrators' programs are not in everyone's path."""
    return shutil.which("lighttpd", path=f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin")


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as trial:
        return int(trial.getsockname()[1])
