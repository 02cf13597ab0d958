"""What the benchmark makes in a control plane: bare nodes, a namespace with a claim, plain Jobs; and how it sends requests.

It owns these objects. Its user is exempt from the API server's own limits, and its requests are not in the audit log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.kubernetes.control_plane import QPS
from benchmarks.kubernetes.fake_kubelets import NAMESPACE

from steepest.cluster.kubernetes.api import NOT_FOUND, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.objects import ClusterNode, ClusterObject, Listing

CLAIM = "bench"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
NODE_CPU = 32
NODE_MEMORY_GI = 128
NODE_PODS = 110
JOB_CPU_M = 1_000
JOB_MEMORY_MIB = 256
SENT_AT_ONCE = 32
READY_S = 120.0

Post: TypeAlias = tuple[str, dict[str, Any]]
"""Where an object is made, and the object."""


def node_name(number: int) -> str:
    """The name of a node."""
    return f"node-{number:04d}"


def node(number: int, kubelet_port: int) -> dict[str, Any]:
    """A node that is ready, as its kubelet would register it."""
    size = {"cpu": str(NODE_CPU), "memory": f"{NODE_MEMORY_GI}Gi", "pods": str(NODE_PODS), "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node_name(number),
            "labels": {"kubernetes.io/hostname": node_name(number), "kubernetes.io/os": "linux"},
        },
        "status": {
            "allocatable": size,
            "capacity": size,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        },
    }


def plain_job(number: int) -> dict[str, Any]:
    """A Job of one pod for the default scheduler that asks for as much as one of Steepest's."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"plain-{number:05d}"},
        "spec": {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": False,
                    "containers": [
                        {
                            "name": "job",
                            "image": "bench",
                            "command": ["train"],
                            "resources": {"requests": {"cpu": f"{JOB_CPU_M}m", "memory": f"{JOB_MEMORY_MIB}Mi"}},
                            "volumeMounts": [{"name": "state", "mountPath": "/state"}],
                        }
                    ],
                    "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": CLAIM}}],
                }
            },
        },
    }


class BareCluster:
    """The objects of a control plane.

    Args:
        kubeconfig: Of its administrator.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._api = KubernetesApi(kubeconfig)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()

    async def make(self, nodes: int, kubelet_port: int) -> None:
        """Make everything; returns when pods can be bound to all nodes."""
        binding = {
            "metadata": {"name": "steepest"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "steepest"}],
        }
        await self._post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        await self._post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        volume = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "bench",
            "hostPath": {"path": "/nowhere"},
            "claimRef": {"namespace": NAMESPACE, "name": CLAIM},
        }
        claim = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "bench",
            "volumeName": "bench",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await self._post("/api/v1/persistentvolumes", {"metadata": {"name": "bench"}, "spec": volume})
        claims = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
        await self._post(claims, {"metadata": {"name": CLAIM}, "spec": claim})
        made = [node(number, kubelet_port) for number in range(nodes)]
        await self._post_all([[("/api/v1/nodes", each)] for each in made], per_s=10 * QPS)
        await self._await_account()
        await self._await_nodes(nodes)

    async def post_jobs(self, jobs: Sequence[Sequence[Post]], *, per_s: float) -> dict[str, float]:
        """Make many jobs, at most so many a second.

        Args:
            jobs: Of each job its objects, in the order in which they are made; the last one has its name.
            per_s: Jobs a second.

        Returns:
            By job, the wall clock in seconds when its first object was sent.
        """
        sent_s = await self._post_all(jobs, per_s=per_s)
        names: list[str] = [made[-1][1]["metadata"]["name"] for made in jobs]
        return dict(zip(names, sent_s, strict=True))

    async def _post_all(self, made: Sequence[Sequence[Post]], *, per_s: float) -> list[float]:
        waiting: asyncio.Queue[int | None] = asyncio.Queue(SENT_AT_ONCE)
        sent_s = [0.0] * len(made)

        async def send() -> None:
            while (number := await waiting.get()) is not None:
                sent_s[number] = time.time()
                for path, content in made[number]:
                    await self._post(path, content)

        async with asyncio.TaskGroup() as group:
            for _ in range(SENT_AT_ONCE):
                group.create_task(send())
            began = time.monotonic()
            for number in range(len(made)):
                await waiting.put(number)
                await asyncio.sleep(max(began + number / per_s - time.monotonic(), 0.0))
            for _ in range(SENT_AT_ONCE):
                await waiting.put(None)
        return sent_s

    async def _post(self, path: str, content: dict[str, Any]) -> None:
        await self._api.request("POST", path, body=content)

    async def _await_account(self) -> None:
        async with asyncio.timeout(READY_S):
            while True:
                try:
                    await self._api.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default", ClusterObject)
                except AnswerError as error:
                    if error.status != NOT_FOUND:
                        raise
                    await asyncio.sleep(0.2)
                else:
                    return

    async def _await_nodes(self, count: int) -> None:
        """Wait until the node controller has taken away the taints that it gives new nodes."""
        async with asyncio.timeout(READY_S):
            while True:
                found = await self._api.get("/api/v1/nodes", Listing[ClusterNode], {"resourceVersion": "0"})
                if sum(not each.spec.taints for each in found.items) == count:
                    return
                await asyncio.sleep(0.5)
