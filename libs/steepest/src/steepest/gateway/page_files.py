"""The live page: files of this package, and nothing from anywhere else.

It owns which files there are and how a browser may keep them.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


def page_routes() -> list[Route]:
    """A route for each file; ``/`` is the page. Files are read once, so no path is ever taken from a request."""
    top = resources.files("steepest.gateway") / "page"
    files = dict(_files(top, ""))
    routes = [_route(f"/{name}", name, data) for name, data in files.items()]
    return [_route("/", "index.html", files["index.html"]), *routes]


def _files(folder: Any, before: str) -> Any:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files(entry, f"{before}{entry.name}/")
        elif entry.name.rpartition(".")[2] in TYPES:
            yield f"{before}{entry.name}", entry.read_bytes()


def _route(path: str, name: str, data: bytes) -> Route:
    kind, tag = TYPES[name.rpartition(".")[2]], f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}

    async def endpoint(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)

    return Route(path, endpoint, methods=["GET"])
