"""A pool whose nodes its cluster selects: they come by their labels, and what others have there is not the pool's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from steepest.cluster.kubernetes import KubernetesCluster
from steepest.cluster.kubernetes.nodes.selected_nodes import STEP_CPU_M, resources
from steepest.events.common import Resources
from steepest.events.heartbeat import NodeHeartbeat
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import CLAIM, NAMESPACE

PATIENCE_S = 60.0
OTHERS_CPU_M = 300


class Heard:
    """The newest heartbeats of a pool's nodes."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster
        self.newest: dict[str, NodeHeartbeat] = {}

    async def until(self, condition: Callable[[], object]) -> None:
        """Listen until something holds."""
        async with asyncio.timeout(PATIENCE_S), contextlib.aclosing(self._cluster.heartbeats()) as beats:  # type: ignore[type-var]
            async for each in beats:
                self.newest[each.node] = each
                if condition():
                    return

    def capacity(self, node: str) -> Resources | None:
        """What a node has, as it says."""
        return self.newest[node].capacity if node in self.newest else None


@pytest.fixture
def label(lab: KubernetesLab) -> Iterator[str]:
    """A label that no node has before the test, and none after it."""
    name = f"test.steepest.dev/pool-{secrets.token_hex(4)}"
    yield name
    lab.kubectl("label", "nodes", "--all", f"{name}-")


@pytest.fixture
async def heard(lab: KubernetesLab, kubeconfig: Path, label: str) -> AsyncIterator[Heard]:
    """The heartbeats of a pool with the nodes of the label."""
    cluster = KubernetesCluster(
        lab.folder.volume / f"selected-{secrets.token_hex(4)}",
        f"{label}=true",
        "test",
        namespace=NAMESPACE,
        claim=CLAIM,
        volume=lab.folder.volume,
        image=DEMO,
        kubeconfig=kubeconfig,
        heartbeat_s=0.2,
    )
    yield Heard(cluster)
    await cluster.close()


def pod_of_others(name: str) -> dict[str, object]:
    """Another party's pod on the second node."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": "node-b",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "other",
                    "image": DEMO,
                    "imagePullPolicy": "Never",
                    "command": ["sleep", "600"],
                    "resources": {"requests": {"cpu": f"{OTHERS_CPU_M}m"}},
                }
            ],
        },
    }


@pytest.mark.timeout(200)
async def test_nodes_join_by_their_label(lab: KubernetesLab, heard: Heard, label: str) -> None:
    """A node without it sends nothing; one that gets it has what pods may have there."""
    lab.kubectl("label", "node", "node-a", f"{label}=true")
    await heard.until(lambda: "node-a" in heard.newest)
    assert set(heard.newest) == {"node-a"}
    lab.kubectl("label", "node", "node-b", f"{label}=true")
    await heard.until(lambda: "node-b" in heard.newest)
    most = resources(json.loads(lab.kubectl("get", "node", "node-b", "-o", "json"))["status"]["allocatable"])

    assert 0 < heard.newest["node-b"].capacity.cpu_m <= most.cpu_m
    assert 0 < heard.newest["node-b"].capacity.replicas <= most.replicas


@pytest.mark.timeout(200)
async def test_what_others_request_is_taken_off_and_given_back(lab: KubernetesLab, heard: Heard, label: str) -> None:
    """As soon as their pod is bound, and once it is gone for a while."""
    lab.kubectl("label", "node", "node-b", f"{label}=true")
    await heard.until(lambda: "node-b" in heard.newest)
    before = heard.newest["node-b"].capacity
    name = f"other-{secrets.token_hex(4)}"
    lab.kubectl("apply", "-f", "-", content=pod_of_others(name))
    try:
        await heard.until(lambda: heard.newest["node-b"].capacity != before)
        after = heard.newest["node-b"].capacity
    finally:
        lab.kubectl("-n", "default", "delete", "pod", name, "--grace-period=0", "--force")
    await heard.until(lambda: heard.newest["node-b"].capacity.cpu_m >= before.cpu_m - STEP_CPU_M)

    assert OTHERS_CPU_M <= before.cpu_m - after.cpu_m < OTHERS_CPU_M + STEP_CPU_M


@pytest.mark.timeout(200)
async def test_a_cordoned_or_tainted_node_has_nothing_free(lab: KubernetesLab, heard: Heard, label: str) -> None:
    """It goes on to send heartbeats, because jobs may run there."""
    lab.kubectl("label", "node", "node-b", f"{label}=true")
    for close, open_ in (
        (("cordon", "node-b"), ("uncordon", "node-b")),
        (("taint", "node", "node-b", "test=x:NoSchedule"), ("taint", "node", "node-b", "test-")),
    ):
        lab.kubectl(*close)
        try:
            await heard.until(lambda: heard.capacity("node-b") == Resources())
        finally:
            lab.kubectl(*open_)
        await heard.until(lambda: (heard.capacity("node-b") or Resources()).cpu_m > 0)
