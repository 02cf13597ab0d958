"""Passes the connections of one incarnation on to the storage server, and counts what the incarnation reads.

It owns the forwarding and the count. It must never read what passes. Which incarnation the bytes belong to follows from the
port that they pass through: each has its own. It imports nothing outside the standard library: it is run by its path with
``-I -S``, so that a job's relay takes few milliseconds and megabytes. It ends with the job's supervisor, which holds the
other end of its standard input.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable

CHUNK_BYTES = 1 << 16
COUNT = struct.Struct("<Q")
"""The file of the count: bytes so far."""

_CONNECT_S = 10.0
_SEND_BUFFER_BYTES = 1 << 16  # what lies in it is counted, and not yet read


class Forwarder:
    """Accepts connections and connects each to the same server.

    Args:
        listening: The socket that listens.
        upstream: Host and port of the server.
        passing: Called before each chunk that goes to a client is passed on, with its length in bytes; it may block.
    """

    def __init__(self, listening: socket.socket, upstream: tuple[str, int], passing: Callable[[int], object]) -> None:
        self._listening = listening
        self._upstream = upstream
        self._passing = passing

    def run(self) -> None:
        """Accept connections until the socket is closed."""
        while True:
            try:
                client, _ = self._listening.accept()
            except ConnectionError:  # the client has left again
                continue
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            with socket.create_connection(self._upstream, timeout=_CONNECT_S) as server:
                server.settimeout(None)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                asking = threading.Thread(target=_copy, args=(client, server, lambda _: None), daemon=True)
                asking.start()
                _copy(server, client, self._passing)
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RD)  # ends the other direction
                asking.join()


def _copy(source: socket.socket, sink: socket.socket, passing: Callable[[int], object]) -> None:
    """Copy until the source has ended, then say so to the sink; one that is gone ends the source too."""
    chunk = memoryview(bytearray(CHUNK_BYTES))
    try:
        while count := source.recv_into(chunk):
            passing(count)
            sink.sendall(chunk[:count])
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        with contextlib.suppress(OSError):
            source.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


class SharedCount:
    """The number of bytes so far, in a file that other processes read. It begins at 0.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._total = 0
        self._lock = threading.Lock()
        self.add(0)

    def add(self, count: int) -> None:
        """Count some more bytes. The total is kept here: what others write to the file is overwritten."""
        with self._lock:
            self._total += count
            os.pwrite(self._file, COUNT.pack(self._total), 0)


def main() -> None:
    """Relay until standard input ends, in a process that its parent need not wait for.

    Arguments: the listening socket, the server's host and port, and the file of the count.
    """
    number, host, port, path = sys.argv[1:]
    count = SharedCount(path)
    if os.fork():
        os._exit(0)
    os.setsid()
    relay = Forwarder(socket.socket(fileno=int(number)), (host, int(port)), count.add)
    threading.Thread(target=relay.run, daemon=True).start()
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
