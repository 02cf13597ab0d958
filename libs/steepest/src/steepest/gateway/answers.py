"""The answers of the API, except the rows of the read models. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from steepest.events.common import Name
from steepest.events.requests import JobSpec
from steepest.gateway.pool.changes import QueueRow, Totals
from steepest.read_models.changes.job_changes import ChangeKind
from steepest.read_models.decisions import DecisionEntry
from steepest.read_models.job_rows import JobRow
from steepest.read_models.node_rows import NodeRow
from steepest.read_models.pool_course import CoursePoint, PolicyPeriod

RequestName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,64}$(?!\n)")]


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to run.

    Attributes:
        request: The caller's name for this request, so that sending it twice asks once; None: one is made.
    """

    job: Name
    spec: JobSpec
    request: RequestName | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a request.

    Attributes:
        state: ``admitted``, ``rejected``, ``ended``; or ``queued``: no system has answered yet.
        offset: The request's record in the pool's log.
    """

    job: str
    request: str
    state: str
    offset: int
    reason: str = ""


JobPattern = Annotated[str, msgspec.Meta(max_length=200)]


class ChangeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of jobs, or of a node.

    Attributes:
        jobs: Names and patterns; ``array``, ``queue`` and ``node``: only those of them; without any of the four, none.
        node: The node that is drained or opened, or that jobs are on.
        to: The priority (a number, or the name of a class), or the node that jobs move to.
        dry: Whether it is only asked what would become of them, and at what price.
        request: The caller's name for this request, so that sending it twice asks once; None: one is made.
    """

    change: ChangeKind
    jobs: Annotated[Sequence[JobPattern], msgspec.Meta(max_length=10_000)] = ()
    array: JobPattern = ""
    queue: JobPattern = ""
    node: Name | None = None
    to: JobPattern = ""
    dry: bool = False
    request: RequestName | None = None


class ChangeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one of them.

    Attributes:
        name: The job or the node.
        done: Whether it is changed.
        said: How, as the rest of a sentence; or why not.
        price: What it costs, in sentences.
        again: The name under which a job runs again.
    """

    name: str
    done: bool
    said: str
    price: str = ""
    again: str = ""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of all of them; ``offset``: everything that was asked has a lower one."""

    offset: int
    answers: Sequence[ChangeAnswer]


class PoolRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pool.

    Attributes:
        begin: The first offset of its log that is left.
        position: The offset of the next record.
        up: Whether a system runs on it.
        age_ms: How long ago its newest record was written; 0 of a recording.
        behind: Records that the gateway has not read yet.
        rules: Policy, queue, preemption and interval in one line.
        parameters: Those in force, as `PoolConfigured` has them.
    """

    pool: str
    title: str
    begin: int
    position: int
    at_ms: int
    up: bool
    age_ms: int
    behind: int
    totals: Totals
    rules: str
    parameters: Mapping[str, Any]


class Strip(msgspec.Struct, frozen=True, kw_only=True):
    """A pool's whole log at one look.

    Attributes:
        points: Its use by category, at up to 600 moments and now.
        trouble: When jobs failed, nodes were lost, or something was found about a job: the newest 600.
        periods: Its policies, oldest first.
    """

    points: Sequence[CoursePoint]
    trouble: Sequence[int]
    periods: Sequence[PolicyPeriod]


class Pools(msgspec.Struct, frozen=True, kw_only=True):
    """All pools.

    Attributes:
        recording: Whether they are recordings, which never change.
    """

    version: str
    recording: bool
    pools: Sequence[PoolRow]


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in the order of their submission; ``next`` is the ``after`` of the next page, and None on the last one."""

    offset: int
    jobs: Sequence[JobRow]
    next: str | None = None


class NodePage(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes, before the record of an offset."""

    offset: int
    nodes: Sequence[NodeRow]


class QueuePage(msgspec.Struct, frozen=True, kw_only=True):
    """The queue in its order, before the record of an offset."""

    offset: int
    queue: Sequence[QueueRow]


class DecisionPage(msgspec.Struct, frozen=True, kw_only=True):
    """The newest entries before the record of an offset, oldest first."""

    offset: int
    decisions: Sequence[DecisionEntry]


class EventRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record of a pool's log.

    Attributes:
        partition: Of the topic ``cluster``.
        event: Its event; the values of a job's variables are masked.
        sentence: The event in words.
        unreadable: Why there is no event in it; empty where there is one.
    """

    offset: int
    at_ms: int
    partition: int = 0
    key: str = ""
    headers: Mapping[str, str] = {}
    type: str = ""
    sentence: str = ""
    event: Any = None
    unreadable: str = ""


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Records; ``next`` is the offset of the one after them."""

    next: int
    events: Sequence[EventRow]


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A record that could not be read: ``TOPIC/PARTITION@OFFSET``, its key, why, and how many bytes it has."""

    record: str
    key: str
    reason: str
    bytes: int


class LetterPage(msgspec.Struct, frozen=True, kw_only=True):
    """The newest dead letters of an installation, oldest first."""

    letters: Sequence[Letter]


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A mean of the loss: when it was known, at what step, and after how much CPU time; -1: unknown."""

    at_ms: int
    loss: float
    step: int = -1
    cpu_ms: int = -1


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """The course of a job's loss.

    Attributes:
        points: The mean of each interval; of many, every second, fourth, …
        categories: Each category with when it began.
        limits: Each CPU limit in millicores with when it came in force; None: no limit any more.
    """

    job: str
    points: Sequence[Point]
    categories: Sequence[tuple[int, str]]
    limits: Sequence[tuple[int, int | None]]


class JobLog(msgspec.Struct, frozen=True, kw_only=True):
    """The last lines that an incarnation of a job's replica printed, oldest first. Bytes that are no text are replaced.

    Attributes:
        incarnation: Whose they are; None: nothing that it printed is kept on the gateway's machine.
        earlier: Whether there are lines before these.
    """

    job: str
    replica: int
    incarnation: int | None = None
    lines: Sequence[str] = ()
    earlier: bool = False


class PrintedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line as it is followed."""

    incarnation: int
    line: str


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was refused: a stable code, a sentence, and the first step to take."""

    code: str
    message: str
    hint: str = ""
