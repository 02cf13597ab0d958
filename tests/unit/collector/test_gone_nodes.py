"""A lost node is declared gone only on the cluster's proof: no such node, and no pod of the pool there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import pytest
from tests.unit.collector.written_events import received

from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.port import Cluster, ReplicaFiles, ReplicaId, ReplicaPhase, ReplicaStatus
from steepest.collector.gone_nodes import LOOK_S, OUT_OF_SERVICE, GoneNodes
from steepest.errors import UncertainError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.view.cluster_view import ClusterView

_T = TypeVar("_T")

REPLICA = ReplicaId("a", 0)
OFF = {"key": OUT_OF_SERVICE, "effect": "NoExecute"}


class ApiServer(KubernetesApi):
    """Lists one node, or none.

    Attributes:
        node: The node; None: it was removed.
        answers: Whether it answers.
        asked: How often it was asked.
    """

    def __init__(self) -> None:
        super().__init__()
        self.node: dict[str, Any] | None = None
        self.answers = True
        self.asked = 0

    async def get(self, path: str, kind: type[_T], query: Mapping[str, str] | None = None) -> _T:
        """List the nodes of that name."""
        assert (path, query) == ("/api/v1/nodes", {"fieldSelector": "metadata.name=n1"})
        self.asked += 1
        if not self.answers:
            raise UncertainError("it does not answer")
        return msgspec.convert({"items": [self.node] if self.node else [], "metadata": {}}, kind)


class OneReplica:
    """What a cluster says of a replica that was started on n1.

    Attributes:
        phase: What is proven of it.
        node: Where its newest incarnation is.
    """

    def __init__(self, phase: ReplicaPhase, node: str = "n1") -> None:
        self.phase = phase
        self.node = node

    def files(self, node: str) -> Sequence[ReplicaFiles]:
        """Of two incarnations, the newer of which may be elsewhere."""
        assert node == "n1"
        nowhere = Path("none")
        return [
            ReplicaFiles(replica=REPLICA, incarnation=number, output=nowhere, reports=nowhere, below=nowhere)
            for number in (1, 2)
        ]

    async def lookup(self, replica: ReplicaId, *, verify: bool = True) -> ReplicaStatus:
        """Its newest incarnation."""
        assert not verify
        return ReplicaStatus(replica=replica, incarnation=2, node=self.node, phase=self.phase)


def node(*taints: Mapping[str, str], ready: bool) -> dict[str, Any]:
    """The node as an object."""
    return {
        "metadata": {"name": "n1", "uid": "u"},
        "spec": {"taints": list(taints)},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
    }


@contextlib.asynccontextmanager
async def watching(api: ApiServer, cluster: OneReplica) -> AsyncIterator[list[c.ClusterEvent]]:
    """What is declared of a pool whose node n1 is lost, until the block ends."""
    view = ClusterView()
    for event in (c.NodeJoined(node="n1", capacity=Resources(1_000)), c.NodeLost(node="n1", silent_ms=20_000)):
        assert view.fold(received(event))
    sent: list[Any] = []

    async def send(*events: msgspec.Struct, **_: object) -> None:
        sent.extend(events)

    effector = GoneNodes(api, cast("Cluster", cluster))
    effector.caught_up(view)
    task = asyncio.create_task(effector.run(send))
    yield sent
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("removed", [None, node(OFF, ready=False)], ids=["no object", "out of service"])
async def test_a_node_that_the_cluster_has_removed_is_gone(removed: dict[str, Any] | None) -> None:
    """It is said once, as soon as no pod is left there."""
    api, cluster = ApiServer(), OneReplica(ReplicaPhase.RUNNING)
    api.node = removed
    async with watching(api, cluster) as sent:
        await asyncio.sleep(3 * LOOK_S)
        assert sent == []
        cluster.phase = ReplicaPhase.GONE
        await asyncio.sleep(3 * LOOK_S)

    assert sent == [c.NodeGone(node="n1")]


@pytest.mark.parametrize(
    "seen", [node(ready=True), node(ready=False), node(OFF, ready=True)], ids=["ready", "not ready", "answers"]
)
async def test_a_node_that_the_cluster_still_has_is_not(seen: dict[str, Any]) -> None:
    """Silence proves nothing, and a node that is ready is not off."""
    api = ApiServer()
    api.node = seen
    async with watching(api, OneReplica(ReplicaPhase.GONE)) as sent:
        await asyncio.sleep(3 * LOOK_S)

    assert api.asked > 1
    assert sent == []


async def test_without_an_answer_nothing_is_known() -> None:
    """It is asked again."""
    api = ApiServer()
    api.answers = False
    async with watching(api, OneReplica(ReplicaPhase.GONE)) as sent:
        await asyncio.sleep(3 * LOOK_S)
        assert sent == []
        api.answers = True
        await asyncio.sleep(2 * LOOK_S)

    assert sent == [c.NodeGone(node="n1")]


async def test_what_runs_elsewhere_does_not_hold_it_back() -> None:
    """A replica that was moved away has a newer incarnation."""
    async with watching(ApiServer(), OneReplica(ReplicaPhase.RUNNING, node="n2")) as sent:
        await asyncio.sleep(2 * LOOK_S)

    assert sent == [c.NodeGone(node="n1")]
