"""The API's routes: what is asked over HTTP, and by whom.

It owns statuses. The operations are :mod:`steepest.gateway.openapi`'s, the answers :mod:`steepest.gateway.reading`'s.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from steepest.errors import InputError, LogError, SteepestError
from steepest.gateway import reading
from steepest.gateway.access import AccessRefusedError, Grants
from steepest.gateway.answers import ChangeRequest, Failure, Submission
from steepest.gateway.asking import Asking
from steepest.gateway.metrics import GatewayMetrics
from steepest.gateway.openapi import (
    OPERATIONS,
    CompareQuery,
    DecisionsQuery,
    EventsQuery,
    JobsQuery,
    ListQuery,
    LogQuery,
    Operation,
    PoolQuery,
    TimelineQuery,
)
from steepest.gateway.pool.pictures import queue_rows, totals, whole
from steepest.gateway.pool.timeline import Window, timeline
from steepest.gateway.pools import Served, ServedPool
from steepest.gateway.shares import CallerShares, LargeAnswer, Looks
from steepest.gateway.sse import LOGS_MOST, STREAMS_MOST, StreamResponse, Streams
from steepest.gateway.streams import changes_since, events_since, printed_since
from steepest.read_models.comparison import compared
from steepest.read_models.decisions import DecisionEntry
from steepest.read_models.job_rows import PoolMoment
from steepest.trace_context import trace_in
from steepest.untrusted.body import bounded_body

BODY_MOST = 512 * 1024
"""Bytes of a request: twice what a log takes of a submission."""

LARGE_BYTES = 64 * 1024
LARGE_MOST = 32
"""Answers that are larger, and that their readers have not taken yet."""

RETRY_AFTER_S = "5"
"""For callers of what there is too much of."""

STATUSES = {
    "unauthorized": HTTPStatus.UNAUTHORIZED,
    "forbidden": HTTPStatus.FORBIDDEN,
    "no-such-job": HTTPStatus.NOT_FOUND,
    "no-such-node": HTTPStatus.NOT_FOUND,
    "no-such-pool": HTTPStatus.NOT_FOUND,
    "offset-missing": HTTPStatus.NOT_FOUND,
    "job-over": HTTPStatus.CONFLICT,
    "not-changed": HTTPStatus.CONFLICT,
    "recording": HTTPStatus.CONFLICT,
    "too-large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "too-many-jobs": HTTPStatus.TOO_MANY_REQUESTS,
    "busy": HTTPStatus.SERVICE_UNAVAILABLE,
}
"""The status of each error; any other error of the input is 400, and one of the log 503."""


B = TypeVar("B", Submission, ChangeRequest)

Handler = Callable[[Request, Any], Awaitable[Any]]


class Api:
    """The routes over what is served."""

    def __init__(self, served: Served, grants: Grants, metrics: GatewayMetrics, connections: int) -> None:
        """The most connections, a fifth of which no stream takes."""
        self._served = served
        self._grants = grants
        self._metrics = metrics
        self._streams = Streams(metrics.stalled.inc, min(STREAMS_MOST, connections * 7 // 10))
        self._logs = Streams(metrics.stalled.inc, min(LOGS_MOST, connections // 10))
        self._unread = CallerShares(LARGE_MOST, "large answers")
        self._looks = Looks()
        self._asking = Asking(served.clock, grants)
        metrics.watch_streams(lambda: self._streams.shares.held + self._logs.shares.held)

    def routes(self) -> list[Route]:
        """All of them."""
        return [self._route(one, getattr(self, f"_{one.name}")) for one in OPERATIONS]

    def _route(self, one: Operation, handler: Handler) -> Route:
        operation = f"{one.method.upper()} {one.path}"

        async def endpoint(request: Request) -> Response:
            begun = time.perf_counter()
            answer = await answered(request)
            if not isinstance(answer, StreamResponse):
                self._metrics.answered(operation, answer.status_code, time.perf_counter() - begun)
            return answer

        async def answered(request: Request) -> Response:
            try:
                request.state.caller = self._grants.caller(
                    request.headers, request.client.host if request.client else ""
                )
                request.state.caller.refuse_below(one.role)
                answer = await handler(request, _query(request, one.query))
                answer = answer if isinstance(answer, Response) else as_json(answer)
                is_large = not isinstance(answer, StreamResponse) and len(answer.body) > LARGE_BYTES
                return LargeAnswer(self._unread, request.state.caller.name, answer) if is_large else answer
            except SteepestError as error:
                return failure(error)
            except ClientDisconnect:
                return Response(status_code=HTTPStatus.BAD_REQUEST)

        return Route(f"/api/v1{one.path}", endpoint, methods=[one.method.upper()], name=operation)

    def _pool(self, query: Any) -> ServedPool:
        return self._served.pool(query.pool)

    async def _get_pools(self, request: Request, query: Any) -> Any:  # noqa: ARG002 - the form of handlers
        return await reading.pools(self._served)

    async def _seen(self, request: Request, query: Any) -> tuple[PoolMoment, Sequence[DecisionEntry]]:
        """A pool now, or before the record of an offset, with the newest entries by then."""
        pool, at = self._pool(query), query.at
        if at is None:
            return pool.feed, pool.feed.decisions
        found: tuple[PoolMoment, Sequence[DecisionEntry]] = await self._looks.result(
            request, (pool.feed.name, at), lambda: pool.past.at(at)
        )
        return found

    async def _get_jobs(self, request: Request, query: JobsQuery) -> Any:
        moment, _ = await self._seen(request, query)
        return reading.jobs(moment, phase=query.phase, after=query.after, limit=query.limit)

    async def _get_jobs_job(self, request: Request, query: ListQuery) -> Any:
        moment, _ = await self._seen(request, query)
        return reading.job(moment, request.path_params["job"])

    async def _get_jobs_job_explain(self, request: Request, query: ListQuery) -> Any:
        pool, name = self._pool(query), request.path_params["job"]
        key = (pool.feed.name, name, query.at, pool.feed.view.position if query.at is None else 0)
        return await self._looks.result(request, key, lambda: reading.timeline(pool, name, query.at))

    async def _get_jobs_job_curve(self, request: Request, query: PoolQuery) -> Any:
        return reading.curve(self._pool(query), request.path_params["job"])

    async def _get_nodes(self, request: Request, query: ListQuery) -> Any:
        return reading.nodes((await self._seen(request, query))[0])

    async def _get_queue(self, request: Request, query: ListQuery) -> Any:
        return reading.queue((await self._seen(request, query))[0])

    async def _get_decisions(self, request: Request, query: DecisionsQuery) -> Any:
        moment, entries = await self._seen(request, query)
        return reading.decisions(moment, entries, about=query.job, limit=query.limit)

    async def _get_picture(self, request: Request, query: ListQuery) -> Any:
        feed, (moment, entries) = self._pool(query).feed, await self._seen(request, query)
        if query.at is None:
            return feed.changes()
        return whole(feed.name, moment, entries, totals(moment.view, 0), up=False)

    async def _get_timeline(self, request: Request, query: TimelineQuery) -> Any:
        if query.begin is not None and query.to is not None and query.begin > query.to:
            raise InputError(f"the timeline ends at {query.to}, before it begins at {query.begin}")
        feed, (moment, _) = self._pool(query).feed, await self._seen(request, query)
        window = Window(begin_ms=query.begin, end_ms=query.to, width=query.width, at=query.at)
        queue = feed.newest_queue() if query.at is None else queue_rows(moment.view)
        return timeline(moment, queue, feed.history, feed.timeline.jobs, window)

    async def _get_strip(self, request: Request, query: PoolQuery) -> Any:  # noqa: ARG002
        return reading.strip(self._pool(query))

    async def _get_compare(self, request: Request, query: CompareQuery) -> Any:  # noqa: ARG002
        first = self._pool(query)
        others = [pool for pool in self._served.pools.values() if pool is not first]
        second = self._served.pool(query.other) if query.other else next(iter(others), first)
        return compared(*((one.feed.name, one.title, one.feed.timeline) for one in (first, second)))

    async def _get_dead_letters(self, request: Request, query: PoolQuery) -> Any:  # noqa: ARG002
        return reading.letters(self._pool(query))

    async def _get_events(self, request: Request, query: EventsQuery) -> Any:
        pool = self._pool(query)
        if not _wants_stream(request):
            return await reading.events(pool, query.since, query.limit)
        last = _last_id(request)
        since = await reading.first_offset(pool, query.since) if last is None else last + 1
        return await self._stream(request, events_since(pool, since))

    async def _get_live(self, request: Request, query: PoolQuery) -> Any:
        return await self._stream(request, changes_since(self._pool(query), _last_id(request)))

    async def _get_jobs_job_log(self, request: Request, query: LogQuery) -> Any:
        pool, name = self._pool(query), request.path_params["job"]
        if not _wants_stream(request):
            return await reading.printed(pool, name, query.replica, query.incarnation, query.lines)
        folder, whose = reading.output_of(pool, name, query.replica)
        lines = printed_since(pool, folder, whose, query.incarnation, query.lines)
        return await self._logs.response(lines, request.state.caller.name)

    async def _stream(self, request: Request, events: AsyncGenerator[bytes, None]) -> Response:
        return await self._streams.response(events, request.state.caller.name)

    async def _post_jobs(self, request: Request, query: PoolQuery) -> Any:
        self._refuse_recording()
        submission = _decoded(await body(request), Submission)
        pool, trace = self._pool(query), trace_in(request.headers)
        return await self._asking.submit(pool, submission, request.state.caller, trace)

    async def _delete_jobs_job(self, request: Request, query: PoolQuery) -> Any:
        self._refuse_recording()
        trace = trace_in(request.headers)
        return await self._asking.cancel(self._pool(query), request.path_params["job"], trace)

    async def _post_changes(self, request: Request, query: PoolQuery) -> Any:
        self._refuse_recording()
        wanted = _decoded(await body(request), ChangeRequest)
        return await self._asking.change(self._pool(query), wanted, request.state.caller, trace_in(request.headers))

    def _refuse_recording(self) -> None:
        if self._served.recordings:
            raise InputError("this is a recording, which never changes", code="recording")


def as_json(answer: Any, status: int = HTTPStatus.OK) -> Response:
    """An answer for programs."""
    return Response(msgspec.json.encode(answer), status, media_type="application/json")


def failure(error: SteepestError) -> Response:
    """An error for programs."""
    default = HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, LogError) else HTTPStatus.BAD_REQUEST
    status = STATUSES.get(error.code, default)
    headers = {"www-authenticate": "Bearer"} if isinstance(error, AccessRefusedError) and not error.known else {}
    if error.code == "busy":
        headers["retry-after"] = RETRY_AFTER_S
    answer = as_json(Failure(code=error.code, message=str(error), hint=error.hint), status)
    answer.headers.update(headers)
    return answer


async def body(request: Request) -> bytes:
    """A request's body.

    Raises:
        InputError: It is too large, or is not said to be JSON: a form of a foreign page cannot say that.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InputError("the body is not said to be JSON", hint="send `Content-Type: application/json`")
    return await bounded_body(request.stream(), BODY_MOST)


def _query(request: Request, kind: type[msgspec.Struct]) -> Any:
    try:
        return msgspec.convert(dict(request.query_params), kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"the query is wrong: {error}") from error


def _decoded(data: bytes, kind: type[B]) -> B:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"the body is wrong: {error}") from error


def _wants_stream(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


def _last_id(request: Request) -> int | None:
    """Where a reader that comes back goes on; what is no offset is as if nothing was said."""
    text = request.headers.get("last-event-id", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else None  # noqa: PLR2004 - below 2⁵³
