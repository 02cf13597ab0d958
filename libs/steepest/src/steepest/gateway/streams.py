"""What streams send: the events of a pool, and the changes of its rows, each from where its reader was.

It owns where a stream goes on. It must never know how an event is written on the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import msgspec

from steepest.gateway.pool.changes import ChangeBatch
from steepest.gateway.pools import ServedPool
from steepest.gateway.reading import PAGE_MOST, events
from steepest.gateway.sse import COMMENT, SILENCE_S, event


async def changes_since(pool: ServedPool, last: int | None) -> AsyncIterator[bytes]:
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


async def events_since(pool: ServedPool, since: int) -> AsyncIterator[bytes]:
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


async def _news(pool: ServedPool, known: int | None) -> None:
    """Wait until there is more than is known, or for so long that a sign of life is due."""
    try:
        async with asyncio.timeout(SILENCE_S):
            while known is not None and pool.feed.view.position <= known:
                await pool.feed.ring.news()
    except TimeoutError:
        pass
