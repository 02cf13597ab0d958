"""The operations of the API, and the OpenAPI document that is made of them.

It owns which operations there are, what is asked in each, and what it may answer. Schemathesis holds the answers to it.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from steepest.events.common import Name
from steepest.gateway import answers as a
from steepest.gateway.access import AccessRole
from steepest.gateway.answers import Answer, Submission
from steepest.gateway.pool.changes import PoolChanges
from steepest.gateway.pool.timeline import PoolTimeline
from steepest.gateway.reading import PAGE_MOST
from steepest.read_models.comparison import RunComparison
from steepest.read_models.job_rows import JobRow
from steepest.read_models.job_timeline import JobTimeline

Offset = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=PAGE_MOST)]
Rank = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Incarnation = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Lines = Annotated[int, msgspec.Meta(ge=0, le=PAGE_MOST)]
Millis = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Pixels = Annotated[int, msgspec.Meta(ge=100, le=10_000)]
Phases = Annotated[
    str, msgspec.Meta(pattern=r"^(waiting|suspended|running|stopped|ended|finished|failed|cancelled)$(?!\n)")
]

REF = "#/components/schemas/{name}"


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of an endpoint that takes none."""


class PoolQuery(NoQuery, frozen=True, kw_only=True):
    """Parameters of an endpoint without a past; ``pool``: the pool, and without it the first."""

    pool: Name | None = None


class ListQuery(PoolQuery, frozen=True, kw_only=True):
    """Parameters of a resource that has a past; ``at``, an offset of the pool's log: the state before that record."""

    at: Offset | None = None


class JobsQuery(ListQuery, frozen=True, kw_only=True):
    """Parameters of jobs.

    Attributes:
        phase: Only jobs in this phase, or with this outcome.
        after: The job after which the page begins.
    """

    phase: Phases | None = None
    after: Name | None = None
    limit: Limit = 100


class DecisionsQuery(ListQuery, frozen=True, kw_only=True):
    """Parameters of decisions; ``job``: only those about it."""

    job: Name | None = None
    limit: Limit = 100


class EventsQuery(PoolQuery, frozen=True, kw_only=True):
    """Parameters of events; ``since``: the first offset; without it, the first one that is kept.

    With ``Accept: text/event-stream`` they go on as they happen.
    """

    since: Offset | None = None
    limit: Limit = 100


class TimelineQuery(ListQuery, frozen=True, kw_only=True):
    """Of the timeline.

    Attributes:
        begin: Wall clock in milliseconds, named ``from``; without it, as far back as suits the lengths of the runs.
        to: Likewise its end; without it, now.
        width: Pixels that it is drawn on: finer steps are joined.
    """

    begin: Millis | None = msgspec.field(name="from", default=None)
    to: Millis | None = None
    width: Pixels = 1_200


class LogQuery(PoolQuery, frozen=True, kw_only=True):
    """Parameters of a job's output. With ``Accept: text/event-stream`` it goes on until the job is over.

    Attributes:
        replica: The process of a gang, by its rank.
        incarnation: Its number; without it, the newest.
        lines: How many of the last lines.
    """

    replica: Rank = 0
    incarnation: Incarnation | None = None
    lines: Lines = 100


class CompareQuery(PoolQuery, frozen=True, kw_only=True):
    """Parameters of a comparison: the two pools; without them, the first two."""

    other: Name | None = None


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation.

    Attributes:
        answer: The type of its answer; None: the document itself.
        failures: Statuses of answers that say why not.
        streams: Whether it answers with server-sent events: always, or where they are asked for.
    """

    path: str
    summary: str
    answer: Any
    query: type[msgspec.Struct] = NoQuery
    method: str = "get"
    role: AccessRole = AccessRole.READ
    body: Any = None
    failures: Sequence[int] = (400, 401, 403, 404, 503)
    streams: bool = False

    @property
    def name(self) -> str:
        """Its id in the document, and in Python."""
        return f"{self.method}{self.path}".replace("/", "_").replace("{", "").replace("}", "").replace("-", "_")


OPERATIONS: Sequence[Operation] = (
    Operation(path="/pools", summary="Every pool, with its parameters", answer=a.Pools),
    Operation(path="/jobs", summary="Jobs, page by page", answer=a.JobPage, query=JobsQuery),
    Operation(
        path="/jobs",
        summary="Submit a job",
        method="post",
        role=AccessRole.SUBMIT,
        body=Submission,
        answer=Answer,
        query=PoolQuery,
        failures=(400, 401, 403, 404, 409, 413, 429, 503),
    ),
    Operation(path="/jobs/{job}", summary="One job", answer=JobRow, query=ListQuery),
    Operation(
        path="/jobs/{job}",
        summary="Stop a job for good",
        method="delete",
        role=AccessRole.OPERATE,
        answer=Answer,
        query=PoolQuery,
        failures=(400, 401, 403, 404, 409, 503),
    ),
    Operation(path="/jobs/{job}/explain", summary="Every decision about a job", answer=JobTimeline, query=ListQuery),
    Operation(path="/jobs/{job}/curve", summary="The course of a job's loss", answer=a.Curve, query=PoolQuery),
    Operation(
        path="/jobs/{job}/log",
        summary="What a job printed last; where `text/event-stream` is accepted, also what it goes on to print",
        role=AccessRole.SUBMIT,
        answer=a.JobLog,
        query=LogQuery,
        failures=(400, 401, 403, 404, 409, 503),
        streams=True,
    ),
    Operation(
        path="/changes",
        summary="Cancel, hold, release, suspend, resume or retry jobs, change their priority, or drain a node",
        method="post",
        role=AccessRole.OPERATE,
        body=a.ChangeRequest,
        answer=a.Changed,
        query=PoolQuery,
        failures=(400, 401, 403, 404, 409, 413, 429, 503),
    ),
    Operation(path="/nodes", summary="All nodes", answer=a.NodePage, query=ListQuery),
    Operation(path="/queue", summary="The queue, in its order", answer=a.QueuePage, query=ListQuery),
    Operation(path="/decisions", summary="What was decided last", answer=a.DecisionPage, query=DecisionsQuery),
    Operation(
        path="/events",
        summary="A pool's log; live where `text/event-stream` is accepted, with an event's offset as its id",
        answer=a.EventPage,
        query=EventsQuery,
        streams=True,
    ),
    Operation(
        path="/timeline",
        summary="Who ran where, and who waited, within a time",
        answer=PoolTimeline,
        query=TimelineQuery,
    ),
    Operation(path="/strip", summary="A pool's whole log at one look", answer=a.Strip, query=PoolQuery),
    Operation(path="/picture", summary="Everything that the live page shows", answer=PoolChanges, query=ListQuery),
    Operation(
        path="/live",
        summary="A picture, and then what changes in it, for the live page",
        answer=None,
        query=PoolQuery,
        streams=True,
    ),
    Operation(path="/compare", summary="Two pools, job by job", answer=RunComparison, query=CompareQuery),
    Operation(path="/dead-letters", summary="Records that could not be read", answer=a.LetterPage, query=PoolQuery),
)


def document() -> dict[str, Any]:
    """The document, as OpenAPI 3.1."""
    types = [a.Failure]
    types += [one for operation in OPERATIONS for one in (operation.answer, operation.body) if one is not None]
    _, components = msgspec.json.schema_components(types, ref_template=REF)
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(f"/api/v1{operation.path}", {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Steepest",
            "version": importlib.metadata.version("steepest"),
            "description": (
                "The pools of a Steepest gateway. `?at=OFFSET` gives most resources as they were before that record of "
                "the pool's log. Errors are `Failure`s. `GET /api/v1/live` and `/api/v1/events` are server-sent events "
                "whose ids are offsets: with `Last-Event-ID` a reader goes on where it was."
            ),
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "own": {"type": "apiKey", "in": "header", "name": "Steepest-Token"},
            },
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    anonymous: list[dict[str, list[str]]] = [{}] if operation.role is AccessRole.READ else []
    found: dict[str, Any] = {
        "summary": operation.summary,
        "description": f"Needs the role {operation.role.name.lower()}.",
        "operationId": operation.name,
        "parameters": [*_path_parameters(operation.path), *_query_parameters(operation.query)],
        "responses": {"200": _answer(operation), **{str(status): _failure(status) for status in operation.failures}},
        "security": [{"token": []}, {"own": []}, *anonymous],
    }
    if operation.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _schema(operation.body)}}}
    return found


def _answer(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.answer is not None:
        content["application/json"] = {"schema": _schema(operation.answer)}
    if operation.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": operation.summary, "content": content}


def _failure(status: int) -> dict[str, Any]:
    said = {400: "The query or the body is wrong", 401: "No token, or an unknown one", 403: "Another role is needed"}
    return {
        "description": said.get(status, "It cannot be done; `code` says why"),
        "content": {"application/json": {"schema": _schema(a.Failure)}},
    }


def _path_parameters(path: str) -> list[dict[str, Any]]:
    if "{job}" not in path:
        return []
    return [{"name": "job", "in": "path", "required": True, "schema": _inline(Name)}]


def _query_parameters(kind: Any) -> list[dict[str, Any]]:
    schema = _inline(kind)
    return [
        {"name": name, "in": "query", "required": False, "schema": _without_null(one)}
        for name, one in schema["properties"].items()
    ]


def _inline(kind: Any) -> dict[str, Any]:
    """A type's schema without references: it refers to no other type."""
    schema = msgspec.json.schema(kind)
    found: Mapping[str, Any] = schema.get("$defs", {})
    reference = schema.get("$ref", "")
    return dict(found[reference.rpartition("/")[2]]) if reference else dict(schema)


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter's schema: one that is left out is not null."""
    options = [dict(one) for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    cut = {key: value for key, value in schema.items() if key not in {"anyOf", "default"} or value is not None}
    if not options:
        return cut
    cut.pop("anyOf", None)
    return {**cut, **options[0]}


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REF)
    return dict(schema)
