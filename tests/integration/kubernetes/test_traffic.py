"""What a job reads from a storage server is known from the network of its pod, on a real node."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.integration.kubernetes.nodes_harness import KubernetesHarness

from steepest.cluster.data_source import data_source
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import Resources
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NODES

PART, PARTS = 1 << 20, 64
PATIENCE_S = 120.0
"""A kubelet measures the network of a pod every 10 to 20 s."""

READER = f"""
import os, time, urllib.request
for _ in range({PARTS}):
    urllib.request.urlopen(os.environ["STEEPEST_DATA_URL"] + "/part").read()
time.sleep(3600)
"""


@contextmanager
def storage(served: list[int]) -> Iterator[int]:
    """A server that notes what it has sent; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(PART))
            self.end_headers()
            self.wfile.write(bytes(PART))
            served.append(PART)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    with ThreadingHTTPServer(("0.0.0.0", 0), Handler) as server:  # noqa: S104 - pods are on other networks
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.timeout(180)
async def test_what_a_pod_receives_is_what_its_job_has_read(lab: KubernetesLab, harness: KubernetesHarness) -> None:
    """Within 2 % of what the server has sent; the job finds the server's address in its environment."""
    host = lab.kubectl(
        "-n", "default", "get", "endpoints", "kubernetes", "-o", "jsonpath={.subsets[0].addresses[0].ip}"
    )
    served: list[int] = []
    with storage(served) as port:
        harness.data = data_source(f"http://{host}:{port}/")
        await harness.leave()
        await harness.come_back()
        replica = ReplicaId(f"reads-{secrets.token_hex(4)}")
        spec = ReplicaSpec(command=("python3", "-c", READER), requests=Resources(cpu_m=100), image=DEMO)
        await harness.cluster.start(replica, 1, NODES[0].name, spec, None)
        read: list[int | None] = []
        async with asyncio.timeout(PATIENCE_S):
            async for beat in harness.cluster.heartbeats():
                read = [one.read_bytes for one in beat.replicas if one.job == replica.job] or read
                if len(served) == PARTS and read and (read[0] or 0) >= PARTS * PART:
                    break

    assert read[0] == pytest.approx(sum(served), rel=0.02)
