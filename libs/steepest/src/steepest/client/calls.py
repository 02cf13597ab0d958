"""Each call as data: what is asked, and the type of the answer. These are the methods of both clients, which only send them.

It owns paths, parameters and errors. It must never send anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec

from steepest.errors import SteepestError
from steepest.events.requests import JobSpec
from steepest.gateway import answers as a
from steepest.gateway.answers import Answer, EventRow, Failure, PrintedLine, Submission
from steepest.gateway.pool.changes import QueueRow
from steepest.read_models.comparison import RunComparison
from steepest.read_models.decisions import DecisionEntry
from steepest.read_models.job_rows import JobRow
from steepest.read_models.job_timeline import JobTimeline
from steepest.read_models.node_rows import NodeRow

R = TypeVar("R")

TIMEOUT_S = 30.0
"""More than the gateway waits for a system's answer."""

PAGE = 1_000

JSON: Mapping[str, str] = {"accept": "application/json", "content-type": "application/json"}

STREAM: Mapping[str, str] = {"accept": "text/event-stream"}

OWN_HEADER = "steepest-token"
"""As :mod:`steepest.gateway.access` has it, which needs libraries that clients do not; a test holds them together."""


class GatewayError(SteepestError):
    """A gateway refused, or was not reached.

    Attributes:
        status: The HTTP status; 0: there was no answer.
    """

    code = "gateway"

    def __init__(self, message: str, *, status: int = 0, code: str | None = None, hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)
        self.status = status


class ApiStatus(msgspec.Struct, frozen=True):
    """How the API server of Kubernetes refuses, where a gateway is reached through it."""

    kind: Literal["Status"]
    message: str = ""


UNKNOWN_HINT = "set STEEPEST_CLIENT_TOKEN, or give the client its token"
"""In the words of those who use a client, which sends the header that the gateway's own hint names."""

AWAY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
"""How the API server answers for a gateway that it cannot reach."""

VERBS: Mapping[str, str] = {"GET": "get", "POST": "create", "DELETE": "delete"}
"""What rights in Kubernetes call a request through the API server."""


class Call(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """One request, and the type of its answer.

    Attributes:
        part: The field of the answer that the caller gets; empty: all of it.
    """

    path: str
    answer: type[Any]
    part: str = ""
    query: Mapping[str, str] = {}
    method: str = "GET"
    body: bytes | None = None

    def sent_to(self, server: str) -> dict[str, Any]:
        """The arguments of a client's request."""
        url = f"{server}/api/v1{self.path}"
        return {"method": self.method, "url": url, "params": dict(self.query), "content": self.body}


class StreamCall(msgspec.Struct, Generic[R], frozen=True):
    """A request whose answer goes on.

    Attributes:
        row: The type of its rows.
        has_end: Whether the gateway says when there will be no more.
    """

    call: Call[Any]
    row: type[R]
    has_end: bool = False


def pools() -> Call[a.Pools]:
    """Every pool."""
    return Call(path="/pools", answer=a.Pools)


def jobs(*, pool: str | None, at: int | None, phase: str | None, after: str | None) -> Call[a.JobPage]:
    """A page of jobs."""
    query = _query(pool=pool, at=at, phase=phase, after=after, limit=PAGE)
    return Call(path="/jobs", query=query, answer=a.JobPage)


def job(name: str, *, pool: str | None = None, at: int | None = None) -> Call[JobRow]:
    """One job."""
    return Call(path=_of(name), query=_query(pool=pool, at=at), answer=JobRow)


def explain(name: str, *, pool: str | None = None, at: int | None = None) -> Call[JobTimeline]:
    """Every decision about a job."""
    return Call(path=f"{_of(name)}/explain", query=_query(pool=pool, at=at), answer=JobTimeline)


def curve(name: str, *, pool: str | None = None) -> Call[a.Curve]:
    """The course of a job's loss."""
    return Call(path=f"{_of(name)}/curve", query=_query(pool=pool), answer=a.Curve)


def log(
    name: str, *, pool: str | None = None, replica: int = 0, incarnation: int | None = None, lines: int = 100
) -> Call[a.JobLog]:
    """What a job printed last: at most 1,000 lines."""
    query = _query(pool=pool, replica=replica, incarnation=incarnation, lines=lines)
    return Call(path=f"{_of(name)}/log", query=query, answer=a.JobLog)


def follow_log(
    name: str, *, pool: str | None = None, replica: int = 0, incarnation: int | None = None, lines: int = 100
) -> StreamCall[PrintedLine]:
    """What a job printed last, and what it prints until it is over. Where the stream breaks off, it raises."""
    asked = log(name, pool=pool, replica=replica, incarnation=incarnation, lines=lines)
    return StreamCall(asked, PrintedLine, has_end=True)


def nodes(*, pool: str | None = None, at: int | None = None) -> Call[Sequence[NodeRow]]:
    """All nodes."""
    return Call(path="/nodes", query=_query(pool=pool, at=at), answer=a.NodePage, part="nodes")


def queue(*, pool: str | None = None, at: int | None = None) -> Call[Sequence[QueueRow]]:
    """The queue, in its order."""
    return Call(path="/queue", query=_query(pool=pool, at=at), answer=a.QueuePage, part="queue")


def decisions(
    *, pool: str | None = None, at: int | None = None, job: str | None = None, limit: int = 100
) -> Call[Sequence[DecisionEntry]]:
    """What was decided last, oldest first."""
    query = _query(pool=pool, at=at, job=job, limit=limit)
    return Call(path="/decisions", query=query, answer=a.DecisionPage, part="decisions")


def events(*, pool: str | None = None, since: int | None = None, limit: int = 100) -> Call[Sequence[EventRow]]:
    """A part of a pool's log, from an offset on; None: from the first one that is kept."""
    query = _query(pool=pool, since=since, limit=limit)
    return Call(path="/events", query=query, answer=a.EventPage, part="events")


def follow(*, pool: str | None = None, since: int | None = None) -> StreamCall[EventRow]:
    """A pool's events from an offset on, and those to come; None: from the first one that is kept.

    Where the stream breaks off, or the offset is kept no more, it raises.
    """
    return StreamCall(Call(path="/events", query=_query(pool=pool, since=since), answer=a.EventPage), EventRow)


def compare(pool: str, other: str) -> Call[RunComparison]:
    """Two pools, job by job."""
    return Call(path="/compare", query=_query(pool=pool, other=other), answer=RunComparison)


def submit(name: str, spec: JobSpec, *, pool: str | None = None, request: str | None = None) -> Call[Answer]:
    """Ask for a job to run; the same ``request`` may be sent again, and asks once."""
    body = msgspec.json.encode(Submission(job=name, spec=spec, request=request))
    return Call(path="/jobs", query=_query(pool=pool), method="POST", body=body, answer=Answer)


def cancel(name: str, *, pool: str | None = None) -> Call[Answer]:
    """Ask for a job to stop for good."""
    return Call(path=_of(name), query=_query(pool=pool), method="DELETE", answer=Answer)


def change(asked: a.ChangeRequest, *, pool: str | None = None) -> Call[a.Changed]:
    """Ask for a change of jobs or of a node; with ``dry``, only what would become of them, and at what price."""
    body = msgspec.json.encode(asked)
    return Call(path="/changes", query=_query(pool=pool), method="POST", body=body, answer=a.Changed)


def decoded(call: Call[R], status: int, data: bytes) -> R:
    """The answer.

    Raises:
        GatewayError: The gateway refused, or it is none.
    """
    if status >= 400:  # noqa: PLR2004 - the first status of errors
        try:
            failure = msgspec.json.decode(data, type=Failure)
        except msgspec.DecodeError:
            if (refusal := refusal_of(f"{VERBS[call.method]} services/proxy", status, data)) is not None:
                raise refusal if status not in AWAY else _not_ready(refusal) from None
            raise GatewayError(f"the gateway answers with status {status}", status=status) from None
        hint = UNKNOWN_HINT if failure.code == "unauthorized" else failure.hint
        raise GatewayError(failure.message, status=status, code=failure.code, hint=hint)
    try:
        found: R = msgspec.json.decode(data, type=call.answer)
        return getattr(found, call.part) if call.part else found
    except msgspec.DecodeError as error:
        raise GatewayError(f"this is no answer of a gateway: {error}", status=status) from error


def refusal_of(right: str, status: int, data: bytes) -> GatewayError | None:
    """What the API server of Kubernetes means by an answer; None: the answer is not its own.

    Args:
        right: The right that the request needs, as roles name it.
        status: The HTTP status.
        data: The body.
    """
    try:
        why = " ".join(msgspec.json.decode(data, type=ApiStatus).message.split())[:500]
    except msgspec.DecodeError:
        return None
    if status == HTTPStatus.FORBIDDEN:
        hint = f"ask for a role with the right: {right}"
        return GatewayError(f"the API server refuses: {why}", status=status, code="forbidden", hint=hint)
    if status == HTTPStatus.UNAUTHORIZED:
        message, hint = f"the API server does not accept the context's credentials: {why}", "kubectl auth whoami"
        return GatewayError(message, status=status, code="unauthorized", hint=hint)
    return GatewayError(f"the API server answers with status {status}: {why}", status=status)


def _not_ready(refusal: GatewayError) -> GatewayError:
    """A gateway that the API server cannot reach has given no answer."""
    hint = "kubectl get pods -l app.kubernetes.io/component=gateway"
    return GatewayError(f"the gateway is not ready: {refusal}", code="gateway-not-ready", hint=hint)


class StreamLines(Generic[R]):
    """Makes rows of the lines of a stream.

    Attributes:
        has_ended: Whether the gateway has said that there will be no more.
    """

    def __init__(self, row: type[R]) -> None:
        self.has_ended = False
        self._row = row
        self._event = ""

    def take(self, line: str) -> Iterator[R]:
        """The row that a line completes, if any.

        Raises:
            GatewayError: The gateway says why it can give no more; the status is that of the stream.
        """
        if not line.startswith("data: "):
            self._event = line[7:] if line.startswith("event: ") else self._event if line else ""
        elif self._event == "failure":
            failure = msgspec.json.decode(line[6:], type=Failure)
            raise GatewayError(failure.message, status=HTTPStatus.OK, code=failure.code, hint=failure.hint)
        elif self._event == "end":
            self.has_ended = True
        elif not self.has_ended:
            yield msgspec.json.decode(line[6:], type=self._row)


def unreached(server: str, error: Exception) -> GatewayError:
    """There is no answer."""
    return GatewayError(
        f"no answer from {server}: {str(error) or type(error).__name__}", hint="see that the gateway runs there"
    )


def broken_off(server: str) -> GatewayError:
    """A stream ended before the job did."""
    return GatewayError(f"the gateway at {server} ended the stream", hint="ask again: it goes on from the last lines")


def headers(token: str) -> dict[str, str]:
    """What every request carries."""
    return {**JSON, **({"authorization": f"Bearer {token}"} if token else {})}


def headers_beside(authorization: str, token: str) -> dict[str, str]:
    """What every request carries where something on the way takes ``Authorization`` for itself."""
    given = {"authorization": authorization, OWN_HEADER: token}
    return {**JSON, **{name: value for name, value in given.items() if value}}


def _of(name: str) -> str:
    return f"/jobs/{quote(name, safe='')}"


def _query(**values: Any) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}
