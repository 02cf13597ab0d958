"""Server-sent events: how a stream is written, and how one ends whose reader has stopped reading.

It owns the wire format and the limits of streams. It must never know what is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

STREAMS_MOST = 2_000
"""Open at the same time. Each is a task, a socket and what waits to be read from it, below 200 kB."""

LOGS_MOST = 100
"""Of them, those that follow what a job prints: each holds a file open, and looks at it five times a second."""

SILENCE_S = 15.0
"""After so long without an event a comment is sent, so that both ends notice when the other is gone."""

SEND_S = 30.0
"""A reader that takes nothing for so long is left."""


class TooManyStreamsError(Exception):
    """There are as many as may be open."""


class Streams:
    """The streams that are open."""

    def __init__(self, stalled: Callable[[], None], most: int = STREAMS_MOST) -> None:
        """``stalled`` is called where a reader takes nothing; ``most`` may be open."""
        self.open = 0
        self._most = most
        self.stalled = stalled

    def response(self, events: AsyncIterator[bytes]) -> StreamResponse:
        """An answer that sends events until they end or the reader leaves.

        Raises:
            TooManyStreamsError: There are as many as this process serves.
        """
        if self.open >= self._most:
            raise TooManyStreamsError
        return StreamResponse(self, events)


class StreamResponse(StreamingResponse):
    """A stream of events."""

    def __init__(self, streams: Streams, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._streams = streams
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; its source is closed in any case."""

        async def in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_S):
                await send(message)
                await asyncio.sleep(0)  # that the reader has gone is noticed by others, while there is much to send

        self._streams.open += 1
        try:
            await super().__call__(scope, receive, in_time)
        except TimeoutError:
            self._streams.stalled()  # its socket is closed with this answer
        except OSError:
            pass  # the reader is gone
        finally:
            self._streams.open -= 1
            close = getattr(self._events, "aclose", None)
            if close is not None:
                await close()


def event(data: bytes, offset: int, name: str = "") -> bytes:
    """One event. ``data`` is one line; the id is where a reader that comes back goes on."""
    kind = f"event: {name}\n" if name else ""
    return f"{kind}id: {offset}\ndata: ".encode() + data + b"\n\n"


COMMENT = b": nothing new\n\n"
