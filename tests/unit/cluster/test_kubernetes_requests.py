"""The Kubernetes adapter over an API server in memory: what a start asks of it, and what a node says of itself."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.harness.kubernetes_stub import KubernetesStub, adapter_on, served
from tests.harness.waiting import until

from steepest.cluster.kubernetes import KubernetesCluster
from steepest.cluster.kubernetes.api import _pause_s
from steepest.cluster.kubernetes.manifest import labels_of_job
from steepest.cluster.kubernetes.objects import GATE, SCHEDULE, Pod
from steepest.cluster.kubernetes.reflector import PodReflector, Reflector
from steepest.cluster.kubernetes.steps.launch import NO_ROOM_S
from steepest.cluster.kubernetes.users_jobs import USERS_JOB
from steepest.cluster.port import NodeTerms, ReplicaId, ReplicaSpec
from steepest.errors import ClusterError, RefusedError
from steepest.events.common import Resources, Taint

REPLICA = ReplicaId("a")
UID = "0a1b2c3d-0000-4000-8000-000000000000"
USERS = ReplicaId("mine.0a1b2c3d")
SPEC = ReplicaSpec(command=("train",), requests=Resources(cpu_m=100))
FOUR = 4
"""Requests that a placement may cost."""


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[KubernetesStub]:
    """An API server with two nodes, served at the path of ``cluster``."""
    made = KubernetesStub()
    made.node("n1")
    made.node("n2", labels={"zone": "a"}, taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    async with served(made, tmp_path / "kubeconfig"):
        yield made


@pytest.fixture
async def make(stub: KubernetesStub, tmp_path: Path) -> AsyncIterator[Callable[..., KubernetesCluster]]:
    """Makes an adapter over it."""
    del stub
    made: list[KubernetesCluster] = []

    def of(nodes: Any) -> KubernetesCluster:
        adapter = adapter_on(tmp_path, nodes)
        made.append(adapter)
        return adapter

    yield of
    for each in made:
        await each.close()


@pytest.fixture
def cluster(make: Callable[..., KubernetesCluster]) -> KubernetesCluster:
    """With listed nodes."""
    return make([("n1", Resources(1_000, 1_024)), ("n2", Resources(1_000, 1_024))])


def kinds(stub: KubernetesStub) -> list[tuple[str, str]]:
    """What was asked for, without what it said."""
    return [(method, kind) for method, kind, _ in stub.asked]


async def test_a_first_placement_costs_at_most_four_requests(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """Make the Job, and let its pod go; nothing is read that was just written."""
    await cluster.start(REPLICA, 1, "n1", SPEC, None)

    assert kinds(stub) == [("POST", "jobs"), ("PATCH", "pods")]
    assert len(stub.asked) <= FOUR
    assert all(body["metadata"]["uid"] for method, _, body in stub.asked if method == "PATCH")


async def test_a_later_placement_resumes_the_same_job(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """The adapter that has suspended it knows it, so nothing is read."""
    await cluster.start(REPLICA, 1, "n1", SPEC, None)
    (before,) = stub.objects["jobs"].values()
    stopped = await cluster.stop(REPLICA, 1, grace_s=30)
    stub.asked.clear()
    await cluster.start(REPLICA, 2, "n1", SPEC, None)
    (after,) = stub.objects["jobs"].values()

    assert stopped.exit_status == 85
    assert kinds(stub) == [("PATCH", "jobs"), ("PATCH", "pods")]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_a_suspended_job_that_is_not_the_same_any_more_is_read(
    make: Callable[..., KubernetesCluster], stub: KubernetesStub
) -> None:
    """By the adapter that has suspended it, and by another one, which knows nothing of it."""
    listed = [("n1", Resources(1_000, 1_024))]
    cluster = make(listed)
    await cluster.start(REPLICA, 1, "n1", SPEC, None)
    await cluster.stop(REPLICA, 1, grace_s=30)
    (name,) = stub.objects["jobs"]
    other = {**stub.objects["jobs"][name]}
    stub.drop("jobs", name)
    stub.put("jobs", {**other, "metadata": {**other["metadata"], "uid": "another"}})
    stub.asked.clear()
    await cluster.start(REPLICA, 2, "n1", SPEC, None)
    assert kinds(stub) == [("PATCH", "jobs"), ("GET", "jobs"), ("PATCH", "jobs"), ("PATCH", "pods")]
    await cluster.stop(REPLICA, 2, grace_s=30)
    stub.asked.clear()
    await make(listed).start(REPLICA, 3, "n1", SPEC, None)
    assert kinds(stub) == [("GET", "jobs"), ("PATCH", "jobs"), ("PATCH", "pods")]


async def test_a_job_that_a_short_grace_ends_is_read(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """Its pod is removed before it is suspended, which fails it: a new one takes its place."""
    await cluster.start(REPLICA, 1, "n1", SPEC, None)
    (before,) = stub.objects["jobs"].values()
    await cluster.stop(REPLICA, 1, grace_s=1)
    before["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    stub.put("jobs", before)
    stub.asked.clear()
    await cluster.start(REPLICA, 2, "n1", SPEC, None)

    assert kinds(stub)[:3] == [("GET", "jobs"), ("DELETE", "jobs"), ("GET", "jobs")]
    assert next(iter(stub.objects["jobs"].values()))["metadata"]["uid"] != before["metadata"]["uid"]


async def test_a_job_of_another_party_is_refused(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """A Job of that name is there, without the installation's label: it is left as it is."""
    await cluster.start(REPLICA, 1, "n1", SPEC, None)
    (name,) = stub.objects["jobs"]
    await cluster.stop(REPLICA, 1, grace_s=30)
    await cluster.forget("a")
    theirs = {"metadata": {"name": name, "labels": {}}, "spec": {"suspend": True}}
    stub.put("jobs", theirs)
    stub.asked.clear()

    with pytest.raises(ClusterError, match="is not Steepest's") as refused:
        await cluster.start(REPLICA, 1, "n1", SPEC, None)
    assert refused.value.code == "name-taken"
    assert set(kinds(stub)) == {("POST", "jobs"), ("GET", "jobs")}
    assert stub.objects["jobs"][name]["spec"] == {"suspend": True}


async def test_a_job_that_is_replaced_under_way_is_looked_at_again(
    cluster: KubernetesCluster, stub: KubernetesStub
) -> None:
    """A change names the UID, so that it never meets another Job of the name."""

    def replace(method: str, kind: str, name: str) -> None:
        if (method, kind) == ("PATCH", "jobs"):
            stub.before = lambda *_: None
            other = {**stub.objects["jobs"][name]}
            stub.drop("jobs", name)
            stub.put("jobs", {**other, "metadata": {**other["metadata"], "uid": "another"}})

    await cluster.start(REPLICA, 1, "n1", SPEC, None)
    await cluster.stop(REPLICA, 1, grace_s=30)
    stub.before = replace
    await cluster.start(REPLICA, 2, "n1", SPEC, None)
    (job,) = stub.objects["jobs"].values()
    (pod,) = stub.objects["pods"].values()

    assert job["metadata"]["uid"] == "another"
    assert pod["metadata"]["ownerReferences"] == [{"uid": "another"}]


async def test_a_pod_without_its_labels_still_runs(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """The watch by labels calls it deleted; a second incarnation would train beside it."""
    await cluster.start(REPLICA, 1, "n1", SPEC, None)
    ((name, pod),) = stub.objects["pods"].items()
    stub.hide("pods", name)
    background = cluster._background
    assert background is not None
    await until(lambda: background.pods.last(pod["metadata"]["uid"]) is not None)

    with pytest.raises(RefusedError, match="is running") as refused:
        await cluster.start(REPLICA, 2, "n1", SPEC, None)
    assert refused.value.code == "still-running"
    stub.drop("pods", name)
    assert (await cluster.stop(REPLICA, 1, grace_s=30)).exit_status is None


async def test_a_node_is_named_by_its_own_label(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """It is a node's name only by custom: with another one the scheduler would find no node at all."""
    stub.node("n1", labels={"kubernetes.io/hostname": "n1.example"})
    await cluster.start(REPLICA, 1, "n1", SPEC, None)
    (pod,) = stub.objects["pods"].values()

    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "n1.example"}


async def test_a_job_that_is_being_deleted_is_not_used(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """Its controller makes no pod for it any more; a new one takes its place once it is gone."""
    await cluster.start(REPLICA, 1, "n1", SPEC, None)
    ((name, job),) = stub.objects["jobs"].items()
    (pod,) = list(stub.objects["pods"])
    stub.drop("pods", pod)
    assert (await cluster.stop(REPLICA, 1, grace_s=30)).exit_status is None
    job["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}
    stub.put("jobs", job)
    await cluster.start(REPLICA, 2, "n1", SPEC, None)

    assert "deletionTimestamp" not in stub.objects["jobs"][name]["metadata"]


async def test_a_pod_whose_job_was_removed_has_its_grace(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """It saves within it, as any other one that is stopped."""
    await cluster.start(REPLICA, 1, "n1", SPEC, None)
    (name,) = stub.objects["jobs"]
    stub.drop("jobs", name)
    await cluster.stop(REPLICA, 1, grace_s=30)
    (options,) = [body for method, kind, body in stub.asked if (method, kind) == ("DELETE", "pods")]

    assert options["gracePeriodSeconds"] == 30


async def test_a_tainted_node_takes_a_users_job_only(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """Its own pod says what it tolerates; a pod that Steepest makes tolerates nothing."""
    with pytest.raises(RefusedError, match="cordoned or tainted"):
        await cluster.start(REPLICA, 1, "n2", SPEC, None)
    users = ReplicaSpec(command=("train",), env={USERS_JOB: "mine"}, requests=Resources(cpu_m=100))
    with pytest.raises(RefusedError, match=r"the user's object of .* is gone"):
        await cluster.start(USERS, 1, "n2", users, None)
    labels = labels_of_job(cluster.jobs_settings, USERS.job)
    gated = {"metadata": {"labels": labels}, "spec": {"schedulingGates": [{"name": GATE}]}}
    named = {"name": "mine", "uid": UID, "labels": {SCHEDULE: "true", **labels}}
    mine = {"metadata": named, "spec": {"suspend": True, "template": gated}}
    stub.put("jobs", mine)
    stub.asked.clear()
    await cluster.start(USERS, 1, "n2", users, None)
    (pod,) = stub.objects["pods"].values()
    assert (pod["spec"]["nodeName"], kinds(stub)) == ("n2", [("PATCH", "jobs"), ("PATCH", "pods")])
    await cluster.stop(USERS, 1, grace_s=30)
    stub.node("n2", unschedulable=True)
    await until(lambda: (found := cluster.node_terms("n2")) is not None and not found.taints)
    with pytest.raises(RefusedError, match="cordoned or tainted"):
        await cluster.start(USERS, 2, "n2", users, None)


@pytest.mark.parametrize("nodes", [[("n1", Resources(900)), ("n2", Resources(900))], ""], ids=["listed", "selected"])
async def test_a_node_says_its_labels_and_taints(make: Callable[..., KubernetesCluster], nodes: Any) -> None:
    """And what is there for those that tolerate them; its heartbeat says that there is nothing for others."""
    cluster = make(nodes)
    size = Resources(900) if nodes else Resources(2_000, 2_048)
    async with contextlib.aclosing(cluster.heartbeats()) as beats:  # type: ignore[type-var]
        seen = {beat.node: beat for beat in (await anext(beats), await anext(beats))}
    taint = Taint(key="gpu", value="yes", effect="NoSchedule")

    assert cluster.node_terms("n1") == NodeTerms(capacity=size, labels={}, taints=())
    assert cluster.node_terms("n2") == NodeTerms(capacity=size, labels={"zone": "a"}, taints=(taint,))
    assert cluster.node_terms("n3") is None
    assert seen["n1"].capacity == size
    assert seen["n2"].capacity == (size if nodes else Resources())


@pytest.mark.parametrize(
    ("named", "pause_s"),
    [("0", 0.0), ("1", 1.0), ("7", 7.0), ("30", 30.0), ("86400", 30.0), ("9" * 400, 30.0), (None, 0.4), ("soon", 0.4)],
)
def test_a_request_waits_as_long_as_the_server_says_within_reason(named: str | None, pause_s: float) -> None:
    """Half a minute at most; where it says nothing that can be read, a little longer each time."""
    assert _pause_s(named, 1) == pause_s
    assert _pause_s(named, 6) >= pause_s


async def test_a_watch_follows_an_object_of_any_size(cluster: KubernetesCluster, stub: KubernetesStub) -> None:
    """A user's Job may be so long that JSON makes megabytes of it: it is one line, and the watch goes on."""
    changed: list[str] = []
    api = cluster.connect()
    pods: PodReflector = Reflector(
        api, "/api/v1/namespaces/n/pods", Pod, {}, lambda each: changed.append(each.metadata.name)
    )
    pods.start()
    try:
        assert await pods.listed(NO_ROOM_S)
        large = stub.put("pods", {"metadata": {"name": "large", "annotations": {"x": "\u2028" * 1_000_000}}})
        small = stub.put("pods", {"metadata": {"name": "small"}})
        await until(lambda: pods.get(small["metadata"]["uid"]) is not None)
        assert pods.get(large["metadata"]["uid"]) is not None
        assert changed == ["large", "small"]
    finally:
        await pods.close()
        await api.close()
