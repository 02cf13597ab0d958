"""The webhook's process: HTTPS until it is stopped. It keeps nothing, and needs no log, no Kafka and no right."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from steepest.admission.gating import JobsVolume
from steepest.admission.review import answer
from steepest.errors import InputError, UntrustedError
from steepest.serving.connections import BoundedListener, ConnectionBound, most_connections
from steepest.serving.http_server import BoundedServer
from steepest.untrusted.body import bounded_body

PATH = "/gate"
"""Where the API server asks."""

BODY_MOST = 8 << 20
"""Bytes of a question. An object has at most 1.5 MiB in etcd, and a question can have it twice, with a longer spelling."""

KEEP_ALIVE_S = 120
"""Longer than the 90 s after which API servers close what is idle: they, not the webhook, end a connection."""

CONNECTIONS_MOST = 64
"""API servers hold a few. Any pod may open others, each with a body in memory."""


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a webhook is started with.

    Attributes:
        volume: Where the files of the installation's jobs are.
        certificate: A PEM file: its certificate, which names the Service.
        key: A PEM file: the certificate's key.
        host: On which of the machine's addresses it listens.
        port: At which port.
    """

    volume: JobsVolume
    certificate: Path
    key: Path
    host: str
    port: int


def application(volume: JobsVolume) -> Starlette:
    """The ASGI application: questions at :data:`PATH`, and ``/healthz``."""

    async def gate(request: Request) -> Response:
        try:
            asked = await bounded_body(request.stream(), BODY_MOST)
        except InputError:
            return PlainTextResponse(f"a question has at most {BODY_MOST} bytes\n", 413)
        try:
            return Response(answer(asked, volume), media_type="application/json")
        except UntrustedError as error:
            return PlainTextResponse(f"this is no AdmissionReview of an object that is gated: {error}\n", 400)

    async def alive(_: Request) -> Response:
        return PlainTextResponse("yes\n")

    return Starlette(routes=[Route(PATH, gate, methods=["POST"]), Route("/healthz", alive)])


def serve(settings: WebhookSettings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        InputError: The certificate or its key cannot be used, or the port is taken.
    """
    bound = ConnectionBound(most_connections(CONNECTIONS_MOST))
    try:
        server = BoundedServer(
            application(settings.volume),
            bound,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
            log_level="warning",
            loop="asyncio",
            keep_alive_s=KEEP_ALIVE_S,
        )
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"{settings.certificate} and {settings.key} are no certificate and its key: {error}",
            hint="name PEM files that belong together with --certificate and --key",
        ) from error
    server.run(sockets=[BoundedListener(settings.host, settings.port, bound)])
