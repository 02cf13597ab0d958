"""All kubelets of a cluster of bare Node objects, in one process: pods that are bound run until they are deleted.

It owns what a kubelet says to the API server of a pod, and what it answers to requests for logs and use. It knows nothing of
who has placed a pod. For each pod it writes one line when the binding was seen and one when the API server has taken that it
runs, each with the wall clock: these are the benchmark's times.

Run by the benchmark: ``python -m benchmarks.kubernetes.fake_kubelets KUBECONFIG FOLDER PORT``. It runs until
SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from benchmarks.kubernetes.pod_times import LINES, PodTime

from steepest.cluster.kubernetes.api import NOT_FOUND, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.objects import Pod
from steepest.cluster.kubernetes.reflector import Reflector
from steepest.errors import UncertainError

SENT_AT_ONCE = 32
JOB_NAME = "batch.kubernetes.io/job-name"
JOB = "variable.steepest.dev/STEEPEST_JOB"
NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class FakeKubelets:
    """The kubelets.

    Args:
        kubeconfig: How the API server is reached.
        folder: Where the times are written.
    """

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._api = KubernetesApi(kubeconfig)
        self._folder = folder
        self._work: asyncio.Queue[tuple[Pod, str]] = asyncio.Queue()
        self._seen: dict[str, Pod] = {}
        self._running: dict[str, Pod] = {}
        self._encoder = msgspec.json.Encoder()

    async def run(self) -> None:
        """Answer for all nodes until cancelled."""
        pods = Reflector(self._api, PODS, Pod, {"fieldSelector": "spec.nodeName!="}, self._changed)
        pods.start()
        with (self._folder / LINES).open("wb", buffering=0) as self._lines:
            async with asyncio.TaskGroup() as group:
                for _ in range(SENT_AT_ONCE):
                    group.create_task(self._send())

    def _changed(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if uid not in self._seen:
            self._seen[uid] = pod
            self._write(pod, "bound")
            self._work.put_nowait((pod, "Running"))
        if pod.metadata.deletion_timestamp is not None and self._running.pop(uid, None) is not None:
            self._work.put_nowait((pod, "Failed"))

    async def _send(self) -> None:
        while True:
            pod, phase = await self._work.get()
            path = f"{PODS}/{pod.metadata.name}"
            try:
                change = {"metadata": {"uid": pod.metadata.uid}, "status": status(pod, phase)}
                await self._api.request("PATCH", f"{path}/status", body=change, content="application/merge-patch+json")
                if phase == "Failed":
                    await self._api.request("DELETE", path, body={"gracePeriodSeconds": 0})
            except AnswerError as error:
                if error.status != NOT_FOUND:
                    raise
                continue
            except UncertainError:  # the machine is too busy: a kubelet tries again too
                self._work.put_nowait((pod, phase))
                continue
            if phase != "Running":
                self._write(pod, "ended")
                continue
            self._write(pod, "running")
            self._running[pod.metadata.uid] = pod

    def _write(self, pod: Pod, what: str) -> None:
        job = pod.metadata.annotations.get(JOB) or pod.metadata.labels.get(JOB_NAME, "")
        line = PodTime(pod.metadata.uid, what, time.time(), job)
        self._lines.write(self._encoder.encode(line) + b"\n")

    async def log(self, request: web.Request) -> web.StreamResponse:
        """A container's log: empty, and open as long as the container runs, as a real one."""
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    async def summary(self, request: web.Request) -> web.Response:
        """Nothing is measured."""
        del request
        return web.json_response({"pods": []})


def status(pod: Pod, phase: str) -> dict[str, Any]:
    """A pod's status as a kubelet writes it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    runs = phase == "Running"
    ended = {"exitCode": 143, "reason": "Completed", "startedAt": now, "finishedAt": now}
    conditions = ("Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready")
    return {
        "phase": phase,
        "startTime": now,
        "podIP": "10.96.0.1",
        "conditions": [
            {"type": name, "status": "True" if runs else "False", "lastTransitionTime": now}
            for name in (*conditions, "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": pod.container,
                "ready": runs,
                "started": runs,
                "restartCount": 0,
                "image": "bench",
                "imageID": "bench",
                "state": {"running": {"startedAt": now}} if runs else {"terminated": ended},
            }
        ],
    }


async def serve(kubeconfig: Path, folder: Path, port: int) -> None:
    """Run until SIGTERM."""
    kubelets = FakeKubelets(kubeconfig, folder)
    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", kubelets.log)
    app.router.add_get("/stats/summary", kubelets.summary)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    trusted = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trusted.load_cert_chain(kubeconfig.parent / "apiserver.crt", kubeconfig.parent / "apiserver.key")
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=trusted).start()
    running = asyncio.create_task(kubelets.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await running


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
