"""The Kubernetes adapter's work does not grow with what it is not concerned with: other jobs' pods, other nodes."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.harness.call_count import count_calls
from tests.harness.kubernetes_stub import KubernetesStub, adapter_on, served
from tests.harness.virtual_time import VirtualLoop
from tests.harness.waiting import until

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder, SpecRecord
from steepest.cluster.folders.background import AdapterSettings
from steepest.cluster.folders.replica_roster import ResourceUse, Roster, Tracked
from steepest.cluster.kubernetes import KubernetesCluster, kubernetes_background
from steepest.cluster.kubernetes.api import REQUESTS_AT_ONCE, KubernetesApi
from steepest.cluster.kubernetes.kubernetes_background import KubernetesBackground
from steepest.cluster.kubernetes.nodes.usage import NODES_A_SECOND, PodUsage
from steepest.cluster.kubernetes.objects import Pod
from steepest.cluster.kubernetes.output import ContainerOutput
from steepest.cluster.kubernetes.pod_observer import KubernetesTracked, PodRecord
from steepest.cluster.kubernetes.reflector import PodReflector, Reflector, WatchEvent
from steepest.cluster.observation import Observation
from steepest.cluster.output_copy import OutputCopy
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import UncertainError
from steepest.events.common import Resources

SPEC = ReplicaSpec(command=("train",), requests=Resources(cpu_m=10))
FEW, MANY = 3, 3_000
JOBS = 12


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[KubernetesStub]:
    """An API server with one node."""
    made = KubernetesStub()
    made.node("n1")
    async with served(made, tmp_path / "kubeconfig"):
        yield made


@pytest.fixture
async def cluster(stub: KubernetesStub, tmp_path: Path) -> AsyncIterator[KubernetesCluster]:
    """An adapter over it."""
    del stub
    adapter = adapter_on(tmp_path, [("n1", Resources(1_000, 1_024))])
    yield adapter
    await adapter.close()


def copy_of(pods: int) -> PodReflector:
    """A copy of so many pods, each made by a Job of its own."""
    found: PodReflector = Reflector(KubernetesApi(), "/pods", Pod, {}, lambda _: None)
    for number in range(pods):
        found._take(event("ADDED", number))
    return found


def event(kind: str, number: int, owner: str = "") -> WatchEvent:
    """What a watch says of the pod of that number; another Job may have become its owner."""
    metadata = {"uid": f"pod-{number}", "ownerReferences": [{"uid": owner or f"job-{number}"}]}
    return WatchEvent(type=kind, object=msgspec.Raw(json.dumps({"metadata": metadata}).encode()))


def test_the_pod_of_a_job_is_found_among_any_number() -> None:
    """By its owner, with as much work as among a few; one that is removed is not found any more."""
    few, many = copy_of(FEW), copy_of(MANY)

    assert [pod.metadata.uid for pod in many.of_group("job-2")] == ["pod-2"]
    assert count_calls(lambda: few.of_group("job-2"))[0] == count_calls(lambda: many.of_group("job-2"))[0]
    many._take(event("MODIFIED", 2, owner="job-1"))
    assert [pod.metadata.uid for pod in many.of_group("job-1")] == ["pod-1", "pod-2"]
    many._take(event("DELETED", 2, owner="job-2"))
    assert many.of_group("job-2") == []
    assert [pod.metadata.uid for pod in many.of_group("job-1")] == ["pod-1"]


async def test_a_change_wakes_only_those_who_wait_for_it() -> None:
    """By the pod, and by the Job that has made it; no one waits without end for a pod that is removed."""
    pods = copy_of(FEW)
    by_pod, by_job, other = (pods.next_change(uid) for uid in ("pod-0", "job-0", "pod-1"))
    pods._take(event("MODIFIED", 0))
    assert (by_pod.is_set(), by_job.is_set(), other.is_set()) == (True, True, False)
    pods._take(event("DELETED", 1))
    assert other.is_set()


def roster_of(tmp_path: Path, others: int) -> Roster[Tracked]:
    """Two incarnations on one node, and so many on another one."""
    state = AdapterFolder(tmp_path)
    roster = Roster(state, Tracked)
    names = [(f"mine-{number}", "n1") for number in range(2)] + [(f"other-{number}", "n2") for number in range(others)]
    for job, node in names:
        spec = SpecRecord(node=node, command=("train",), working_dir=None, cpu_limit_m=None)
        roster.track(state.incarnation(ReplicaId(job), 1), spec)
    return roster


def test_what_a_node_has_is_found_among_any_number_of_others(tmp_path: Path) -> None:
    """A heartbeat lists its own replicas, and a job is dropped, with as much work as among a few."""
    few, many = roster_of(tmp_path, FEW), roster_of(tmp_path, MANY)
    cost_few, cost_many = count_calls(lambda: few.on("n1"))[0], count_calls(lambda: many.on("n1"))[0]
    drop_few, drop_many = count_calls(lambda: few.drop("mine-0"))[0], count_calls(lambda: many.drop("mine-0"))[0]

    assert (cost_few, drop_few) == (cost_many, drop_many)
    assert [each.folder.replica.job for each in many.on("n1")] == ["mine-1"]
    many.track(many._state.incarnation(ReplicaId("mine-1"), 2), SpecRecord(node="n2", command=("train",)))
    assert many.on("n1") == []
    assert many.get(ReplicaId("mine-1")) in many.on("n2")


async def test_a_pod_that_changes_is_the_only_one_observed(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """However many run, and however often the adapter looks."""
    for number in range(JOBS):
        await cluster.start(ReplicaId(f"job-{number}"), 1, "n1", SPEC, None)
    background = cluster._background
    assert background is not None
    await until(lambda: len(background.roster.running()) == JOBS)
    background._net, background._net_made_s = [], math.inf  # the safety net looks at all in turn, and is not meant here
    await background.look()
    observed: Counter[str] = Counter()
    observe = background.observer.observe

    async def counted(folder: IncarnationFolder) -> Observation:
        observed[folder.replica.job] += 1
        return await observe(folder)

    background.observer.observe = counted  # type: ignore[method-assign]
    name = next(each for each in stub.objects["pods"] if each.startswith("job-7-"))
    changed = stub.objects["pods"][name]
    changed["status"] = {**changed["status"], "message": "it is as it was"}
    stub.put("pods", changed)
    await until(lambda: observed)
    for _ in range(3):
        await background.look()

    assert observed == {"job-7": 1}


class SilentOutput(ContainerOutput):
    """A log that goes on, and to which nothing is added."""

    async def _copy_into(self, copy: OutputCopy) -> bool:
        del copy
        self._opened.set()
        await asyncio.Event().wait()
        return False


async def test_only_so_many_logs_are_followed_as_files_may_be_open(
    cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait until one has ended; a log of which a container is about to be stopped does not wait."""
    monkeypatch.setattr(kubernetes_background, "FOLLOWED_BESIDE", FEW)
    followed: list[SilentOutput] = []

    def copy(_: object, folder: IncarnationFolder, *__: object, **___: object) -> SilentOutput:
        followed.append(SilentOutput(folder))
        return followed[-1]

    monkeypatch.setattr(KubernetesBackground, "_copy", copy)
    for number in range(JOBS):
        await cluster.start(ReplicaId(f"job-{number}"), 1, "n1", SPEC, None)
    background = cluster._background
    assert background is not None
    await until(lambda: len(background.roster.running()) == JOBS)
    await background.measure()
    at_first = len(followed)
    names = [each._folder.replica.job for each in followed]
    waiting = next(each for each in background.roster.running() if each.folder.replica.job not in names)
    await background.begin_output(waiting.folder)
    before_a_stop = len(followed)
    for ended in followed[:2]:
        ended.task.cancel()
    await asyncio.gather(*(ended.task for ended in followed[:2]), return_exceptions=True)
    background._outputs = {uid: each for uid, each in background._outputs.items() if not each.task.done()}
    await background.measure()

    assert (at_first, before_a_stop, len(followed)) == (FEW, FEW + 1, FEW + 2)


async def test_a_client_has_a_bounded_number_of_requests_under_way(tmp_path: Path) -> None:
    """Others wait for their turn: many jobs that start together are no burst for the API server."""
    under_way = most = 0
    go_on = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await go_on.wait()
        under_way -= 1
        return web.json_response({})

    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", answer)
    async with TestServer(application) as server:
        config = {
            "clusters": [{"name": "c", "cluster": {"server": str(server.make_url("")).rstrip("/")}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        api = KubernetesApi(tmp_path / "kubeconfig")
        sent = [asyncio.create_task(api.request("GET", "/x")) for _ in range(2 * REQUESTS_AT_ONCE)]
        await until(lambda: under_way == REQUESTS_AT_ONCE)
        go_on.set()
        await asyncio.gather(*sent)
        await api.close()

    assert most == REQUESTS_AT_ONCE


def test_the_kubelets_of_many_nodes_are_asked_in_turn() -> None:
    """At most so many a second, each of them again and again; those of a few nodes once a second."""
    nodes, seconds = 1_000, 60
    assert asked(nodes, seconds).total() <= nodes + NODES_A_SECOND * seconds
    assert min(asked(nodes, seconds).values()) >= NODES_A_SECOND * seconds // nodes
    assert len(asked(nodes, seconds)) == nodes
    assert set(asked(FEW, seconds).values()) <= set(range(seconds // 2, seconds + 2))


ITSELF, PASSED_ON = ("https://here", "/stats/summary"), ("", "/api/v1/nodes/n1/proxy/stats/summary")


@pytest.mark.parametrize(
    ("fails", "tried"),
    [
        ((), [ITSELF] * 3),
        (("https://here",), [ITSELF, PASSED_ON, PASSED_ON]),
        (("https://here", ""), [ITSELF, PASSED_ON, ITSELF]),
    ],
)
def test_a_kubelet_is_asked_itself_and_the_api_server_only_where_that_fails(
    fails: tuple[str, ...], tried: list[tuple[str, str]]
) -> None:
    """The one that answers is asked again; where neither does, each is tried in turn."""
    found: list[tuple[str, str]] = []

    class Failing:
        async def request(self, _method: str, path: str, *, server: str | None = None, **_: Any) -> bytes:
            found.append((server or "", path))
            if (server or "") in fails:
                raise UncertainError("it is not reached")
            return b'{"pods": []}'

    async def measured() -> None:
        usage = PodUsage(cast("KubernetesApi", Failing()), lambda _: "https://here")
        for _ in range(30):
            usage.measure(["n1"])
            await asyncio.sleep(0.1)
        await usage.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(measured())

    assert found[:3] == tried


def asked(nodes: int, seconds: int) -> Counter[str]:
    """How often each kubelet is asked in this time."""
    found: Counter[str] = Counter()

    class Counting:
        async def request(self, _method: str, path: str, **_: Any) -> bytes:
            found[path] += 1
            return b'{"pods": []}'

    async def measured() -> None:
        usage = PodUsage(cast("KubernetesApi", Counting()), lambda _: "")
        for _ in range(10 * seconds):
            usage.measure([f"node-{number}" for number in range(nodes)])
            await asyncio.sleep(0.1)
        await usage.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(measured())
    return found


@pytest.mark.parametrize(
    ("counts_reads", "replicas", "host_network", "read_bytes", "network_bytes_s"),
    [
        (True, 1, False, 7, 3),
        (False, 1, False, None, 3),
        (True, 2, False, None, 3),
        (True, 1, True, None, None),
    ],
)
def test_what_a_pod_receives_is_read_only_where_nothing_else_comes(
    tmp_path: Path,
    *,
    counts_reads: bool,
    replicas: int,
    host_network: bool,
    read_bytes: int | None,
    network_bytes_s: int | None,
) -> None:
    """Of a gang it is also what its replicas send each other, and of a pod in its machine's network anything."""
    state = AdapterFolder(tmp_path)
    roster = Roster(state, KubernetesTracked)
    settings = AdapterSettings(
        state=state,
        capacities={"n1": Resources(1_000, 1_024)},
        pool="pool",
        heartbeat_s=1.0,
        events=False,
    )
    for index in range(replicas):
        roster.track(state.incarnation(ReplicaId("a", index), 1), SpecRecord(node="n1", command=("train",)))
    background = KubernetesBackground(
        settings, roster, KubernetesApi(), ["n"], "label", selected=None, counts_reads=counts_reads
    )
    pod = {"metadata": {"uid": "pod-0"}, "spec": {"hostNetwork": host_network}}
    background.pods.of("n")._take(WatchEvent(type="ADDED", object=msgspec.Raw(json.dumps(pod).encode())))
    assert isinstance(background._usage, PodUsage)
    background._usage._use["pod-0"] = ResourceUse(cpu_ms=1, network_bytes_s=3, read_bytes=7)
    use = background._use_of(roster.all()[0], PodRecord(name="a", uid="pod-0"))

    assert use == ResourceUse(cpu_ms=1, network_bytes_s=network_bytes_s, read_bytes=read_bytes)
