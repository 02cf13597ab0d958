"""The client of a gateway for asynchronous code. It owns sending; the calls are :mod:`steepest.client.calls`'."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx2

from steepest.client import calls
from steepest.client.calls import Call, StreamCall, StreamLines
from steepest.read_models.job_rows import JobRow

P = ParamSpec("P")
R = TypeVar("R")


def _method(make: Callable[P, Call[R]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]]:
    @wraps(make)
    async def method(self: AsyncClient, /, *arguments: P.args, **named: P.kwargs) -> R:
        return await self.call(make(*arguments, **named))

    return method


def _stream(make: Callable[P, StreamCall[R]]) -> Callable[Concatenate[AsyncClient, P], AsyncGenerator[R, None]]:
    @wraps(make)
    def method(self: AsyncClient, /, *arguments: P.args, **named: P.kwargs) -> AsyncGenerator[R, None]:
        return self.rows(make(*arguments, **named))

    return method


class AsyncClient:
    """A gateway. ``pool`` of each method names a pool; None is the first. ``at`` is an offset of the pool's log.

    Every method raises :class:`~steepest.client.calls.GatewayError` where the gateway refuses or is not reached.
    """

    def __init__(self, server: str, token: str = "") -> None:
        """Nothing is sent yet.

        Args:
            server: Its address: ``http://127.0.0.1:8080``.
            token: What the gateway knows its caller by; empty: nothing.
        """
        self._server = server.rstrip("/")
        self._http = httpx2.AsyncClient(headers=calls.headers(token), timeout=calls.TIMEOUT_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def jobs(self, *, pool: str | None = None, at: int | None = None, phase: str | None = None) -> list[JobRow]:
        """All jobs in the order of their submission, or those in one phase or with one outcome."""
        rows: list[JobRow] = []
        after: str | None = None
        while True:
            page = await self.call(calls.jobs(pool=pool, at=at, phase=phase, after=after))
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

    async def rows(self, stream: StreamCall[R]) -> AsyncGenerator[R, None]:
        """Send a request whose answer goes on."""
        call, lines = stream.call, StreamLines(stream.row)
        try:
            async with self._http.stream(**call.sent_to(self._server), headers=calls.STREAM) as answer:
                if answer.status_code != httpx2.codes.OK:
                    calls.decoded(call, answer.status_code, await answer.aread())
                async for line in answer.aiter_lines():
                    for row in lines.take(line):
                        yield row
        except httpx2.HTTPError as error:
            raise calls.unreached(self._server, error) from error
        if stream.has_end and not lines.has_ended:
            raise calls.broken_off(self._server)

    async def call(self, call: Call[R]) -> R:
        """Send a request."""
        try:
            answer = await self._http.request(**call.sent_to(self._server))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise calls.unreached(self._server, error) from error
        return calls.decoded(call, answer.status_code, answer.content)
