"""The client of a gateway for synchronous code. It owns sending; the calls are :mod:`steepest.client.calls`'."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    def pools(self) -> a.Pools:
        """Every pool."""
        return self._call(calls.pools())

    def jobs(self, *, pool: str | None = None, at: int | None = None, phase: str | None = None) -> list[JobRow]:
        """All jobs in the order of their submission, or those in one phase or with one outcome."""
        rows: list[JobRow] = []
        after: str | None = None
        while True:
            page = self._call(calls.jobs(pool, at, phase, after))
            rows += page.jobs
            after = page.next
            if after is None:
                return rows

    def job(self, name: str, *, pool: str | None = None, at: int | None = None) -> JobRow:
        """One job."""
        return self._call(calls.job(name, pool, at))

    def explain(self, name: str, *, pool: str | None = None, at: int | None = None) -> JobTimeline:
        """Every decision about a job."""
        return self._call(calls.explain(name, pool, at))

    def nodes(self, *, pool: str | None = None, at: int | None = None) -> Sequence[NodeRow]:
        """All nodes."""
        return (self._call(calls.nodes(pool, at))).nodes

    def queue(self, *, pool: str | None = None, at: int | None = None) -> Sequence[QueueRow]:
        """The queue, in its order."""
        return (self._call(calls.queue(pool, at))).queue

    def decisions(
        self, *, pool: str | None = None, at: int | None = None, job: str | None = None, limit: int = 100
    ) -> Sequence[DecisionEntry]:
        """What was decided last, oldest first."""
        return (self._call(calls.decisions(pool, at, job, limit))).decisions

    def events(self, *, pool: str | None = None, since: int = 0, limit: int = 100) -> Sequence[EventRow]:
        """A part of a pool's log."""
        return (self._call(calls.events(pool, since, limit))).events

    def follow(self, *, pool: str | None = None, since: int = 0) -> Iterator[EventRow]:
        """A pool's events from an offset on, and those to come. Where the stream breaks off, it raises."""
        return self._stream(calls.follow(pool, since), EventLines(since))

    def log(
        self, name: str, *, pool: str | None = None, replica: int = 0, incarnation: int | None = None, lines: int = 100
    ) -> a.JobLog:
        """What a job printed last: at most 1,000 lines."""
        return self._call(calls.log(name, pool, replica, incarnation, lines))

    def follow_log(
        self, name: str, *, pool: str | None = None, replica: int = 0, incarnation: int | None = None, lines: int = 100
    ) -> Iterator[PrintedLine]:
        """What a job printed last, and what it prints until it is over. Where the stream breaks off, it raises."""
        reader = PrintedLines()
        yield from self._stream(calls.log(name, pool, replica, incarnation, lines), reader)
        if not reader.ended:
            raise calls.broken_off(self._server)

    def compare(self, pool: str, other: str) -> RunComparison:
        """Two pools, job by job."""
        return self._call(calls.compare(pool, other))

    def submit(self, name: str, spec: JobSpec, *, pool: str | None = None, request: str | None = None) -> Answer:
        """Ask for a job to run; the same ``request`` may be sent again, and asks once."""
        return self._call(calls.submit(name, spec, pool, request))

    def cancel(self, name: str, *, pool: str | None = None) -> Answer:
        """Ask for a job to stop for good."""
        return self._call(calls.cancel(name, pool))

    def _stream(self, call: Call[Any], reader: StreamReader[R]) -> Iterator[R]:
        try:
            with self._http.stream(
                call.method,
                f"{self._server}/api/v1{call.path}",
                params=dict(call.query),
                headers={"accept": "text/event-stream"},
            ) as stream:
                if stream.status_code != httpx2.codes.OK:
                    calls.decoded(call, stream.status_code, stream.read())
                for line in stream.iter_lines():
                    yield from reader.take(line)
        except httpx2.HTTPError as error:
            raise _unreached(self._server, error) from error

    def _call(self, call: Call[A]) -> A:
        try:
            answer = self._http.request(
                call.method, f"{self._server}/api/v1{call.path}", params=dict(call.query), content=call.body
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _unreached(self._server, error) from error
        return calls.decoded(call, answer.status_code, answer.content)


def _unreached(server: str, error: Exception) -> GatewayError:
    return GatewayError(
        f"no answer from {server}: {str(error) or type(error).__name__}", hint="see that the gateway runs there"
    )
