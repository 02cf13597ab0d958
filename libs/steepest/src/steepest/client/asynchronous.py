"""The client of a gateway for asynchronous code. It owns sending; the calls are :mod:`steepest.client.calls`'."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Self, TypeVar

import httpx2

from steepest.client import calls
from steepest.client.calls import Call, EventLines, GatewayError, PrintedLines, StreamReader
from steepest.events.requests import JobSpec
from steepest.gateway import answers as a
from steepest.gateway.answers import Answer, EventRow, PrintedLine
from steepest.gateway.pool.changes import QueueRow
from steepest.read_models.comparison import RunComparison
from steepest.read_models.decisions import DecisionEntry
from steepest.read_models.job_rows import JobRow
from steepest.read_models.job_timeline import JobTimeline
from steepest.read_models.node_rows import NodeRow

A = TypeVar("A")
R = TypeVar("R")


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

    async def pools(self) -> a.Pools:
        """Every pool."""
        return await self._call(calls.pools())

    async def jobs(self, *, pool: str | None = None, at: int | None = None, phase: str | None = None) -> list[JobRow]:
        """All jobs in the order of their submission, or those in one phase or with one outcome."""
        rows: list[JobRow] = []
        after: str | None = None
        while True:
            page = await self._call(calls.jobs(pool, at, phase, after))
            rows += page.jobs
            after = page.next
            if after is None:
                return rows

    async def job(self, name: str, *, pool: str | None = None, at: int | None = None) -> JobRow:
        """One job."""
        return await self._call(calls.job(name, pool, at))

    async def explain(self, name: str, *, pool: str | None = None, at: int | None = None) -> JobTimeline:
        """Every decision about a job."""
        return await self._call(calls.explain(name, pool, at))

    async def nodes(self, *, pool: str | None = None, at: int | None = None) -> Sequence[NodeRow]:
        """All nodes."""
        return (await self._call(calls.nodes(pool, at))).nodes

    async def queue(self, *, pool: str | None = None, at: int | None = None) -> Sequence[QueueRow]:
        """The queue, in its order."""
        return (await self._call(calls.queue(pool, at))).queue

    async def decisions(
        self, *, pool: str | None = None, at: int | None = None, job: str | None = None, limit: int = 100
    ) -> Sequence[DecisionEntry]:
        """What was decided last, oldest first."""
        return (await self._call(calls.decisions(pool, at, job, limit))).decisions

    async def events(self, *, pool: str | None = None, since: int = 0, limit: int = 100) -> Sequence[EventRow]:
        """A part of a pool's log."""
        return (await self._call(calls.events(pool, since, limit))).events

    def follow(self, *, pool: str | None = None, since: int = 0) -> AsyncIterator[EventRow]:
        """A pool's events from an offset on, and those to come. Where the stream breaks off, it raises."""
        return self._stream(calls.follow(pool, since), EventLines(since))

    async def log(
        self, name: str, *, pool: str | None = None, replica: int = 0, incarnation: int | None = None, lines: int = 100
    ) -> a.JobLog:
        """What a job printed last: at most 1,000 lines."""
        return await self._call(calls.log(name, pool, replica, incarnation, lines))

    async def follow_log(
        self, name: str, *, pool: str | None = None, replica: int = 0, incarnation: int | None = None, lines: int = 100
    ) -> AsyncIterator[PrintedLine]:
        """What a job printed last, and what it prints until it is over. Where the stream breaks off, it raises."""
        reader = PrintedLines()
        async with aclosing(self._stream(calls.log(name, pool, replica, incarnation, lines), reader)) as rows:
            async for row in rows:
                yield row
        if not reader.ended:
            raise calls.broken_off(self._server)

    async def compare(self, pool: str, other: str) -> RunComparison:
        """Two pools, job by job."""
        return await self._call(calls.compare(pool, other))

    async def submit(self, name: str, spec: JobSpec, *, pool: str | None = None, request: str | None = None) -> Answer:
        """Ask for a job to run; the same ``request`` may be sent again, and asks once."""
        return await self._call(calls.submit(name, spec, pool, request))

    async def cancel(self, name: str, *, pool: str | None = None) -> Answer:
        """Ask for a job to stop for good."""
        return await self._call(calls.cancel(name, pool))

    async def _stream(self, call: Call[Any], reader: StreamReader[R]) -> AsyncGenerator[R, None]:
        try:
            async with self._http.stream(
                call.method,
                f"{self._server}/api/v1{call.path}",
                params=dict(call.query),
                headers={"accept": "text/event-stream"},
            ) as stream:
                if stream.status_code != httpx2.codes.OK:
                    calls.decoded(call, stream.status_code, await stream.aread())
                async for line in stream.aiter_lines():
                    for row in reader.take(line):
                        yield row
        except httpx2.HTTPError as error:
            raise _unreached(self._server, error) from error

    async def _call(self, call: Call[A]) -> A:
        try:
            answer = await self._http.request(
                call.method, f"{self._server}/api/v1{call.path}", params=dict(call.query), content=call.body
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _unreached(self._server, error) from error
        return calls.decoded(call, answer.status_code, answer.content)


def _unreached(server: str, error: Exception) -> GatewayError:
    return GatewayError(
        f"no answer from {server}: {str(error) or type(error).__name__}", hint="see that the gateway runs there"
    )
