"""The reflector's copy follows an API server that ends watches, forgets old places, and fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from steepest.cluster.kubernetes.address import nodes
from steepest.cluster.kubernetes.api import AnswerError, KubernetesApi
from steepest.cluster.kubernetes.objects import Pod
from steepest.cluster.kubernetes.reflector import PodReflector, Reflector
from steepest.errors import InputError, RefusedError, UncertainError
from steepest.events.common import Resources

PATH = "/api/v1/namespaces/n/pods"


class ApiServerStub:
    """Lists and watches from memory, as a test orders.

    Attributes:
        pods: What a list gives, by UID.
        watched: The places from which watches began.
        lists: The number of lists so far.
        lines: What the open watch sends; None ends it.
        refuse: The statuses of the next answers.
        why: What these say.
        nodes: What a list gives in place of pods.
    """

    def __init__(self) -> None:
        self.pods: dict[str, int] = {}
        self.watched: list[str] = []
        self.lists = 0
        self.lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.refuse: list[int] = []
        self.why = "not now"
        self.nodes: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        if self.refuse:
            return web.json_response({"message": self.why}, status=self.refuse.pop(0), headers={"Retry-After": "0"})
        if request.query.get("watch") != "true":
            return self._list(request)
        self.watched.append(request.query["resourceVersion"])
        answer = web.StreamResponse()
        await answer.prepare(request)
        while (line := await self.lines.get()) is not None:
            await answer.write(json.dumps(line).encode() + b"\n")
        return answer

    def _list(self, request: web.Request) -> web.Response:
        first = request.query.get("continue", "") == ""
        self.lists += first
        uids = sorted(self.pods)
        half = uids[:1] if first else uids[1:]
        items = [pod(uid, self.pods[uid]) for uid in half] if not self.nodes else self.nodes
        going_on = "more" if first and len(uids) > 1 else ""
        return web.json_response(
            {"items": items, "metadata": {"resourceVersion": str(10 * self.lists), "continue": going_on}}
        )

    def send(self, type_: str, object_: dict[str, Any]) -> None:
        """Send a line to the watch."""
        self.lines.put_nowait({"type": type_, "object": object_})


def pod(uid: str, version: int) -> dict[str, Any]:
    """A pod."""
    return {"metadata": {"name": uid, "uid": uid, "resourceVersion": str(version)}}


@pytest.fixture
def server() -> ApiServerStub:
    """What the API server does."""
    return ApiServerStub()


@pytest.fixture
async def kubeconfig(server: ApiServerStub, tmp_path: Path) -> AsyncIterator[Path]:
    """Where it is."""
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", server.answer)
    async with TestServer(application) as running:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": {"server": str(running.make_url("")).rstrip("/")}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        yield kubeconfig
        server.lines.put_nowait(None)


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[KubernetesApi]:
    """A client of it."""
    client = KubernetesApi(kubeconfig)
    yield client
    await client.close()


class Copy:
    """A reflector, and what it called back with."""

    def __init__(self, api: KubernetesApi) -> None:
        self.changes: asyncio.Queue[str] = asyncio.Queue()
        self.pods: PodReflector = Reflector(api, PATH, Pod, {}, lambda each: self.changes.put_nowait(each.metadata.uid))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a change after which something holds."""
        async with asyncio.timeout(60):
            while not holds():
                await self.changes.get()


@contextlib.asynccontextmanager
async def copied(api: KubernetesApi) -> AsyncIterator[Copy]:
    """A reflector that has its first list."""
    copy = Copy(api)
    copy.pods.start()
    try:
        assert await copy.pods.listed(60)
        yield copy
    finally:
        await copy.pods.close()


async def test_it_lists_in_pages_and_follows(server: ApiServerStub, api: KubernetesApi) -> None:
    """All pages of the list, and then what the watch says, deletions with the last state."""
    server.pods = {"a": 1, "b": 2}
    async with copied(api) as copy:
        server.send("ADDED", pod("c", 11))
        server.send("DELETED", pod("a", 12))
        await copy.until(lambda: copy.pods.last("a") is not None)

        assert {each.metadata.uid for each in copy.pods.all()} == {"b", "c"}
        assert copy.pods.is_live


async def test_a_watch_that_ended_is_resumed(server: ApiServerStub, api: KubernetesApi) -> None:
    """The next watch begins at the last place, which a bookmark moves too, and nothing is listed again."""
    async with copied(api) as copy:
        server.send("BOOKMARK", {"metadata": {"resourceVersion": "57"}})
        server.lines.put_nowait(None)
        server.send("ADDED", pod("a", 60))
        await copy.until(lambda: copy.pods.get("a") is not None)

    assert server.watched == ["10", "57"]
    assert server.lists == 1


@pytest.mark.parametrize("in_stream", [True, False])
async def test_a_place_that_is_too_old_lists_again(
    server: ApiServerStub, api: KubernetesApi, *, in_stream: bool
) -> None:
    """After 410, in the stream or as the answer, what vanished meanwhile is found by the next list."""
    server.pods = {"a": 1}
    async with copied(api) as copy:
        server.pods = {"b": 2}
        if in_stream:
            server.send("ERROR", {"code": 410, "message": "too old"})
        else:
            server.refuse = [410]
            server.lines.put_nowait(None)
        await copy.until(lambda: copy.pods.last("a") is not None and copy.pods.get("b") is not None)

        assert copy.pods.get("a") is None
    assert server.lists == 2


async def test_a_damaged_line_lists_again(server: ApiServerStub, api: KubernetesApi) -> None:
    """What cannot be decoded ends neither the reflector nor its copy."""
    async with copied(api) as copy:
        server.pods = {"a": 1}
        server.send("ADDED", {"metadata": 7})
        await copy.until(lambda: copy.pods.get("a") is not None)

    assert server.lists == 2


async def test_a_removal_is_awaited(server: ApiServerStub, api: KubernetesApi) -> None:
    """The last state of a pod can be waited for; one that never comes is None after the time limit."""
    async with copied(api) as copy:
        waiting = asyncio.create_task(copy.pods.removed("a", 60))
        server.send("DELETED", pod("a", 12))

        assert await waiting is not None
        assert await copy.pods.removed("b", 0.01) is None


async def test_a_request_that_is_postponed_is_sent_again(server: ApiServerStub, api: KubernetesApi) -> None:
    """429 is no refusal: the server names when to come again."""
    server.refuse = [429, 429]

    assert await api.request("POST", PATH, body={"kind": "Pod"})


@pytest.mark.parametrize(("status", "error"), [(404, AnswerError), (409, AnswerError), (500, UncertainError)])
async def test_what_a_failure_means(
    server: ApiServerStub, api: KubernetesApi, status: int, error: type[Exception]
) -> None:
    """A refusal had no effect; of a server's failure that is not known."""
    server.refuse = [status]
    with pytest.raises(error, match="not now"):
        await api.request("POST", PATH, body={"kind": "Pod"})


@pytest.mark.parametrize(
    ("why", "error"),
    [
        ('jobs.batch is forbidden: User "system:serviceaccount:n:m" cannot create resource "jobs"', RefusedError),
        ('jobs.batch "a" is forbidden: exceeded quota: jobs, used: count/jobs.batch=20', AnswerError),
        ('admission webhook "a.b" denied the request: containers cannot run as root', AnswerError),
        (
            'events "a" is forbidden: unable to create new content in namespace n because it is being terminated',
            AnswerError,
        ),
    ],
)
async def test_only_a_missing_right_is_told_as_one(
    server: ApiServerStub, api: KubernetesApi, why: str, error: type[Exception]
) -> None:
    """It is so for all objects; whatever else refuses one with 403 is about that one."""
    server.refuse, server.why = [403], why
    with pytest.raises(error) as refused:
        await api.request("POST", PATH, body={"kind": "Job"})
    assert type(refused.value) is error


async def test_only_nodes_that_take_pods_are_taken(server: ApiServerStub, kubeconfig: Path) -> None:
    """A node that is cordoned, tainted or not ready is left out; the others have what the cluster says is allocatable."""
    server.nodes = [
        node("good"),
        node("cordoned", unschedulable=True),
        node("tainted", taints=[{"key": "k", "effect": "NoSchedule"}]),
        node("preferred", taints=[{"key": "k", "effect": "PreferNoSchedule"}]),
        node("away", ready="Unknown"),
    ]
    size = Resources(cpu_m=3900, memory_mib=2048, gpus=2, extended=(("example.com/fpga", 1),), replicas=110)

    assert await asyncio.to_thread(nodes, kubeconfig) == [("good", size), ("preferred", size)]


async def test_a_cluster_without_such_a_node_is_refused(server: ApiServerStub, kubeconfig: Path) -> None:
    """There is nowhere to run jobs."""
    server.nodes = [node("away", ready="False")]
    with pytest.raises(InputError, match="no node"):
        await asyncio.to_thread(nodes, kubeconfig)


def node(name: str, ready: str = "True", **spec: Any) -> dict[str, Any]:
    """A node."""
    allocatable = {"cpu": "3900m", "memory": "2Gi", "pods": "110", "nvidia.com/gpu": "2", "example.com/fpga": "1"}
    return {
        "metadata": {"name": name, "uid": name},
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]},
    }
