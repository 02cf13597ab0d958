"""Each call as data: what is asked, and the type of the answer. Both clients send these, so that they cannot differ.

It owns paths, parameters and errors. It must never send anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Generic, Literal, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from steepest.errors import SteepestError
from steepest.events.requests import JobSpec
from steepest.gateway import answers as a
from steepest.gateway.answers import Answer, EventRow, Failure, PrintedLine, Submission
from steepest.read_models.comparison import RunComparison
from steepest.read_models.job_rows import JobRow
from steepest.read_models.job_timeline import JobTimeline

A = TypeVar("A")
R_co = TypeVar("R_co", covariant=True)

TIMEOUT_S = 30.0
"""More than the gateway waits for a system's answer."""

PAGE = 1_000

JSON: Mapping[str, str] = {"accept": "application/json", "content-type": "application/json"}

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


class Call(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """One request."""

    path: str
    answer: type[A]
    query: Mapping[str, str] = {}
    method: str = "GET"
    body: bytes | None = None


def pools() -> Call[a.Pools]:
    """Every pool."""
    return Call(path="/pools", answer=a.Pools)


def jobs(pool: str | None, at: int | None, phase: str | None, after: str | None) -> Call[a.JobPage]:
    """A page of jobs."""
    query = _query(pool=pool, at=at, phase=phase, after=after, limit=PAGE)
    return Call(path="/jobs", query=query, answer=a.JobPage)


def job(name: str, pool: str | None, at: int | None) -> Call[JobRow]:
    """One job."""
    return Call(path=_of(name), query=_query(pool=pool, at=at), answer=JobRow)


def explain(name: str, pool: str | None, at: int | None) -> Call[JobTimeline]:
    """Every decision about a job."""
    return Call(path=f"{_of(name)}/explain", query=_query(pool=pool, at=at), answer=JobTimeline)


def log(name: str, pool: str | None, replica: int, incarnation: int | None, lines: int) -> Call[a.JobLog]:
    """What a job printed last."""
    query = _query(pool=pool, replica=replica, incarnation=incarnation, lines=lines)
    return Call(path=f"{_of(name)}/log", query=query, answer=a.JobLog)


def nodes(pool: str | None, at: int | None) -> Call[a.NodePage]:
    """All nodes."""
    return Call(path="/nodes", query=_query(pool=pool, at=at), answer=a.NodePage)


def queue(pool: str | None, at: int | None) -> Call[a.QueuePage]:
    """The queue."""
    return Call(path="/queue", query=_query(pool=pool, at=at), answer=a.QueuePage)


def decisions(pool: str | None, at: int | None, about: str | None, limit: int) -> Call[a.DecisionPage]:
    """What was decided last."""
    return Call(path="/decisions", query=_query(pool=pool, at=at, job=about, limit=limit), answer=a.DecisionPage)


def events(pool: str | None, since: int, limit: int) -> Call[a.EventPage]:
    """A part of a pool's log."""
    return Call(path="/events", query=_query(pool=pool, since=since, limit=limit), answer=a.EventPage)


def follow(pool: str | None, since: int) -> Call[a.EventPage]:
    """A pool's log from an offset on, as a stream."""
    return Call(path="/events", query=_query(pool=pool, since=since), answer=a.EventPage)


def compare(pool: str, other: str) -> Call[RunComparison]:
    """Two pools, job by job."""
    return Call(path="/compare", query=_query(pool=pool, other=other), answer=RunComparison)


def submit(name: str, spec: JobSpec, pool: str | None, request: str | None) -> Call[Answer]:
    """Ask for a job to run."""
    body = msgspec.json.encode(Submission(job=name, spec=spec, request=request))
    return Call(path="/jobs", query=_query(pool=pool), method="POST", body=body, answer=Answer)


def cancel(name: str, pool: str | None) -> Call[Answer]:
    """Ask for a job to stop for good."""
    return Call(path=_of(name), query=_query(pool=pool), method="DELETE", answer=Answer)


def decoded(call: Call[A], status: int, data: bytes) -> A:
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
        return msgspec.json.decode(data, type=call.answer)
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


class StreamReader(Protocol[R_co]):
    """Makes rows of the lines of a stream."""

    def take(self, line: str) -> Iterator[R_co]:
        """The row that a line completes, if any."""


class EventLines:
    """Makes events of the lines of a stream.

    Attributes:
        position: The offset at which a new stream goes on.
    """

    def __init__(self, position: int) -> None:
        self.position = position

    def take(self, line: str) -> Iterator[EventRow]:
        """The event that a line completes, if any."""
        if line.startswith("data: "):
            row = msgspec.json.decode(line[6:], type=EventRow)
            self.position = row.offset + 1
            yield row


class PrintedLines:
    """Makes printed lines of the lines of a stream.

    Attributes:
        ended: Whether the gateway has said that nothing more will be printed.
    """

    def __init__(self) -> None:
        self.ended = False

    def take(self, line: str) -> Iterator[PrintedLine]:
        """The printed line that a line of the stream completes, if any."""
        if line == "event: end":
            self.ended = True
        elif line.startswith("data: ") and not self.ended:
            yield msgspec.json.decode(line[6:], type=PrintedLine)


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
