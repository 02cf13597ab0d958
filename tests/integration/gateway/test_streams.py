"""Many readers of the gateway's streams, and some that stop reading: nothing stops, and nothing is kept for ever."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import psutil
from tests.integration.gateway.served import PATIENCE_S, ServedFolder, measured, running

from steepest.client import Client

READERS = 200


@contextlib.contextmanager
def readers(served: ServedFolder, count: int, path: str) -> Iterator[list[socket.socket]]:
    """Connections that have asked for a stream."""
    port = int(served.address.rpartition(":")[2])
    asked = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode()
    opened = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(count)]
    try:
        for one in opened:
            one.sendall(asked)
        yield opened
    finally:
        for one in opened:
            one.close()


def read_until(one: socket.socket, wanted: bytes) -> None:
    """Read a stream until a text is in it."""
    seen = b""
    while wanted not in seen:
        part = one.recv(65_536)
        assert part, "the stream ended"
        seen = (seen + part)[-200_000:]


def test_every_one_of_many_readers_gets_every_change(served: ServedFolder) -> None:
    """And others are answered meanwhile; once they are gone, nothing of them is left."""
    served.append(*running("a", "n1"))
    served.start()
    before = psutil.Process(served.pid).num_fds()
    with readers(served, READERS, "/api/v1/live") as opened:
        for one in opened:
            read_until(one, b'"whole":true')
        last = served.append(measured("a", 1, 1.0))
        for one in opened:
            read_until(one, f"id: {last + 1}".encode())
        with Client(served.address) as client:
            assert client.job("a").node == "n1"
    deadline = time.monotonic() + PATIENCE_S
    while psutil.Process(served.pid).num_fds() > before + 2:
        assert time.monotonic() < deadline, "connections of readers that are gone are still open"
        time.sleep(0.1)


def test_a_reader_that_stops_reading_holds_nothing_up(served: ServedFolder) -> None:
    """What it does not take is not kept for it, and others go on."""
    served.append(*running("a", "n1"))
    served.start()
    with readers(served, 20, "/api/v1/live"), Client(served.address) as client:
        memory = psutil.Process(served.pid).memory_info().rss
        for interval in range(1, 30):
            last = served.append(*(measured("a", 50 * interval + number, 1.0) for number in range(50)))
        follower = client.follow(since=last)
        assert next(follower).offset == last
        assert psutil.Process(served.pid).memory_info().rss < memory + 60 * 2**20


def asked(port: int, **headers: str) -> socket.socket:
    """A connection that has asked for a stream."""
    one = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    said = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    one.sendall(f"GET /api/v1/live HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n{said}\r\n".encode())
    return one


def test_one_reader_leaves_streams_to_the_others(served: ServedFolder) -> None:
    """It gets as many as are left, and then 503 with when to come again; another one still gets a stream."""
    served.files_most = 200
    served.start()
    port = int(served.address.rpartition(":")[2])
    with contextlib.ExitStack() as held:
        statuses: list[bytes] = []
        while not statuses or statuses[-1] == b"200":
            one = held.enter_context(asked(port))
            answer = one.recv(1_000)
            statuses.append(answer.split()[1])
        other = held.enter_context(asked(port, Authorization=f"Bearer {served.token}"))

        assert other.recv(1_000).split()[1] == b"200"
        assert statuses[-1] == b"503"
        assert b"retry-after" in answer.lower()
        with Client(served.address) as client:
            assert client.jobs() == []
        held.pop_all().close()
        with contextlib.closing(asked(port)) as again:
            assert again.recv(1_000).split()[1] == b"200"
