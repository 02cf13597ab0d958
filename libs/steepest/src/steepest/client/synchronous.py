"""The client of a gateway for synchronous code. It owns sending; the calls are :mod:`steepest.client.calls`'."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Concatenate, ParamSpec, Self, TypeVar

import httpx2

from steepest.client import calls
from steepest.client.calls import Call, StreamCall, StreamLines
from steepest.read_models.job_rows import JobRow

P = ParamSpec("P")
R = TypeVar("R")


def _method(make: Callable[P, Call[R]]) -> Callable[Concatenate[Client, P], R]:
    @wraps(make)
    def method(self: Client, /, *arguments: P.args, **named: P.kwargs) -> R:
        return self.call(make(*arguments, **named))

    return method


def _stream(make: Callable[P, StreamCall[R]]) -> Callable[Concatenate[Client, P], Iterator[R]]:
    @wraps(make)
    def method(self: Client, /, *arguments: P.args, **named: P.kwargs) -> Iterator[R]:
        return self.rows(make(*arguments, **named))

    return method


class Client:
    """A gateway. ``pool`` of each method names a pool; None is the first. ``at`` is an offset of the pool's log.

    Every method raises :class:`~steepest.client.calls.GatewayError` where the gateway refuses or is not reached.
    """

    def __init__(self, server: str, token: str = "", *, http: httpx2.Client | None = None) -> None:
        """Nothing is sent yet.

        Args:
            server: Its address: ``http://127.0.0.1:8080``.
            token: What the gateway knows its caller by; empty: nothing.
            http: What sends, with a token of its own; it is closed with this. None: a connection with the defaults.
        """
        self._server = server.rstrip("/")
        self._http = http or httpx2.Client(headers=calls.headers(token), timeout=calls.TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def jobs(self, *, pool: str | None = None, at: int | None = None, phase: str | None = None) -> list[JobRow]:
        """All jobs in the order of their submission, or those in one phase or with one outcome."""
        rows: list[JobRow] = []
        after: str | None = None
        while True:
            page = self.call(calls.jobs(pool=pool, at=at, phase=phase, after=after))
            rows += page.jobs
            after = page.next
            if after is None:
                return rows

    pools = _method(calls.pools)
    job = _method(calls.job)
    explain = _method(calls.explain)
    curve = _method(calls.curve)
    log = _method(calls.log)
    follow_log = _stream(calls.follow_log)
    nodes = _method(calls.nodes)
    queue = _method(calls.queue)
    decisions = _method(calls.decisions)
    events = _method(calls.events)
    follow = _stream(calls.follow)
    compare = _method(calls.compare)
    submit = _method(calls.submit)
    cancel = _method(calls.cancel)
    change = _method(calls.change)

    def rows(self, stream: StreamCall[R]) -> Iterator[R]:
        """Send a request whose answer goes on."""
        call, lines = stream.call, StreamLines(stream.row)
        try:
            with self._http.stream(**call.sent_to(self._server), headers=calls.STREAM) as answer:
                if answer.status_code != httpx2.codes.OK:
                    calls.decoded(call, answer.status_code, answer.read())
                for line in answer.iter_lines():
                    yield from lines.take(line)
        except httpx2.HTTPError as error:
            raise calls.unreached(self._server, error) from error
        if stream.has_end and not lines.has_ended:
            raise calls.broken_off(self._server)

    def call(self, call: Call[R]) -> R:
        """Send a request."""
        try:
            answer = self._http.request(**call.sent_to(self._server))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise calls.unreached(self._server, error) from error
        return calls.decoded(call, answer.status_code, answer.content)
