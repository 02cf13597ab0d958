"""The watch of a real API server is cut, and the place to resume from is too old when it is back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.objects import Pod
from steepest.cluster.kubernetes.reflector import PodReflector, Reflector, labelled
from tools.kubernetes_lab import control_plane
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import API_ADDRESS, API_PORT, NAMESPACE

_T = TypeVar("_T")

PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
LABEL = "test.steepest.dev/watch"
PATIENCE_S = 60.0


class Relay:
    """Passes on connections to the API server while it is open.

    Attributes:
        port: Where it listens, at the API server's own address, which its certificate names.
    """

    def __init__(self) -> None:
        self.port = 0
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Take connections, at the port of before."""
        self._server = await asyncio.start_server(self._take, API_ADDRESS, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End all connections, and take none."""
        assert self._server is not None
        self._server.close()
        for task in list(self._passing):
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
        with contextlib.closing(writer):
            far_reader, far_writer = await asyncio.open_connection(API_ADDRESS, API_PORT)
            with contextlib.closing(far_writer), contextlib.suppress(ConnectionError):
                await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
    writer.close()


class CountingApi(KubernetesApi):
    """The API server, with a count of the lists that were asked for.

    Attributes:
        lists: How many.
    """

    lists = 0

    async def get(self, path: str, kind: type[_T], query: Mapping[str, str] | None = None) -> _T:
        """See ``KubernetesApi.get``."""
        found = await super().get(path, kind, query)
        self.lists += path == PATH
        return found


class Followed:
    """A copy of pods that a test waits for.

    Attributes:
        copy: The reflector.
        api: What it asks.
    """

    def __init__(self, api: CountingApi, value: str) -> None:
        self.api = api
        self._changed = asyncio.Event()
        self.copy: PodReflector = Reflector(api, PATH, Pod, labelled({LABEL: value}), lambda _: self._changed.set())

    async def names(self, *expected: str) -> None:
        """Wait until the copy has these pods and no others."""
        async with asyncio.timeout(PATIENCE_S):
            while sorted(each.metadata.name for each in self.copy.all()) != sorted(expected):
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
def value(lab: KubernetesLab) -> Iterator[str]:
    """The value of the label that pods of the test have."""
    made = secrets.token_hex(4)
    yield made
    lab.kubectl("-n", NAMESPACE, "delete", "pods,configmaps", "-l", f"{LABEL}={made}", "--grace-period=0", "--force")


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    """A relay that is open."""
    made = Relay()
    await made.open()
    yield made
    await made.cut()


@pytest.fixture
def through_relay(relay: Relay, kubeconfig: Path, tmp_path: Path) -> Path:
    """A kubeconfig that names the relay."""
    settings = json.loads(kubeconfig.read_text())
    settings["clusters"][0]["cluster"]["server"] = f"https://{API_ADDRESS}:{relay.port}"
    made = tmp_path / "kubeconfig"
    made.write_text(json.dumps(settings))
    return made


@pytest.fixture
async def followed(through_relay: Path, value: str) -> AsyncIterator[Followed]:
    """A reflector that reaches the API server through the relay."""
    api = CountingApi(through_relay)
    made = Followed(api, value)
    made.copy.start()
    yield made
    await made.copy.close()
    await api.close()


@pytest.mark.timeout(300)
async def test_a_place_that_is_too_old_costs_one_list(
    lab: KubernetesLab, relay: Relay, followed: Followed, value: str
) -> None:
    """What happened meanwhile is seen, and the watch goes on from there."""
    for name in ("stays", "goes"):
        _make(lab, _pod(name, value))
    await followed.names(f"stays-{value}", f"goes-{value}")
    (gone,) = [each.metadata.uid for each in followed.copy.all() if each.metadata.name.startswith("goes")]
    lists = followed.api.lists

    await relay.cut()
    await asyncio.to_thread(_go_on_without_it, lab, value)
    await relay.open()
    await followed.names(f"stays-{value}", f"comes-{value}")
    assert followed.api.lists == lists + 1
    assert followed.copy.last(gone) is not None

    _make(lab, _pod("last", value))
    await followed.names(f"stays-{value}", f"comes-{value}", f"last-{value}")
    assert followed.api.lists == lists + 1


def _go_on_without_it(lab: KubernetesLab, value: str) -> None:
    """Pods come and go, and a new API server knows no place before it began."""
    lab.kubectl("-n", NAMESPACE, "delete", "pod", f"goes-{value}", "--grace-period=0", "--force")
    _make(lab, _pod("comes", value))
    lab.daemons.kill("kube-apiserver")
    control_plane.start_api_server(lab.folder, lab.daemons)
    control_plane.wait_until_ready(lab.folder, lab.daemons)


def _make(lab: KubernetesLab, object_: dict[str, Any]) -> None:
    lab.kubectl("create", "-f", "-", content=object_)


def _pod(name: str, value: str) -> dict[str, Any]:
    """A pod that is never scheduled."""
    container = {"name": "c", "image": DEMO, "imagePullPolicy": "Never", "command": ["true"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-{value}", "namespace": NAMESPACE, "labels": {LABEL: value}},
        "spec": {"schedulingGates": [{"name": "test.steepest.dev/never"}], "containers": [container]},
    }
