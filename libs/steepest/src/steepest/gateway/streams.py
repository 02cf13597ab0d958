"""The content of streams: the events of a pool, the changes of its rows, and a job's output, each from its reader's place.

It owns where a stream goes on. It must never know how an event is written on the wire.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

import msgspec

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.follow_printed import followed
from steepest.cluster.port import ReplicaId
from steepest.gateway.answers import PrintedLine
from steepest.gateway.pool.changes import ChangeBatch
from steepest.gateway.pools import ServedPool
from steepest.gateway.reading import PAGE_MOST, events
from steepest.gateway.sse import COMMENT, SILENCE_S, event
from steepest.read_models.job_rows import prints_no_more


async def changes_since(pool: ServedPool, last: int | None) -> AsyncGenerator[bytes, None]:
    """Changes, from a picture on; ``last``: the id of the last batch that the reader has had.

    Each reader is only given references to batches that all of them share.
    """
    ring, known = pool.feed.ring, last
    while True:
        position = pool.feed.view.position
        batches: Iterable[ChangeBatch] | None = ()
        if known != position:
            batches = None if known is None or known > position else ring.since(known)
        if batches is None:
            batches = (pool.feed.picture(),)
        sent = False
        for batch in batches:
            known, sent = batch.offset, True
            yield event(batch.data, batch.offset)
        if not sent:
            yield COMMENT
        await _news(pool, known)


async def events_since(pool: ServedPool, since: int) -> AsyncGenerator[bytes, None]:
    """Events from an offset on. They are read from the log: a reader may be as far behind as it likes."""
    position = since
    while True:
        if position > pool.feed.view.position:
            yield COMMENT
            await _news(pool, position)
            continue
        page = await events(pool, position, PAGE_MOST)
        for row in page.events:
            yield event(msgspec.json.encode(row), row.offset, row.type)
        position = max(position, page.next)
        if not page.events:
            yield COMMENT
            await _news(pool, position)


async def printed_since(
    pool: ServedPool, folder: AdapterFolder, whose: ReplicaId, incarnation: int | None, lines: int
) -> AsyncGenerator[bytes, None]:
    """Lines that a job prints, from its last ones on, and ``end`` once it prints no more.

    An id is a line's number in this stream. A reader that comes back begins again with the last lines.
    """
    number, spoke = 0, time.monotonic()
    async with aclosing(
        followed(
            folder,
            whose,
            incarnation=incarnation,
            lines=lines,
            is_over=lambda one: prints_no_more(pool.feed.view, whose.job, one),
        )
    ) as batches:
        yield COMMENT
        async for shown, added in batches:
            for line in added:
                number += 1
                yield event(msgspec.json.encode(PrintedLine(incarnation=shown, line=line)), number)
            if added:
                spoke = time.monotonic()
            elif time.monotonic() - spoke > SILENCE_S:
                spoke = time.monotonic()
                yield COMMENT
    yield event(b"{}", number + 1, "end")


async def _news(pool: ServedPool, known: int | None) -> None:
    """Wait until there is more than is known, or for so long that a sign of life is due."""
    try:
        async with asyncio.timeout(SILENCE_S):
            while known is not None and pool.feed.view.position <= known:
                await pool.feed.ring.news()
    except TimeoutError:
        pass
