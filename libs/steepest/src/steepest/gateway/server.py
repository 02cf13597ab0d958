"""The gateway's process part: the application, its socket, and its end.

It owns where it listens and how it stops. It must never know what a route answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from steepest.app.installation import login_name
from steepest.app.settings.gateway import GatewaySettings
from steepest.errors import InputError
from steepest.gateway.access import AccessRole, Grant, Grants, Guard, read_tokens
from steepest.gateway.answers import Failure
from steepest.gateway.api import Api, as_json
from steepest.gateway.metrics import GatewayMetrics
from steepest.gateway.openapi import document
from steepest.gateway.page_files import page_routes
from steepest.gateway.pools import Served
from steepest.log.files.atomic_write import write_atomically
from steepest.serving.connections import BoundedListener, ConnectionBound, most_connections
from steepest.serving.hosts import is_loopback
from steepest.serving.http_server import BoundedServer

LEAVE_S = 2
"""For answers that are under way when the gateway stops; streams end immediately."""

CONNECTIONS_MOST = 3_000
"""2,000 streams, 100 that follow what jobs print, and 900 others: each may hold a header of 16 kB in memory."""


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway that runs.

    Attributes:
        address: Its page; the API is below.
        token: What its own machine's command line uses to change a pool.
    """

    address: str
    token: str


def grants(settings: GatewaySettings, own: str) -> Grants:
    """Who may do what.

    Args:
        settings: Where the gateway listens, and where tokens are.
        own: The token of its own, which may do all.

    Raises:
        InputError: The tokens cannot be read, or there are none and other machines can reach the gateway.
    """
    local = is_loopback(settings.host)
    tokens: Mapping[str, Grant] = read_tokens(Path(settings.tokens)) if settings.tokens else {}
    if not tokens and not local:
        raise InputError(
            f"a gateway on {settings.host} is reached by other machines, and no tokens are named",
            hint="name a file of lines `ROLE TOKEN [NAME]` in gateway.tokens, or listen on 127.0.0.1",
        )
    anonymous = AccessRole.READ if local and not tokens else AccessRole.NONE
    return Grants({**tokens, own: Grant(AccessRole.OPERATE, login_name())}, anonymous, settings.priority_most)


def application(served: Served, granted: Grants, metrics: GatewayMetrics, connections: int, *, local: bool) -> Guard:
    """The ASGI application, over at most this many connections."""
    described = msgspec.json.encode(document())

    async def openapi(_: Request) -> Response:
        return Response(described, media_type="application/json")

    async def alive(_: Request) -> Response:
        return PlainTextResponse("yes\n")

    async def missing(request: Request, _: Exception) -> Response:
        return as_json(Failure(code="not-found", message=f"there is no {request.url.path[:80]!r}"), 404)

    async def other_method(request: Request, error: Exception) -> Response:
        answer = as_json(Failure(code="method", message=f"{request.method[:20]} is not for this"), 405)
        answer.headers["allow"] = (getattr(error, "headers", None) or {}).get("Allow", "GET")
        return answer

    async def broken(_: Request, __: Exception) -> Response:
        return as_json(Failure(code="bug", message="the gateway failed; its output says how"), 500)

    routes = [
        *Api(served, granted, metrics, connections).routes(),
        Route("/openapi.json", openapi),
        Route("/healthz", alive),
        Route("/readyz", alive),
        *page_routes(),
    ]
    handlers = {404: missing, 405: other_method, 500: broken}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), local=local)


@asynccontextmanager
async def listening(
    served: Served, settings: GatewaySettings, remember: Path | None = None, metrics: GatewayMetrics | None = None
) -> AsyncIterator[Listening]:
    """Serve until the context ends.

    Args:
        served: The pools.
        settings: Where to listen: port 0 is any that is free.
        remember: A file that keeps the address and the gateway's own token, for this user alone; None: none does.
        metrics: Where answers are counted; None: they are not served.

    Raises:
        InputError: The port is taken or not ours to open, or tokens are wrong or missing.
    """
    token = secrets.token_urlsafe(24)
    granted = grants(settings, token)
    connections = most_connections(CONNECTIONS_MOST)
    bound = ConnectionBound(connections)
    listener = BoundedListener(settings.host, settings.port or 0, bound)
    app = application(served, granted, metrics or GatewayMetrics(), connections, local=is_loopback(settings.host))
    server = BoundedServer(
        app, bound, log_config=None, log_level="critical", loop="none", timeout_graceful_shutdown=LEAVE_S
    )
    server.capture_signals = contextlib.nullcontext  # type: ignore[assignment,method-assign]  # those of its process are not its own
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="gateway")
    try:
        while not server.started:
            if serving.done():
                await serving
                raise InputError(f"the gateway does not start on {settings.host}")
            await asyncio.sleep(0.01)
        here = Listening(address=_address(settings.host, listener), token=token)
        if remember is not None:
            write_atomically(remember, msgspec.json.encode(here))
        yield here
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        listener.close()
        if remember is not None:
            _forget(remember)


def _forget(file: Path) -> None:
    file.unlink(missing_ok=True)


def _address(host: str, bound: BoundedListener) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{bound.getsockname()[1]}"
