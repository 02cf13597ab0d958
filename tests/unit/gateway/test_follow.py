"""Where a reader of a pool's log begins, and how it learns why it can get no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import httpx2
import pytest
from tests.harness.memory_log import MemoryLog
from tests.harness.waiting import until
from tests.unit.gateway.in_memory import AT, append, gateway, log_of, served_pool, view_of

from steepest.client import AsyncClient, Client, GatewayError
from steepest.client.calls import StreamLines
from steepest.errors import InputError, SteepestError
from steepest.events import cluster as c
from steepest.gateway.answers import EventRow
from steepest.gateway.shares import BusyError
from steepest.gateway.sse import Streams, event
from steepest.gateway.streams import events_since

KEPT_FROM = 10
TICKS = [c.Tick(counted_ms=1_000 * number) for number in range(1, 20)]


async def trimmed() -> MemoryLog:
    """A log whose first records retention has removed."""
    log = await log_of(*TICKS)
    log.trim(AT, KEPT_FROM)
    return log


@pytest.mark.parametrize("accepted", ["application/json", "text/event-stream"])
async def test_an_offset_that_is_kept_no_more_is_404_before_anything_is_sent(accepted: str) -> None:
    """As a page, as a stream, and where a reader comes back; the answer names the first offset that is kept."""
    whole = await log_of(*TICKS)
    view = await view_of(whole, 15)
    async with (
        served_pool(await trimmed(), begin=view) as pool,
        gateway(pool) as here,
        httpx2.AsyncClient(headers={"accept": accepted}) as http,
    ):
        events = f"{here.address}/api/v1/events"
        answers = [await http.get(events, params={"since": 0})]
        if accepted == "text/event-stream":
            answers.append(await http.get(events, headers={"last-event-id": "3"}))

    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (404, "offset-missing")
        assert f"begin at {KEPT_FROM}" in answer.json()["hint"]


async def test_both_clients_begin_at_the_first_event_that_is_kept() -> None:
    """Where they are asked for none; an older one that they are asked for is an error, and no stream that begins again."""
    whole = await log_of(*TICKS)
    async with served_pool(await trimmed(), begin=await view_of(whole, 15)) as pool, gateway(pool) as here:

        def now() -> tuple[int, int, str]:
            with Client(here.address) as client:
                with pytest.raises(GatewayError) as refused:
                    next(client.follow(since=0))
                return next(client.follow()).offset, client.events()[0].offset, refused.value.code

        assert await asyncio.to_thread(now) == (KEPT_FROM, KEPT_FROM, "offset-missing")
        async with AsyncClient(here.address) as client:
            async with aclosing(client.follow()) as rows:
                assert (await anext(rows)).offset == KEPT_FROM
            with pytest.raises(GatewayError, match="kept from 10 on"):
                await anext(client.follow(since=0))


async def test_a_reader_that_retention_overtakes_is_told_why() -> None:
    """The status was sent, so the stream says it, and ends."""
    log = await log_of(*TICKS)
    async with served_pool(log) as pool:

        async def overtake() -> None:
            await append(log, *TICKS)
            await until(lambda: pool.feed.view.position == end)
            log.trim(AT, end - 1)

        end = 2 * len(TICKS) + 3
        body = await sent(Streams(lambda: None, 2), events_since(pool, 0), overtake)

    *rows, _, _ = body.decode().split("\n\n")
    assert len(rows) == len(TICKS) + 3
    with pytest.raises(GatewayError) as told:
        read(body)
    assert told.value.code == "offset-missing"


async def broken(*before: bytes, error: Exception) -> AsyncGenerator[bytes, None]:
    """Events, and then an error."""
    for one in before:
        yield one
    raise error


def read(body: bytes) -> list[int]:
    """The offsets of a stream, as clients read it."""
    lines = StreamLines(EventRow)
    return [row.offset for line in body.decode().split("\n") for row in lines.take(line)]


async def nothing() -> None:
    """Happens where nothing does."""


async def sent(
    streams: Streams, events: AsyncGenerator[bytes, None], then: Callable[[], Awaitable[None]] = nothing
) -> bytes:
    """What a reader of a stream gets; ``then`` happens once it has the first event."""
    body = b""

    async def receive() -> dict[str, str]:
        await asyncio.Event().wait()
        return {}

    async def send(message: dict[str, bytes]) -> None:
        nonlocal body
        if not body and message.get("body"):
            await then()
        body += message.get("body", b"")

    response = await streams.response(events, "me")
    await response({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)  # type: ignore[arg-type]
    return body


@pytest.mark.parametrize("error", [InputError("gone", code="offset-missing"), BusyError("too many")])
async def test_an_error_of_any_stream_has_a_status_or_is_an_event(error: SteepestError) -> None:
    """Before the first event it is the request's; behind it the stream says so. Either way its place is free again."""
    streams = Streams(lambda: None, 2)
    with pytest.raises(type(error)):
        await streams.response(broken(error=error), "me")
    first = event(b'{"offset":7,"at_ms":1}', 7, "Tick")
    body = await sent(streams, broken(first, error=error))
    assert read(first) == [7]
    assert body.startswith(first)
    with pytest.raises(GatewayError) as told:
        read(body)

    assert (told.value.code, str(told.value)) == (error.code, str(error))
    assert streams.shares.held == 0
