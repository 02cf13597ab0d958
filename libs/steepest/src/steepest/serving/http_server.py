"""An HTTP server of asyncio whose connections are bounded, in number and in time: that of the gateway and of the webhook.

It owns how uvicorn is set up. It must never know what is answered.
"""

from __future__ import annotations

from typing import Any

import uvicorn

from steepest.serving.connections import WAITING, ConnectionBound

REQUEST_S = 10.0
"""A request is whole after this time, and the time for which a connection is kept for a further one."""


class BoundedServer(uvicorn.Server):
    """A server for a :class:`~steepest.serving.connections.BoundedListener` of the same bound."""

    def __init__(self, app: Any, bound: ConnectionBound, *, keep_alive_s: int = 5, **settings: Any) -> None:
        """Load what ``settings`` of uvicorn name; ``keep_alive_s``: how long a connection is kept for a further request.

        Raises:
            OSError: A certificate or key cannot be used.
        """
        config = uvicorn.Config(
            _Telling(app, bound),
            http="h11",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,  # a caller would name its own address
            backlog=WAITING,
            timeout_keep_alive=keep_alive_s,
            **settings,
        )
        config.load()
        super().__init__(config)
        self._bound, self._silent_s = bound, keep_alive_s + REQUEST_S

    async def on_tick(self, counter: int) -> bool:
        """Close what is silent for too long: uvicorn asks ten times a second whether to end."""
        while self._bound.end_silent(self._silent_s):
            pass
        return await super().on_tick(counter)


class _Telling:
    """Tells the bound when a whole request has come, and when its answer is taken."""

    def __init__(self, app: Any, bound: ConnectionBound) -> None:
        self._app, self._bound = app, bound

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        peer = scope["client"]

        async def heard() -> Any:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                self._bound.asks(peer)
            return message

        async def said(message: Any) -> None:
            if message["type"] != "http.response.body" or message.get("more_body"):
                await send(message)
                return
            await send({**message, "more_body": True})
            await send({"type": "http.response.body"})  # goes once the peer has taken most of the rest
            self._bound.is_answered(peer)

        if not any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"]):
            self._bound.asks(peer)
        await self._app(scope, heard, said)
