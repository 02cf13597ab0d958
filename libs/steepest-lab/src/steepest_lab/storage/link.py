"""The link between a storage server and its clients: one bandwidth, which all connections share evenly.

It owns the division of the bandwidth, chunk by chunk, so that reading is as even as on a slow network. It must never know
what is read. The server's own limit counts whole seconds, and lets one client have all of one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from steepest.cluster.local.data_relay import Forwarder
from steepest.errors import ClusterError

_LOCAL = "127.0.0.1"
_STOP_S = 10.0


class SharedBandwidth:
    """Gives each chunk its time.

    Args:
        bytes_s: Of all connections together, in bytes a second.
    """

    def __init__(self, bytes_s: float) -> None:
        self._bytes_s = bytes_s
        self._free_s = 0.0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Wait until ``count`` bytes may pass. Each connection waits with one chunk, so they take turns."""
        with self._lock:
            self._free_s = max(self._free_s, time.monotonic()) + count / self._bytes_s
            until_s = self._free_s
        time.sleep(max(0.0, until_s - time.monotonic()))


@contextlib.contextmanager
def running_link(server: tuple[str, int], bytes_s: int) -> Iterator[str]:
    """A link to a server, in a process of its own; gives the URL of the server at its near end.

    Raises:
        ClusterError: It does not start.
    """
    with socket.create_server((_LOCAL, 0)) as listening:
        port = listening.getsockname()[1]
        number = listening.fileno()
        command = [sys.executable, "-m", __name__, str(number), server[0], str(server[1]), str(bytes_s)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(number,))
    try:
        if process.poll() is not None:
            raise ClusterError(f"the link to {server} does not start", code="no-storage")
        yield f"http://{_LOCAL}:{port}"
    finally:
        process.communicate(timeout=_STOP_S)  # its standard input ends


def main() -> None:
    """Run until standard input ends. Arguments: the listening socket, the server's host and port, bytes a second."""
    number, host, port, bytes_s = sys.argv[1:]
    bandwidth = SharedBandwidth(float(bytes_s))
    link = Forwarder(socket.socket(fileno=int(number)), (host, int(port)), bandwidth.take)
    threading.Thread(target=link.run, daemon=True).start()
    while os.read(0, 1):
        pass


if __name__ == "__main__":
    main()
