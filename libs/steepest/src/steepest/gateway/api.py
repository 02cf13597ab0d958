"""The API's routes: what is asked over HTTP, and by whom.

It owns parameters, roles and statuses. What is answered is :mod:`steepest.gateway.reading`'s.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from steepest.errors import InputError, LogError, SteepestError
from steepest.events.common import Name
from steepest.gateway import reading
from steepest.gateway.access import AccessRefusedError, AccessRole, Grants, credentials
from steepest.gateway.answers import Failure, Submission
from steepest.gateway.asking import Asking
from steepest.gateway.metrics import GatewayMetrics
from steepest.gateway.pools import Served, ServedPool
from steepest.gateway.sse import LOGS_MOST, StreamResponse, Streams, TooManyStreamsError
from steepest.gateway.streams import changes_since, events_since, printed_since
from steepest.read_models.comparison import compared
from steepest.trace_context import trace_in
from steepest.untrusted.body import bounded_body

BODY_MOST = 512 * 1024
"""Bytes of a request: twice what a log takes of a submission."""

Offset = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=reading.PAGE_MOST)]
Rank = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Incarnation = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Lines = Annotated[int, msgspec.Meta(ge=0, le=reading.PAGE_MOST)]
Phases = Annotated[
    str, msgspec.Meta(pattern=r"^(waiting|suspended|running|stopped|ended|finished|failed|cancelled)$(?!\n)")
]

STATUSES = {
    "unauthorized": HTTPStatus.UNAUTHORIZED,
    "forbidden": HTTPStatus.FORBIDDEN,
    "no-such-job": HTTPStatus.NOT_FOUND,
    "no-such-pool": HTTPStatus.NOT_FOUND,
    "offset-missing": HTTPStatus.NOT_FOUND,
    "job-over": HTTPStatus.CONFLICT,
    "recording": HTTPStatus.CONFLICT,
    "too-large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "too-many-streams": HTTPStatus.SERVICE_UNAVAILABLE,
}
"""Of errors; any other error of the input is 400, and one of the log 503."""


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a resource that has a past.

    Attributes:
        pool: The pool; without it, the first.
        at: An offset of the pool's log: what was known before that record.
    """

    pool: Name | None = None
    at: Offset | None = None


class JobsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of jobs.

    Attributes:
        phase: Only jobs in this phase, or with this outcome.
        after: The job after which the page begins.
    """

    pool: Name | None = None
    at: Offset | None = None
    phase: Phases | None = None
    after: Name | None = None
    limit: Limit = 100


class DecisionsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of decisions; ``job``: only those about it."""

    pool: Name | None = None
    at: Offset | None = None
    job: Name | None = None
    limit: Limit = 100


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of events; ``since``: the first offset. With ``Accept: text/event-stream`` they go on as they happen."""

    pool: Name | None = None
    since: Offset = 0
    limit: Limit = 100


class PoolQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of what has no past."""

    pool: Name | None = None


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of what takes none."""


class LogQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of what a job printed. With ``Accept: text/event-stream`` it goes on until the job is over.

    Attributes:
        replica: The process of a gang, by its rank.
        incarnation: Its number; without it, the newest.
        lines: How many of the last lines.
    """

    pool: Name | None = None
    replica: Rank = 0
    incarnation: Incarnation | None = None
    lines: Lines = 100


class CompareQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a comparison: the two pools; without them, the first two."""

    pool: Name | None = None
    other: Name | None = None


Handler = Callable[[Request, Any], Awaitable[Any]]


class Api:
    """The routes over what is served."""

    def __init__(self, served: Served, grants: Grants, metrics: GatewayMetrics) -> None:
        self._served = served
        self._grants = grants
        self._metrics = metrics
        self._streams = Streams(metrics.stalled.inc)
        self._logs = Streams(metrics.stalled.inc, LOGS_MOST)
        metrics.watch_streams(lambda: self._streams.open + self._logs.open)

    def routes(self) -> list[Route]:
        """All of them, as :data:`steepest.gateway.openapi.OPERATIONS` describes them."""
        return [
            self._route("/pools", self._pools, NoQuery),
            self._route("/jobs", self._jobs, JobsQuery),
            self._route("/jobs", self._submit, PoolQuery, method="POST", role=AccessRole.SUBMIT),
            self._route("/jobs/{job}", self._job, ListQuery),
            self._route("/jobs/{job}", self._cancel, PoolQuery, method="DELETE", role=AccessRole.OPERATE),
            self._route("/jobs/{job}/explain", self._explain, ListQuery),
            self._route("/jobs/{job}/curve", self._curve, PoolQuery),
            self._route("/jobs/{job}/log", self._printed, LogQuery, role=AccessRole.SUBMIT),
            self._route("/nodes", self._nodes, ListQuery),
            self._route("/queue", self._queue, ListQuery),
            self._route("/decisions", self._decisions, DecisionsQuery),
            self._route("/events", self._events, EventsQuery),
            self._route("/picture", self._picture, ListQuery),
            self._route("/live", self._live, PoolQuery),
            self._route("/compare", self._compare, CompareQuery),
            self._route("/dead-letters", self._letters, PoolQuery),
        ]

    def _route(
        self,
        path: str,
        handler: Handler,
        query: type[msgspec.Struct],
        *,
        method: str = "GET",
        role: AccessRole = AccessRole.READ,
    ) -> Route:
        operation = f"{method} {path}"

        async def endpoint(request: Request) -> Response:
            begun = time.perf_counter()
            answer = await answered(request)
            if not isinstance(answer, StreamResponse):
                self._metrics.answered(operation, answer.status_code, time.perf_counter() - begun)
            return answer

        async def answered(request: Request) -> Response:
            try:
                self._grants.refuse_below(role, credentials(request.headers))
                answer = await handler(request, _query(request, query))
            except SteepestError as error:
                return failure(error)
            except TooManyStreamsError:
                return failure(InputError("too many streams are open", code="too-many-streams"))
            except ClientDisconnect:
                return Response(status_code=HTTPStatus.BAD_REQUEST)
            return answer if isinstance(answer, Response) else as_json(answer)

        return Route(f"/api/v1{path}", endpoint, methods=[method], name=operation)

    def _pool(self, query: Any) -> ServedPool:
        return self._served.pool(query.pool)

    async def _pools(self, request: Request, query: Any) -> Any:  # noqa: ARG002 - the form of handlers
        return await reading.pools(self._served)

    async def _jobs(self, request: Request, query: JobsQuery) -> Any:  # noqa: ARG002
        moment, _ = await reading.seen(self._pool(query), query.at)
        return reading.jobs(moment, phase=query.phase, after=query.after, limit=query.limit)

    async def _job(self, request: Request, query: ListQuery) -> Any:
        moment, _ = await reading.seen(self._pool(query), query.at)
        return reading.job(moment, request.path_params["job"])

    async def _explain(self, request: Request, query: ListQuery) -> Any:
        return await reading.story(self._pool(query), request.path_params["job"], query.at)

    async def _curve(self, request: Request, query: PoolQuery) -> Any:
        return reading.curve(self._pool(query), request.path_params["job"])

    async def _nodes(self, request: Request, query: ListQuery) -> Any:  # noqa: ARG002
        return reading.nodes((await reading.seen(self._pool(query), query.at))[0])

    async def _queue(self, request: Request, query: ListQuery) -> Any:  # noqa: ARG002
        return reading.queue((await reading.seen(self._pool(query), query.at))[0])

    async def _decisions(self, request: Request, query: DecisionsQuery) -> Any:  # noqa: ARG002
        moment, entries = await reading.seen(self._pool(query), query.at)
        return reading.decisions(moment, entries, about=query.job, limit=query.limit)

    async def _picture(self, request: Request, query: ListQuery) -> Any:  # noqa: ARG002
        return await reading.picture(self._pool(query), query.at)

    async def _compare(self, request: Request, query: CompareQuery) -> Any:  # noqa: ARG002
        first = self._pool(query)
        others = [pool for pool in self._served.pools.values() if pool is not first]
        second = self._served.pool(query.other) if query.other else next(iter(others), first)
        return compared(*((one.feed.name, one.title, one.feed.story) for one in (first, second)))

    async def _letters(self, request: Request, query: PoolQuery) -> Any:  # noqa: ARG002
        return reading.letters(self._pool(query))

    async def _events(self, request: Request, query: EventsQuery) -> Any:
        pool = self._pool(query)
        if not _wants_stream(request):
            return await reading.events(pool, query.since, query.limit)
        last = _last_id(request)
        return self._stream(lambda: events_since(pool, query.since if last is None else last + 1))

    async def _live(self, request: Request, query: PoolQuery) -> Any:
        pool, last = self._pool(query), _last_id(request)
        return self._stream(lambda: changes_since(pool, last))

    async def _printed(self, request: Request, query: LogQuery) -> Any:
        pool, name = self._pool(query), request.path_params["job"]
        if not _wants_stream(request):
            return await reading.printed(pool, name, query.replica, query.incarnation, query.lines)
        folder, whose = reading.output_of(pool, name, query.replica)
        return self._logs.response(printed_since(pool, folder, whose, query.incarnation, query.lines))

    def _stream(self, source: Callable[[], AsyncIterator[bytes]]) -> Response:
        return self._streams.response(source())

    async def _submit(self, request: Request, query: PoolQuery) -> Any:
        self._refuse_recording()
        submission = _decoded(await body(request), Submission)
        return await Asking(self._served.clock).submit(self._pool(query), submission, trace_in(request.headers))

    async def _cancel(self, request: Request, query: PoolQuery) -> Any:
        self._refuse_recording()
        asking, trace = Asking(self._served.clock), trace_in(request.headers)
        return await asking.cancel(self._pool(query), request.path_params["job"], trace)

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


def _decoded(data: bytes, kind: type[Submission]) -> Submission:
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
