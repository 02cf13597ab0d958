"""Records to events and back.

It owns the difference between a record of a later version and one that no version can read. The first stops the reader,
because a reader that skips what others fold gets another view; every reader skips the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from steepest.errors import BugError, InputError, LogVersionError, UndecodableError
from steepest.events.cluster import JobSubmitted, PoolConfigured
from steepest.events.received import ID, DecisionId, Received
from steepest.events.registry import CLUSTER, TOPICS, UNKNOWN_VALUE, encode
from steepest.log.base import Log, NewRecord, Record, TopicPartition
from steepest.runtime.decision_stream import MintedDecision
from steepest.trace_context import TRACEPARENT, trace_of_request
from steepest.view.cluster_view import refuse_unknown_version

LARGEST_REQUEST = 256 * 1024
"""Bytes. It is kept in every view and snapshot until the job is over; a system starts no program with many more."""

SUBMISSION_S = 10.0
"""Within this time a log gives a record that it has."""


def received(record: Record) -> Received[Any]:
    """The event in a record.

    Raises:
        UndecodableError: There is none, or the record is damaged.
        LogVersionError: There is one that only a later version knows.
    """
    if record.damage:
        raise UndecodableError(record.damage, code="damaged")
    at = record.at
    try:
        event = TOPICS[at.topic].decode(record.value)
    except UndecodableError as error:
        if at.topic == CLUSTER.name:
            _refuse_what_came_later(record, error)
        raise
    return Received(
        event=event,
        topic=at.topic,
        partition=at.partition,
        offset=record.offset,
        at_ms=record.at_ms,
        key=record.key,
        headers=record.headers,
    )


def new_record(
    to: TopicPartition, key: str, event: msgspec.Struct, at_ms: int, headers: Mapping[str, str] | None = None
) -> NewRecord:
    """An event as a record to append."""
    return NewRecord(to=to, key=key, value=encode(event), at_ms=at_ms, headers=headers or {})


def minted_record(minted: MintedDecision) -> NewRecord:
    """A decision as a record to append."""
    return NewRecord(
        to=minted.to, key=minted.key, value=encode(minted.event), at_ms=minted.at_ms, headers=minted.headers
    )


def asked_record(to: TopicPartition, key: str, event: msgspec.Struct, at_ms: int, trace: str = "") -> NewRecord:
    """A user's request as a record to append, which every reader can read.

    A request belongs to the trace of its caller, if ``trace`` is its ``traceparent``; otherwise its name begins one.

    Raises:
        InputError: No reader could; the message names the field.
    """
    try:
        request: str = getattr(event, "request", "")
        trace = trace or (trace_of_request(to.topic, to.partition, request) if request else "")
        record = new_record(to, key, event, at_ms, {TRACEPARENT: trace} if trace else None)
        TOPICS[to.topic].decode(record.value)
    except UnicodeEncodeError as error:
        raise InputError(
            f"this {type(event).__name__} holds what is no UTF-8 text: {error.reason}",
            code="unreadable",
            hint="name the file or the value in UTF-8",
        ) from error
    except (UndecodableError, BugError, OverflowError) as error:
        raise InputError(
            f"no reader of the log could read this {type(event).__name__}: {error}", code="unreadable"
        ) from error
    if len(record.value) > LARGEST_REQUEST:
        raise InputError(
            f"this {type(event).__name__} has {len(record.value)} bytes, more than {LARGEST_REQUEST}",
            code="too-large",
            hint="put what is long into a file, and name the file",
        )
    return record


async def submission_at(log: Log, at: TopicPartition, offset: int, request: str) -> JobSubmitted:
    """The submission that a job was made by: of a job that is over, the view keeps a part of it.

    Raises:
        InputError: The log no longer has it.
    """
    if await log.begin(at) <= offset:
        reader = log.reader({at: offset})
        try:
            for record in await reader.poll(max_records=1, timeout_s=SUBMISSION_S):
                event = received(record).event
                if isinstance(event, JobSubmitted) and event.request == request:
                    return event
        finally:
            await reader.close()
    raise InputError(f"the log no longer has the submission at {offset}", hint="submit it again")


class _Head(msgspec.Struct):
    """The fields that every version of an event has, and every version of ``PoolConfigured``."""

    type: str
    reads: int = 1
    flags: tuple[int, ...] = ()


KNOWN = {kind.__name__ for kind in CLUSTER.types}


def _refuse_what_came_later(record: Record, error: UndecodableError) -> None:
    """Stop at parameters that ask for a newer reader, and at what a newer decider wrote before they did.

    That is an event, or the name of something in an event, that this version does not have.
    """
    try:
        head = msgspec.json.decode(record.value, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if head.type == PoolConfigured.__name__:
        refuse_unknown_version(head.reads, head.flags)
    decision = DecisionId.parse(record.headers.get(ID, ""))
    is_known = head.type in KNOWN
    if decision is not None and (not is_known or error.code == UNKNOWN_VALUE):
        what = (
            f"with a value that this reader does not know ({error})" if is_known else "which this reader does not know"
        )
        raise LogVersionError(
            f"{record} is a {head.type[:100]!r} of {decision.decider}, {what}",
            hint="upgrade this service; a newer one has used what the pool's readers were not raised to",
        )
