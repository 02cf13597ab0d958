"""A stream of an engine that breaks in the middle of a chunk ends its follower or is opened again, without an exception."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.harness.waiting import until

from steepest.cluster.docker.events import Events
from steepest.cluster.docker.host import DockerNode, Host
from steepest.cluster.docker.stats import Stats
from steepest.events.common import Resources


class _Breaking(BaseHTTPRequestHandler):
    """An engine that announces more of a chunk than it sends."""

    def do_GET(self) -> None:
        """Answer its version; all else is a stream that breaks."""
        version = json.dumps({"ApiVersion": "1.41"}).encode()
        self.send_response(200)
        if self.path.endswith("/version"):
            self.send_header("Content-Length", str(len(version)))
            self.end_headers()
            self.wfile.write(version)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"40\r\n{}\n")
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def host() -> Iterator[Host]:
    """The engine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Breaking) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with closing(
            Host(DockerNode(name="n", url=f"tcp://127.0.0.1:{server.server_port}", capacity=Resources()))
        ) as made:
            yield made
        server.shutdown()


async def test_what_follows_a_container_s_use_ends(host: Host) -> None:
    """The next measurement follows it again."""
    stats = Stats(host, "c")
    await until(lambda: stats.is_over, within_s=30)


async def test_what_follows_events_opens_its_stream_again(host: Host) -> None:
    """Each time it says that events may have been missed."""
    opened: list[str | None] = []
    with closing(Events(host, "label", opened.append)):
        await until(lambda: opened.count(None) > 1, within_s=30)
