"""Answers from what is known of a pool, now or at an earlier position.

It owns what is asked of the read models for each resource. It must never know HTTP.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from itertools import accumulate, islice

import msgspec

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.folders.printed import last_lines
from steepest.cluster.follow_printed import kept_of
from steepest.cluster.port import ReplicaId
from steepest.describe import sentence
from steepest.describe.masking import masked
from steepest.describe.rules import rules_in_force
from steepest.errors import InputError, UndecodableError
from steepest.gateway import answers as a
from steepest.gateway.pool.folding import folded
from steepest.gateway.pool.pictures import job_of, queue_rows
from steepest.gateway.pools import Served, ServedPool
from steepest.log.base import Record
from steepest.policies.placement.standing import standings
from steepest.read_models.decisions import DecisionEntry
from steepest.read_models.job_rows import JobRow, PoolMoment, job_row
from steepest.read_models.job_timeline import JobTimeline, TimelineCollector
from steepest.read_models.node_rows import node_row
from steepest.read_models.pool_history import MarkKind
from steepest.runtime.decode import received
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job

PAGE_MOST = 1_000
PAGE_BYTES = 4 * 2**20
"""The approximate size of the rows in one answer; the row that exceeds it is the last one."""

READ_AT_ONCE = 100
POINTS_MOST = 500
TROUBLE_MOST = 600
STORY_MOST = 500_000
"""Records that a job's timeline is looked for in: half a minute's work."""


async def pools(served: Served) -> a.Pools:
    """Every pool."""
    return a.Pools(
        version=importlib.metadata.version("steepest"),
        recording=served.recordings,
        pools=[await pool_row(pool) for pool in served.pools.values()],
    )


async def pool_row(pool: ServedPool) -> a.PoolRow:
    """One pool."""
    feed = pool.feed
    return a.PoolRow(
        pool=feed.name,
        title=pool.title,
        begin=await pool.log.begin(feed.at),
        position=feed.view.position,
        at_ms=feed.timeline.now_ms,
        up=feed.is_up(),
        age_ms=max(0, feed.now_ms - feed.timeline.now_ms),
        behind=max(0, await pool.log.end(feed.at) - feed.view.position),
        totals=feed.totals(),
        rules=rules_in_force(feed.view.parameters),
        parameters=msgspec.to_builtins(feed.view.parameters),
    )


def jobs(moment: PoolMoment, *, phase: str | None, after: str | None, limit: int) -> a.JobPage:
    """A page of the jobs.

    Raises:
        InputError: The job after which the page begins is not there.
    """
    wanted = (job for job in _after(moment.view, after) if phase in {None, job.phase, job.outcome})
    page = list(islice(wanted, limit + 1))
    sizes = accumulate(sum(map(len, job.spec.command)) for job in page)
    limit = min(limit, bisect_left(list(sizes), PAGE_BYTES) + 1)
    standing = standings(moment.view) if any(job.is_queued for job in page) else {}
    rows = [job_row(moment, job, None, standing.get(job.name)) for job in page[:limit]]
    return a.JobPage(offset=moment.view.position, jobs=rows, next=rows[-1].job if len(page) > limit else None)


def _after(view: ClusterView, name: str | None) -> Iterator[Job]:
    every = iter(view.jobs)
    if name is not None:
        job_of(view, name)
        for job in every:
            if job.name == name:
                break
    return every


def job(moment: PoolMoment, name: str) -> JobRow:
    """One job.

    Raises:
        InputError: There is none of that name.
    """
    found = job_of(moment.view, name)
    standing = standings(moment.view).get(name) if found.is_queued else None
    return job_row(moment, found, None, standing)


def nodes(moment: PoolMoment) -> a.NodePage:
    """All nodes."""
    return a.NodePage(offset=moment.view.position, nodes=[node_row(moment.view, node) for node in moment.view.nodes])


def queue(moment: PoolMoment) -> a.QueuePage:
    """The queue."""
    return a.QueuePage(offset=moment.view.position, queue=queue_rows(moment.view))


def decisions(moment: PoolMoment, entries: Sequence[DecisionEntry], *, about: str | None, limit: int) -> a.DecisionPage:
    """The newest entries, or those about one job."""
    chosen = [one for one in entries if about is None or about == one.job or about in one.jobs]
    return a.DecisionPage(offset=moment.view.position, decisions=chosen[-limit:])


def strip(pool: ServedPool) -> a.Strip:
    """The whole log of a pool at one look."""
    history = pool.feed.history
    trouble = [mark.at_ms for mark in history.marks if mark.kind is not MarkKind.FINISHED]
    return a.Strip(
        points=history.points_now(pool.feed.view), trouble=trouble[-TROUBLE_MOST:], periods=history.course.periods
    )


def letters(pool: ServedPool) -> a.LetterPage:
    """The newest dead letters."""
    return a.LetterPage(
        letters=[
            a.Letter(
                record=f"{one.topic}/{one.partition}@{one.offset}",
                key=one.key,
                reason=one.reason,
                bytes=len(one.value),
            )
            for one in pool.feed.dead_letters
        ]
    )


def curve(pool: ServedPool, name: str) -> a.Curve:
    """The course of a job's loss.

    Raises:
        InputError: There is no job of that name.
    """
    job_of(pool.feed.view, name)
    timeline = pool.feed.timeline.jobs.get(name)
    if timeline is None:
        return a.Curve(job=name, points=(), categories=(), limits=())
    points = [a.Point(*one) for one in timeline.points()]
    while len(points) > POINTS_MOST:
        points = points[::2]
    return a.Curve(
        job=name,
        points=points,
        categories=[(at, str(category)) for at, category in timeline.categories],
        limits=timeline.limits,
    )


async def printed(pool: ServedPool, name: str, replica: int, incarnation: int | None, lines: int) -> a.JobLog:
    """The last lines that a job printed.

    Raises:
        InputError: There is no such job, replica or incarnation, or the pool is a recording.
        UntrustedError: What is kept of it is no regular file.
    """
    folder, whose = output_of(pool, name, replica)
    kept = kept_of(folder, whose, incarnation)
    if kept is None:
        if incarnation is not None:
            raise InputError(f"nothing is kept of incarnation {incarnation} of {name}")
        return a.JobLog(job=name, replica=replica)
    texts, has_more = await asyncio.to_thread(last_lines, kept, lines)
    return a.JobLog(job=name, replica=replica, incarnation=kept.incarnation, lines=texts, earlier=has_more)


def output_of(pool: ServedPool, name: str, replica: int) -> tuple[AdapterFolder, ReplicaId]:
    """Where what a job prints is kept, and under which replica.

    Raises:
        InputError: There is no such job or replica, or the pool is a recording.
    """
    world = job_of(pool.feed.view, name).spec.world
    if pool.printed is None:
        raise InputError("a recording has nothing of what its jobs printed", code="recording")
    if replica >= world:
        raise InputError(f"{name} has no replica {replica}", hint=f"they count from 0 to {world - 1}")
    return pool.printed, ReplicaId(name, replica)


async def first_offset(pool: ServedPool, since: int | None) -> int:
    """The offset to begin at; None: the first one that is kept.

    Raises:
        InputError: That record was removed.
    """
    begin = await pool.log.begin(pool.feed.at)
    if since is not None and since < begin:
        raise InputError(
            f"{pool.feed.at} is kept from {begin} on",
            code="offset-missing",
            hint=f"begin at {begin}, or name no offset",
        )
    return begin if since is None else since


async def events(pool: ServedPool, since: int | None, limit: int) -> a.EventPage:
    """Records from an offset on, as far as there are any, and as many as one answer takes.

    Raises:
        InputError: Those records were removed.
    """
    since = await first_offset(pool, since)
    end = await pool.log.end(pool.feed.at)
    rows: list[a.EventRow] = []
    if since < end:
        left, room = min(limit, end - since), PAGE_BYTES
        reader = pool.log.reader({pool.feed.at: since})
        try:
            while left and room > 0:
                for record in await reader.poll(max_records=min(left, READ_AT_ONCE)):
                    if room > 0:
                        rows.append(event_row(record))
                        left, room = left - 1, room - 2 * len(record.value)  # the sentence may repeat it
        finally:
            await reader.close()
    return a.EventPage(next=rows[-1].offset + 1 if rows else min(since, end), events=rows)


def event_row(record: Record) -> a.EventRow:
    """A record for programs and people."""
    try:
        event = received(record).event
    except UndecodableError as error:
        shown = {"unreadable": str(error)}
    else:
        shown = {"type": type(event).__name__, "sentence": sentence(event), "event": masked(event)}
    return a.EventRow(
        offset=record.offset,
        at_ms=record.at_ms,
        partition=record.at.partition,
        key=record.key,
        headers=record.headers,
        **shown,
    )


async def timeline(pool: ServedPool, name: str, at: int | None) -> JobTimeline:
    """Every decision about a job, from the log's first record on.

    Raises:
        InputError: There is no such job, or the log is too long or does not begin at its first record.
    """
    until = pool.feed.view.position if at is None else at
    begin = await pool.log.begin(pool.feed.at)
    if at is None:
        job_of(pool.feed.view, name)
    if begin or until > STORY_MOST:
        why = f"begins at {begin}" if begin else "is too long"
        raise InputError(
            f"it is unknown here how {name[:80]!r} came to be so: the log {why}",
            code="offset-missing",
            hint="ask for its decisions, or run `steepest explain` where the log is",
        )
    view, collector = ClusterView(), TimelineCollector(name)
    end = await pool.log.end(pool.feed.at)
    if until > end:
        raise InputError(f"there is no state at {until}: the log has the offsets 0 to {end}", code="offset-missing")
    async with aclosing(folded(pool.log, pool.feed.at, view, until)) as records:
        async for one in records:
            if one.event is not None:
                collector.hear(view, one.event, accepted=one.accepted)
    job_of(view, name)
    return collector.timeline(view)
