"""Jobs that Kueue admits, over an API server in memory: stopped and resumed by their Workloads, with marks on their pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.json_patches import patched
from tests.harness.kubernetes_stub import KubernetesStub, Object, adapter_on, served
from tests.harness.waiting import until
from tests.unit.cluster.kinds_objects import GANG, UID, indexed, read, template, users

from steepest.cluster.kubernetes import KubernetesCluster
from steepest.cluster.kubernetes.kinds.known import JOB, reference
from steepest.cluster.kubernetes.kinds.kueue import HELD, QUEUE_OF_KUEUE
from steepest.cluster.kubernetes.kinds.marks import marks
from steepest.cluster.kubernetes.manifest import labels_of_job
from steepest.cluster.kubernetes.objects import GATE, SCHEDULE
from steepest.cluster.kubernetes.users_jobs import USERS_JOB
from steepest.cluster.port import GangPlace, ReplicaId, ReplicaSpec
from steepest.errors import ClusterError
from steepest.events.common import Resources

SIZE = 3
SAVED = 85
WORKLOAD = "job-mine-1954c"
TEMPLATE = template(schedulingGates=[{"name": GATE}])


class KueueStub(KubernetesStub):
    """An API server with a Kueue.

    Attributes:
        has_quota: Whether there is quota for the Job.
        is_busy: Whether Kueue has yet to look at what has changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_quota = True
        self.is_busy = False
        self._was_active: bool | None = None
        self._generation = 0

    def follow(self, kind: str, changed: Object) -> None:
        """What Kueue does then: it puts the template of a Job back that it suspends, and suspends what others resume."""
        if kind in {"workloads", "jobs"}:
            job, found = self.objects["jobs"]["mine"], self.objects["workloads"][WORKLOAD]
            is_active = found["spec"]["active"]
            self._generation += is_active is not self._was_active
            self._was_active, found["metadata"]["generation"] = is_active, self._generation
            if self.is_busy:
                return
            job["spec"]["suspend"] = not (is_active and self.has_quota)
            found["status"] = {"conditions": _conditions(self._generation, admitted=not job["spec"]["suspend"])}
            if job["spec"]["suspend"]:
                job["spec"]["template"] = TEMPLATE
            kind, changed = "jobs", self.put("jobs", job)
        super().follow(kind, changed)


def _conditions(generation: int, *, admitted: bool) -> list[Object]:
    """What Kueue says of a Workload."""
    said = {"status": "True" if admitted else "False", "observedGeneration": generation}
    why = {"reason": "Pending", "message": "insufficient unused quota for cpu in flavor any"}
    return [{"type": "QuotaReserved", **said, **({} if admitted else why)}, {"type": "Admitted", **said}]


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[KueueStub]:
    """An API server with two nodes."""
    made = KueueStub()
    made.node("n1")
    made.node("n2")
    async with served(made, tmp_path / "kubeconfig"):
        yield made


@pytest.fixture
async def cluster(stub: KueueStub, tmp_path: Path) -> AsyncIterator[KubernetesCluster]:
    """An adapter over it; a marked Job of three pods that Kueue has admitted."""
    made = adapter_on(tmp_path, [("n1", Resources(1_000, 1_024)), ("n2", Resources(1_000, 1_024))])
    labels = {SCHEDULE: "true", QUEUE_OF_KUEUE: "team"}
    asked = users(indexed(SIZE, template=TEMPLATE), resourceVersion="1", labels=labels)
    stub.put("jobs", patched(asked, marks(JOB, read(asked), made.jobs_settings, GANG)))
    metadata = {"name": WORKLOAD, "labels": {"kueue.x-k8s.io/job-uid": UID}, "annotations": {}}
    stub.follow("workloads", stub.put("workloads", {"metadata": metadata, "spec": {"active": True}}))
    yield made
    await made.close()


async def start(cluster: KubernetesCluster, incarnation: int) -> list[Any]:
    """What each replica's start answered."""
    nodes = ("n1", "n2", "n1")

    def spec(rank: int) -> ReplicaSpec:
        place = GangPlace(role="worker", role_index=rank, rank=rank, world_size=SIZE, nodes=nodes)
        env = {USERS_JOB: reference(JOB, "mine")}
        return ReplicaSpec(command=("train",), env=env, requests=Resources(cpu_m=100), gang=place)

    calls = (cluster.start(ReplicaId(GANG, rank), incarnation, nodes[rank], spec(rank), None) for rank in range(SIZE))
    return await asyncio.gather(*calls, return_exceptions=True)


async def stop(cluster: KubernetesCluster, incarnation: int) -> list[int | None]:
    """The status that each replica ended with."""
    stops = (cluster.stop(ReplicaId(GANG, rank), incarnation, grace_s=30) for rank in range(SIZE))
    return [end.exit_status for end in await asyncio.gather(*stops)]


def changes(stub: KueueStub) -> list[str]:
    """What was changed, without how."""
    return [kind for method, kind, _ in stub.asked if method == "PATCH"]


def workload(stub: KueueStub) -> Object:
    """What Kueue has made of the Job."""
    return stub.objects["workloads"][WORKLOAD]


async def test_a_job_starts_again_when_it_is_admitted_again(cluster: KubernetesCluster, stub: KueueStub) -> None:
    """Its Workload is inactive in between, and nothing is written to the Job; each pod is marked once, and placed."""
    for again in (False, True):
        stub.asked.clear()
        assert await start(cluster, 1 + again) == [None] * SIZE
        assert changes(stub) == ["workloads"] * again + ["pods"] * SIZE * 2
        labels = labels_of_job(cluster.jobs_settings, GANG).items()
        assert all(labels <= pod["metadata"]["labels"].items() for pod in stub.objects["pods"].values())
        assert HELD not in workload(stub)["metadata"]["annotations"]

        stub.asked.clear()
        assert await stop(cluster, 1 + again) == [SAVED] * SIZE
        assert changes(stub) == ["workloads"]
        assert (workload(stub)["spec"]["active"], HELD in workload(stub)["metadata"]["annotations"]) == (False, True)


async def test_a_start_waits_until_kueue_has_looked(cluster: KubernetesCluster, stub: KueueStub) -> None:
    """What Kueue said of the Workload before it was activated is no answer; the start goes on with the admission."""
    await start(cluster, 1)
    await stop(cluster, 1)
    stub.is_busy = True
    starting = asyncio.create_task(start(cluster, 2))
    await until(lambda: workload(stub)["spec"]["active"])
    looked = stub.listed["workloads"]
    await until(lambda: stub.listed["workloads"] > looked + 1)
    assert not starting.done()
    stub.is_busy = False
    stub.follow("workloads", workload(stub))

    assert await starting == [None] * SIZE


async def test_a_start_without_quota_gives_its_room_back(cluster: KubernetesCluster, stub: KueueStub) -> None:
    """As soon as Kueue says so, in its words. Its Workload keeps its place in the queue, and the next start leaves it."""
    await start(cluster, 1)
    await stop(cluster, 1)
    stub.has_quota = False
    refused = await start(cluster, 2)
    waits = dict(workload(stub)["spec"]), HELD in workload(stub)["metadata"]["annotations"]
    stub.has_quota = True
    stub.follow("workloads", workload(stub))
    stub.asked.clear()

    assert {getattr(each, "code", each) for each in refused} == {"not-admitted", "gang-incomplete"}
    assert any("insufficient unused quota for cpu" in str(each) for each in refused)
    assert waits == ({"active": True}, False)
    assert await start(cluster, 3) == [None] * SIZE
    assert "workloads" not in changes(stub)


async def test_what_kueue_has_preempted_starts_again(cluster: KubernetesCluster, stub: KueueStub) -> None:
    """No Workload is changed for that: Kueue itself has suspended and resumed the Job."""
    await start(cluster, 1)
    stub.has_quota = False
    stub.follow("workloads", workload(stub))
    assert not stub.objects["pods"]
    stub.has_quota = True
    stub.follow("workloads", workload(stub))
    stub.asked.clear()

    assert await start(cluster, 2) == [None] * SIZE
    assert "workloads" not in changes(stub)


async def test_what_another_party_has_deactivated_is_not_activated(cluster: KubernetesCluster, stub: KueueStub) -> None:
    """Neither after a stop of Steepest's, which then is not the reason."""
    await start(cluster, 1)
    workload(stub)["spec"]["active"] = False
    stub.follow("workloads", workload(stub))
    await stop(cluster, 1)
    refused = await start(cluster, 2)

    assert {getattr(each, "code", each) for each in refused} <= {"not-admitted", "gang-incomplete"}
    assert any(isinstance(each, ClusterError) and each.code == "not-admitted" for each in refused)
    assert workload(stub)["spec"]["active"] is False
