"""The rights that `deploy/kubernetes/rights.yaml` and the chart give are those that the code uses: no fewer, and no more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web
from tests.harness.kubernetes_stub import KubernetesStub, adapter_on, served
from tests.harness.scenarios.folded_pool import FoldedPool
from tests.harness.waiting import until
from tests.unit.chart.chart_harness import ASKED, of_kind

from steepest.clock import SystemClock
from steepest.cluster.kubernetes import KubernetesCluster
from steepest.cluster.kubernetes.job_events import JobSubject, Notice
from steepest.cluster.kubernetes.objects import SCHEDULE
from steepest.cluster.kubernetes.users_jobs import USERS_JOB
from steepest.cluster.port import GangPlace, ReplicaId, ReplicaSpec
from steepest.collector.notice_writer import NoticeWriter
from steepest.collector.users_jobs import UsersJobs
from steepest.errors import ClusterError
from steepest.events import cluster as c
from steepest.events.common import Resources

Right = tuple[str, str, str]
"""A group, a resource with its part, and a verb."""

RIGHTS = Path(__file__).parents[3] / "deploy" / "kubernetes" / "rights.yaml"
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
FOR_KEEPERS: set[Right] = {("", "events", "list")}
"""Used only where a namespace refuses pods with keepers (test_kubernetes_kept)."""

UID = "0a1b2c3d-0000-4000-8000-000000000000"
SPEC = ReplicaSpec(command=("train",), requests=Resources(cpu_m=100))


def rights(rules: Iterable[Mapping[str, Any]]) -> set[Right]:
    """Each right of some rules."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def given() -> set[Right]:
    """The rights in the own namespace, and those for nodes."""
    roles = [each for each in yaml.safe_load_all(RIGHTS.read_text()) if each["kind"] in {"Role", "ClusterRole"}]
    return {right for role in roles if role["kind"] == "Role" for right in rights(role["rules"])} | {
        right for role in roles if role["metadata"]["name"] == "steepest-nodes" for right in rights(role["rules"])
    }


class GuardedStub(KubernetesStub):
    """An API server that knows rights.

    Attributes:
        used: The rights that were asked for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.used: set[Right] = set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer what is allowed; it has a Service and an Event for everybody."""
        right = self._right(request)
        self.used.add(right)
        if right not in given():
            return web.json_response({"message": f'User "u" cannot {right}'}, status=403)
        if right[1] in {"services", "events"}:
            return web.json_response({})
        return await super().answer(request)

    @staticmethod
    def _right(request: web.Request) -> Right:
        _, kind, group, *rest = request.path.split("/")
        if kind == "api":
            group = ""
        else:
            del rest[0]
        if rest[0] == "namespaces":
            del rest[:2]
        resource, name, part = (*rest, "", "", "")[:3]
        verb = VERBS.get(request.method) or ("get" if name else "watch" if request.query.get("watch") else "list")
        return group, f"{resource}/{part}" if part else resource, verb


async def own_jobs(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """A job that is moved, limited, killed and lost, and a gang."""
    job = ReplicaId("a")
    await cluster.start(job, 1, "n1", SPEC, None)
    with contextlib.suppress(ClusterError):  # the server in memory resizes nothing
        await cluster.limit(job, 1, 500)
    await cluster.stop(job, 1, grace_s=30)
    await cluster.start(job, 2, "n1", SPEC, None)
    await cluster.stop(job, 2, grace_s=1)
    await cluster.start(job, 3, "n1", SPEC, None)
    stub.drop("pods", next(iter(stub.objects["pods"])))
    await cluster.stop(job, 3, grace_s=30)
    await cluster.forget("a")
    for rank in (0, 1):
        place = GangPlace(role="worker", role_index=rank, rank=rank, world_size=2, nodes=("n1", "n1"))
        spec = ReplicaSpec(command=("train",), requests=Resources(cpu_m=100), gang=place)
        await cluster.start(ReplicaId("g", rank), 1, "n1", spec, None)
    for rank in (0, 1):
        await cluster.stop(ReplicaId("g", rank), 1, grace_s=30)
    await cluster.forget("g")


async def users_job(cluster: KubernetesCluster, stub: GuardedStub) -> None:
    """A Job that a user has made is submitted, placed, explained and stopped."""
    container = {"name": "train", "image": "trainer:3", "command": ["train"]}
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    named = {"name": "mine", "uid": UID, "labels": {SCHEDULE: "true"}}
    stub.put("jobs", {"metadata": named, "spec": {"suspend": True, "template": template}, "status": {}})
    notices = NoticeWriter(cluster.connect(), cluster.jobs_settings, SystemClock())
    users, pool = UsersJobs(cluster.connect(), cluster.jobs_settings, lambda _: True, notices), FoldedPool()
    sent: asyncio.Queue[Any] = asyncio.Queue()

    async def send(*events: Any, **_: Any) -> None:
        for event in events:
            sent.put_nowait(event)

    pool.fold(c.PoolConfigured())
    users.caught_up(pool.view)
    running = [asyncio.create_task(users.run(send)), asyncio.create_task(notices.run())]
    try:
        job = ReplicaId((await sent.get()).job)
        subject = JobSubject("mine", UID)
        notices.put(subject, Notice(reason="Placed", message="on n1"))
        notices.put_conditions(subject, {"steepest.dev/Hung": Notice(reason="FindingOpened", message="it hangs")})
        spec = ReplicaSpec(command=("train",), env={USERS_JOB: "mine"}, requests=Resources(cpu_m=100))
        await cluster.start(job, 1, "n1", spec, None)
        await cluster.stop(job, 1, grace_s=30)
        await until(lambda: ("batch", "jobs/status", "patch") in stub.used)
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_the_code_uses_each_right_and_lacks_none(tmp_path: Path) -> None:
    """What it asks for and may not do fails here, as on a cluster; what it never asks for is a right too many."""
    stub = GuardedStub()
    stub.node("n1")
    async with asyncio.timeout(120), served(stub, tmp_path / "kubeconfig"):
        cluster = adapter_on(tmp_path, [("n1", Resources(1_000, 1_024))])
        try:
            await own_jobs(cluster, stub)
            await users_job(cluster, stub)
        finally:
            await cluster.close()

    assert stub.used - given() == set()
    assert given() - stub.used == FOR_KEEPERS


def test_the_chart_gives_its_services_together_the_same_rights() -> None:
    """Split among those that act, as `rights.yaml` gives them to one account."""
    values = {**ASKED, "jobs": {"volumeClaim": "shared", "systemCheckpoints": True}}
    acting = ("log-collector", "migrator", "resizer")
    found = [of_kind("Role", values)[part] for part in acting]
    everywhere = [of_kind("ClusterRole", values)[part] for part in acting]
    whole_cluster = {("", "nodes/stats", "get"), ("", "pods", "list"), ("", "pods", "watch")}

    assert {right for role in found for right in rights(role["rules"])} | {
        right for role in everywhere for right in rights(role["rules"]) if right not in whole_cluster
    } == given()
