"""The HTTP endpoints for monitoring: ``/metrics``, ``/healthz`` and ``/readyz``.

It owns the door and its three answers. It must never know what a metric means.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import disable_created_metrics, make_wsgi_app

from steepest.errors import InputError
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.serving.connections import Accepted, ConnectionBound
from steepest.serving.hosts import host_of, is_own

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment


ANSWER_S = 5.0
"""An event loop that is blocked for this long does no work. Probes time out after about as long."""


class Probed(Protocol):
    """The probed system: a runtime, or another process with metrics and a state of health."""

    @property
    def metrics(self) -> Metrics: ...  # noqa: D102 - its metrics

    @property
    def health(self) -> Health: ...  # noqa: D102 - its health


class Address(NamedTuple):
    """Where probes are answered: on this machine only, unless another host is named (``0.0.0.0`` is everywhere).

    ``names``: it answers under these, under addresses and under the machine's own name.
    """

    port: int
    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"http://{self.host}:{self.port}/metrics"


CONNECTIONS_MOST = 32
"""Connections at the same time, each with a thread; who probes opens one."""


class _Server(ThreadingMixIn, WSGIServer):
    """Answers on a thread for each connection; of too many, the one that has been open longest is closed."""

    daemon_threads = True
    request_queue_size = 2 * CONNECTIONS_MOST

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._bound = ConnectionBound(CONNECTIONS_MOST)
        super().__init__(*arguments, **named)

    def get_request(self) -> Accepted:
        """See ``socketserver.TCPServer.get_request``."""
        return self._bound.accept(self.socket.accept)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who connects and breaks off, or says nothing in time, is not worth a word."""


class _Handler(WSGIRequestHandler):
    timeout = 10.0  # who opens a connection and says nothing must not hold a thread for ever

    def log_message(self, *_: Any) -> None:
        """Probes come every few seconds: not a word about them."""


@contextmanager
def probes(runtime: Probed, at: Address) -> Iterator[Address]:
    """Answer for a process of the running event loop, and give the address (port 0 asks for any that is free).

    Raises:
        InputError: The port is taken or not ours to open, or the host is none of this machine's.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the time of each series' beginning, which no query needs, doubles their number
    app = _app(runtime, asyncio.get_running_loop(), at.names)
    try:
        server = make_server(at.host, at.port, app, server_class=_Server, handler_class=_Handler)
    except OSError as error:
        raise InputError(
            f"cannot serve metrics on {at.host}:{at.port}: {error.strerror}", hint="name another port with --metrics"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="probes", daemon=True)
    thread.start()
    try:
        yield at._replace(port=server.server_port)
    finally:
        server.shutdown()
        server.server_close()


def _app(
    runtime: Probed, loop: asyncio.AbstractEventLoop, names: tuple[str, ...]
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    metrics = make_wsgi_app(runtime.metrics.registry)
    checks = {"/healthz": runtime.health.is_alive, "/readyz": runtime.health.is_ready}

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path, host = environ["PATH_INFO"], environ.get("HTTP_HOST")
        if host is not None and not is_own(host_of(host), names):
            start_response("421 Misdirected Request", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"this is served under addresses and the names in metrics.names only\n"]
        if path == "/metrics":
            answer: Iterable[bytes] = metrics(environ, start_response)
            return answer
        if path in checks:
            holds = _ask(loop, checks[path])
            status = HTTPStatus.OK if holds else HTTPStatus.SERVICE_UNAVAILABLE
            text = "yes" if holds else runtime.health.refusal or "no"
        else:
            status, text = HTTPStatus.NOT_FOUND, "there are /metrics, /healthz and /readyz"
        start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    return app


def _ask(loop: asyncio.AbstractEventLoop, check: Callable[[], bool]) -> bool:
    """Ask within the event loop: an answer that does not come is one, too."""

    async def within() -> bool:
        return check()

    asking = within()
    try:
        return asyncio.run_coroutine_threadsafe(asking, loop).result(ANSWER_S)
    except (TimeoutError, RuntimeError):
        asking.close()
        return False
