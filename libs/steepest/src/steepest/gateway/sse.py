"""Server-sent events: how a stream is written, and how one ends whose reader has stopped reading.

It owns the wire format and the limits of streams. It must never know what is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from steepest.errors import SteepestError
from steepest.gateway.answers import Failure
from steepest.gateway.shares import CallerShares

STREAMS_MOST = 2_000
"""Open at the same time. Each is a task, a socket and what waits to be read from it, below 200 kB."""

LOGS_MOST = 100
"""Of them, those that follow what a job prints: each holds a file open, and looks at it five times a second."""

SILENCE_S = 15.0
"""After so long without an event a comment is sent, so that both ends notice when the other is gone."""

SEND_S = 30.0
"""A reader that takes nothing for so long is left."""


class Streams:
    """The streams that are open."""

    def __init__(self, stalled: Callable[[], None], most: int) -> None:
        """``stalled`` is called where a reader takes nothing; ``most`` may be open."""
        self.shares = CallerShares(most, "streams")
        self.stalled = stalled

    async def response(self, events: AsyncGenerator[bytes, None], caller: str) -> StreamResponse:
        """An answer that sends events until they end or the reader leaves.

        Its first event is made now: an error before it is the request's own, and has a status.

        Raises:
            BusyError: There are as many as this process serves, or as many of this caller's.
            SteepestError: There is no first event.
        """
        self.shares.take(caller)
        try:
            return StreamResponse(self, caller, await anext(events), events)
        except BaseException:
            self.shares.give_back(caller)
            raise


class StreamResponse(StreamingResponse):
    """A stream of events."""

    def __init__(self, streams: Streams, caller: str, first: bytes, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(self._body(first), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._streams = streams
        self._caller = caller
        self._events = events

    async def _body(self, first: bytes) -> AsyncIterator[bytes]:
        yield first
        try:
            async for one in self._events:
                yield one
        except SteepestError as error:  # the status was sent
            failure = Failure(code=error.code, message=str(error), hint=error.hint)
            yield b"event: failure\ndata: " + msgspec.json.encode(failure) + b"\n\n"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; its source is closed in any case."""

        async def in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_S):
                await send(message)
                await asyncio.sleep(0)  # that the reader has gone is noticed by others, while there is much to send

        try:
            await super().__call__(scope, receive, in_time)
        except TimeoutError:
            self._streams.stalled()  # its socket is closed with this answer
        except OSError:
            pass  # the reader is gone
        finally:
            self._streams.shares.give_back(self._caller)
            await self._events.aclose()


def event(data: bytes, offset: int, name: str = "") -> bytes:
    """One event. ``data`` is one line; the id is where a reader that comes back goes on."""
    kind = f"event: {name}\n" if name else ""
    return f"{kind}id: {offset}\ndata: ".encode() + data + b"\n\n"


COMMENT = b": nothing new\n\n"
