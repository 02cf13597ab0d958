"""The pods of a user's object over an API server in memory: they start by one resumption, whole or not at all."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.harness.json_patches import patched
from tests.harness.kubernetes_stub import KubernetesStub, adapter_on, served
from tests.harness.waiting import until
from tests.unit.cluster.kinds_objects import GANG, SPECS, made_by, read, users

from steepest.cluster.kubernetes import KubernetesCluster
from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.known import JOB, OTHERS, PYTORCH_JOB, TRAIN_JOB, reference
from steepest.cluster.kubernetes.kinds.marks import marks
from steepest.cluster.kubernetes.kinds.users_object import at, is_suspended, raw_roles
from steepest.cluster.kubernetes.manifest import INCARNATION, REPLICA, VARIABLE
from steepest.cluster.kubernetes.users_jobs import USERS_JOB
from steepest.cluster.port import GangPlace, ReplicaId, ReplicaSpec
from steepest.errors import ClusterError, RefusedError
from steepest.events.common import Resources

SIZE = 5
NODES = ("n1", "n2", "n1", "n2", "n1")
SAVED = 85
"""The status of a process that has saved and leaves."""

LONG_ENOUGH_TO_LET_GO_S = 0.3

Start = Callable[..., Coroutine[None, None, list[Any]]]
"""Starts replicas of an incarnation side by side, and gives what each answered."""


class HoldingStub(KubernetesStub):
    """An API server whose controllers may be slow.

    Attributes:
        holds_last: Whether the last pod of a gang is held back.
        held: The pods that were.
        keeps_ended: Whether pods that have ended stay there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.holds_last = False
        self.held: list[dict[str, Any]] = []
        self.keeps_ended = False

    def put(self, kind: str, found: dict[str, Any]) -> dict[str, Any]:
        """An object is there, unless it is held back."""
        if kind == "pods" and self.holds_last and len(self.objects["pods"]) == SIZE - 1:
            self.held.append(found)
            return found
        return super().put(kind, found)

    def drop(self, kind: str, name: str) -> None:
        """An object is gone, unless it is kept."""
        if not self.keeps_ended:
            super().drop(kind, name)


@pytest.fixture(params=[JOB, *OTHERS.values()], ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind that has gangs."""
    found: Kind = request.param
    return found


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[HoldingStub]:
    """An API server with two nodes."""
    made = HoldingStub()
    made.node("n1")
    made.node("n2")
    async with served(made, tmp_path / "kubeconfig"):
        yield made


@pytest.fixture
async def cluster(stub: HoldingStub, tmp_path: Path) -> AsyncIterator[KubernetesCluster]:
    """An adapter over it, for all kinds."""
    del stub
    nodes = [("n1", Resources(1_000, 1_024)), ("n2", Resources(1_000, 1_024))]
    made = adapter_on(tmp_path, nodes, (JOB, *OTHERS.values()))
    yield made
    await made.close()


@pytest.fixture
def start(cluster: KubernetesCluster, stub: HoldingStub, kind: Kind) -> Start:
    """Puts a marked object there, and starts replicas of it side by side."""
    asked = users(copy.deepcopy(SPECS[kind.name]), resourceVersion="1")
    having = made_by(kind)
    change = marks(kind, read(asked), cluster.jobs_settings, GANG, read(having) if having else None)
    if having is not None and kind.made is not None:
        stub.put(kind.made.kind.plural, having)
    stub.put(kind.plural, patched(asked, change))

    async def of(incarnation: int, ranks: range = range(SIZE), nodes: tuple[str, ...] = NODES) -> list[Any]:
        def spec(rank: int) -> ReplicaSpec:
            place = GangPlace(role="worker", role_index=rank, rank=rank, world_size=SIZE, nodes=nodes)
            env = {USERS_JOB: reference(kind, "mine")}
            return ReplicaSpec(command=("train",), env=env, requests=Resources(cpu_m=100), gang=place)

        calls = (cluster.start(ReplicaId(GANG, rank), incarnation, nodes[rank], spec(rank), None) for rank in ranks)
        return await asyncio.gather(*calls, return_exceptions=True)

    return of


def requests(stub: HoldingStub) -> list[tuple[str, str]]:
    """What was changed, without how."""
    return [(method, kind) for method, kind, _ in stub.asked if method != "GET"]


async def test_a_gang_starts_by_one_resumption(
    start: Start, cluster: KubernetesCluster, stub: HoldingStub, kind: Kind
) -> None:
    """Then each pod gets its node in one request; a stop is one suspension, and the next start is like the first."""
    for incarnation in (1, 2):
        stub.asked.clear()
        assert await start(incarnation) == [None] * SIZE
        pods = {pod["metadata"]["labels"][REPLICA]: pod for pod in stub.objects["pods"].values()}

        assert requests(stub) == [("PATCH", kind.plural)] + [("PATCH", "pods")] * SIZE
        assert [pods[str(rank)]["spec"]["nodeName"] for rank in range(SIZE)] == list(NODES)
        for rank in range(SIZE):
            annotations = pods[str(rank)]["metadata"]["annotations"]
            said = {name: annotations[f"{VARIABLE}STEEPEST_{name}"] for name in ("RANK", "WORLD_SIZE", "REPLICA")}
            assert said == {"RANK": str(rank), "WORLD_SIZE": str(SIZE), "REPLICA": str(rank)}
            assert len(annotations[f"{VARIABLE}STEEPEST_PEERS"].split(",")) == SIZE
            assert annotations[INCARNATION] == str(incarnation)

        stub.asked.clear()
        stops = (cluster.stop(ReplicaId(GANG, rank), incarnation, grace_s=30) for rank in range(SIZE))
        ends = await asyncio.gather(*stops)
        assert [end.exit_status for end in ends] == [SAVED] * SIZE
        assert requests(stub) == [("PATCH", kind.plural)]


async def test_no_pod_is_let_go_before_all_are_there(start: Start, stub: HoldingStub) -> None:
    """A pod that is long in coming keeps the others behind their gates."""
    stub.holds_last = True
    starting = asyncio.create_task(start(1))
    await until(lambda: bool(stub.held))
    await asyncio.sleep(LONG_ENOUGH_TO_LET_GO_S)
    assert ("PATCH", "pods") not in requests(stub)
    stub.holds_last = False
    stub.put("pods", stub.held[0])

    assert await starting == [None] * SIZE


async def test_a_gang_is_not_resumed_for_a_node_that_is_not_ready(start: Start, stub: HoldingStub) -> None:
    """Whichever of its replicas would run there."""
    stub.node("n2", unschedulable=True)
    stub.asked.clear()
    answers = await start(1)

    assert [answer.code for answer in answers] == ["node-lost"] * SIZE
    assert requests(stub) == []


async def test_a_gang_starts_on_a_tainted_node(start: Start, stub: HoldingStub) -> None:
    """Its pods say themselves what they tolerate, and the view has placed it by that."""
    stub.node("n2", taints=[{"key": "team", "value": "us", "effect": "NoSchedule"}])

    assert await start(1) == [None] * SIZE


async def test_a_gang_of_which_a_pod_is_refused_is_suspended_and_goes_no_further(
    start: Start, cluster: KubernetesCluster, stub: HoldingStub, kind: Kind
) -> None:
    """The replicas after it do not begin; those before it are stopped by who asked, and the next start is whole."""
    let_go = 0

    def refuse(method: str, which: str, name: str) -> None:
        nonlocal let_go
        let_go += (method, which) == ("PATCH", "pods")
        if let_go == 3:
            stub.before = lambda *_: None
            stub.drop("pods", name)

    stub.before = refuse
    answers = await start(1)
    (owner,) = stub.objects[kind.plural].values()

    assert answers[:2] == [None, None]
    assert isinstance(answers[2], ClusterError)
    assert answers[2].definite
    assert [answer.code for answer in answers[3:]] == ["gang-incomplete"] * 2
    assert is_suspended(kind, owner)
    for rank in range(2):
        assert (await cluster.stop(ReplicaId(GANG, rank), 1, grace_s=30)).exit_status == SAVED
    assert await start(2) == [None] * SIZE


async def test_an_object_of_another_size_or_that_is_over_is_not_started(
    start: Start, stub: HoldingStub, kind: Kind
) -> None:
    """Its user has changed it since it was submitted, or it ended by itself."""
    (owner,) = stub.objects[kind.plural].values()
    (having,) = stub.objects[kind.plural if kind.made is None else kind.made.kind.plural].values()
    (_, role) = raw_roles(kind, having)[-1]
    at(role, kind.roles.pods[:-1]).update({name[-1]: 3 for name in (kind.roles.pods, kind.roles.completions) if name})  # type: ignore[attr-defined]
    with pytest.raises(RefusedError, match="when it was submitted"):
        raise (await start(1))[0]
    owner["status"] = {"conditions": [{"type": kind.ends[0], "status": "True"}]}
    with pytest.raises(RefusedError, match="is over"):
        raise (await start(2))[0]
    stub.drop(kind.plural, "mine")
    with pytest.raises(RefusedError, match="is gone"):
        raise (await start(3))[0]


async def test_a_cluster_without_a_kind_has_the_others(start: Start, stub: HoldingStub, kind: Kind) -> None:
    """What it does not know is not there."""
    del stub.objects["trainjobs" if kind is not TRAIN_JOB else "jobs"]

    assert await start(1) == [None] * SIZE


@pytest.mark.parametrize("kind", [PYTORCH_JOB], indirect=True)
async def test_pods_of_before_are_gone_before_an_object_that_counts_them_is_resumed(
    start: Start, cluster: KubernetesCluster, stub: HoldingStub
) -> None:
    """Its own operator would take one that was stopped for one that has failed."""
    assert await start(1) == [None] * SIZE
    stub.keeps_ended = True
    for rank in range(SIZE):
        assert (await cluster.stop(ReplicaId(GANG, rank), 1, grace_s=30)).exit_status == SAVED
    stub.keeps_ended = False
    stub.asked.clear()
    starting = asyncio.create_task(start(2))
    await asyncio.sleep(LONG_ENOUGH_TO_LET_GO_S)
    assert requests(stub) == []
    for name in list(stub.objects["pods"]):
        stub.drop("pods", name)

    assert await starting == [None] * SIZE


@pytest.mark.parametrize("kind", [TRAIN_JOB], indirect=True)
async def test_an_object_beside_another_ones_of_its_name_is_not_started(start: Start, stub: HoldingStub) -> None:
    """What has the name of the object that it makes, and is not its own, says nothing of its pods."""
    (having,) = stub.objects["jobsets"].values()
    having["metadata"]["ownerReferences"] = [{"uid": "another"}]
    stub.asked.clear()
    answers = await start(1)

    assert {answer.code for answer in answers} == {"no-such-job", "gang-incomplete"}
    assert requests(stub) == []
    (owner,) = stub.objects["trainjobs"].values()
    owner["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    stub.drop("jobsets", "mine")  # as after the time that its runtime lets it stay
    with pytest.raises(RefusedError, match="is over"):
        raise (await start(2))[0]
