"""The bound on connections, and the time that a request has to come, over real sockets."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any

import pytest

from steepest.errors import InputError
from steepest.serving import http_server
from steepest.serving.connections import Accepted, BoundedListener, ConnectionBound, most_connections
from steepest.serving.hosts import host_of, is_loopback, is_own
from steepest.serving.http_server import BoundedServer

REQUEST = b"POST /%d HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\nab"
ANSWERED = b"HTTP/1.1 200 OK"


class Answering:
    """An application that answers with a request's path, `/wait` once it is told to, and `/early` before it has the body."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        while scope["path"] != "/early" and (await receive()).get("more_body"):
            pass
        if scope["path"] == "/wait":
            self.asked.set()
            await self.go.wait()
        body = scope["path"].encode()
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def answering(most: int, keep_alive_s: int = 5) -> AsyncIterator[tuple[int, Answering]]:
    """A server of so many connections: its port, and what answers."""
    bound, app = ConnectionBound(most), Answering()
    with BoundedListener("127.0.0.1", 0, bound) as listener:
        server = BoundedServer(
            app, bound, keep_alive_s=keep_alive_s, log_config=None, loop="none", timeout_graceful_shutdown=1
        )
        server.capture_signals = nullcontext  # type: ignore[assignment,method-assign]
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1], app
        finally:
            app.go.set()
            server.should_exit = True
            await serving


Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(port: int, said: bytes = b"") -> Peer:
    """A connection that has said something."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    await writer.drain()
    return reader, writer


async def ended(peer: Peer) -> bool:
    """Wait until the other end has closed a connection."""
    try:
        async with asyncio.timeout(30):
            return await peer[0].read() is not None
    except ConnectionError:
        return True


async def answer_of(peer: Peer, path: bytes) -> None:
    """Wait for the answer to a request."""
    async with asyncio.timeout(30):
        assert (await peer[0].readuntil(b"\r\n\r\n" + path)).startswith(ANSWERED)


@pytest.mark.parametrize("said", [b"", b"GET / HT", REQUEST[:-1] % 1])
async def test_of_too_many_connections_the_longest_silent_one_is_closed(said: bytes) -> None:
    """Whatever half of a request they have sent; one that is answered stays, and so do the newer ones."""
    async with answering(4) as (port, app):
        waiting = await connected(port, b"GET /wait HTTP/1.1\r\nHost: here\r\n\r\n")
        await app.asked.wait()
        kept = await connected(port, REQUEST % 1)
        await answer_of(kept, b"/1")
        silent = [await connected(port, said) for _ in range(6)]
        assert [await ended(peer) for peer in (kept, *silent[:3])] == [True] * 4
        other = await connected(port, REQUEST % 2)
        await answer_of(other, b"/2")
        app.go.set()
        await answer_of(waiting, b"/wait")
        assert not any(peer[0].at_eof() for peer in (*silent[-2:], other))
        for peer in (waiting, kept, other, *silent):
            peer[1].close()


async def test_where_all_are_answered_a_further_one_is_closed() -> None:
    """Nobody's answer is given up for a connection that has said nothing yet."""
    async with answering(1) as (port, app):
        waiting = await connected(port, b"GET /wait HTTP/1.1\r\nHost: here\r\n\r\n")
        await app.asked.wait()
        further = await connected(port)
        assert await ended(further)
        app.go.set()
        await answer_of(waiting, b"/wait")
        for peer in (waiting, further):
            peer[1].close()


@pytest.mark.parametrize(
    "before",
    [
        b"",
        REQUEST % 1,
        REQUEST % 1 + b"GET /2 HT",
        b"POST /early HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nab",
    ],
)
async def test_a_request_that_does_not_come_in_time_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    """Also where a byte comes every moment, as the first request or as a later one."""
    monkeypatch.setattr(http_server, "REQUEST_S", 0.2)
    async with answering(9, 0) as (port, _):
        peer = await connected(port, before)
        ending = asyncio.create_task(ended(peer))
        while not ending.done():
            peer[1].write(b"x")
            await asyncio.sleep(0.01)
        peer[1].close()
        assert await ending


async def test_requests_one_after_another_and_at_once_are_all_answered() -> None:
    """The bound follows a connection from request to request."""
    async with answering(2) as (port, _):
        peer = await connected(port, REQUEST % 1 + REQUEST % 2 + (REQUEST % 3)[:-2])
        for path in (b"/1", b"/2"):
            await answer_of(peer, path)
        peer[1].write(b"ab")
        await answer_of(peer, b"/3")
        peer[1].write(REQUEST % 4)
        await answer_of(peer, b"/4")
        peer[1].close()


def exhausted() -> Accepted:
    """Accepts nothing: the process has as many files as it may."""
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_process_without_descriptors_closes_what_is_silent() -> None:
    """The server is told that nobody waits: an error would be logged for each connection that does."""
    bound = ConnectionBound(9)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as peer:
        connection, _ = bound.accept(server.accept)
        with pytest.raises(BlockingIOError):
            bound.accept(exhausted)
        peer.settimeout(30)
        assert peer.recv(1) == b""
        connection.close()


def test_a_port_that_is_taken_is_named() -> None:
    """With what to do about it."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(InputError, match=r"cannot serve on 127\.0\.0\.1:"),
    ):
        BoundedListener("127.0.0.1", taken.getsockname()[1], ConnectionBound(1))


@contextmanager
def files(soft: int) -> Iterator[None]:
    """Another soft limit of open files, for this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be() -> None:
    """And where it may not, connections leave files to others."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with files(600):
        assert most_connections(200) == 200
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 712
    if hard != resource.RLIM_INFINITY:
        with files(600):
            assert most_connections(hard) == hard - 512
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_a_name_that_others_can_make_point_here_is_no_own_one() -> None:
    """Addresses are, in either form, and so are the machine's own name and those that are configured."""
    own = [
        "127.0.0.1:9400",
        "10.0.0.7",
        "[::1]:9400",
        "[fd00::7]",
        "localhost:1",
        f"{socket.gethostname()}:9400",
        "web:9400",
    ]
    others = [
        "",
        "evil.example:9400",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "[::1]evil.example:80",
        "127.1",
    ]
    others += ["localhost:9400@evil.example", "127.0.0.1:9400:evil.example", "127.0.0.1,evil.example"]

    assert [host for host in own if not is_own(host_of(host), ("web",))] == []
    assert [host for host in others if is_own(host_of(host), ("web",)) or is_loopback(host_of(host))] == []
