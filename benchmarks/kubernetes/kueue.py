"""Kueue: one queue for all jobs, as large as the cluster; what it admits, the default scheduler binds.

It owns Kueue's settings here, and its queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.kubernetes.bare_cluster import JOBS, NODE_CPU, NODE_MEMORY_GI, plain_job
from benchmarks.kubernetes.control_plane import QPS, free_ports
from benchmarks.kubernetes.fake_kubelets import NAMESPACE
from benchmarks.kubernetes.plane_host import HostedContender

from tools.kubernetes_lab.kueue import KueueController
from tools.kubernetes_lab.layout import KUEUE

QUEUE = "bench"
_API = "kueue.x-k8s.io/v1beta2"
_TOGETHER = {
    "Job.batch": 5,
    "Workload.kueue.x-k8s.io": 10,
    "LocalQueue.kueue.x-k8s.io": 5,
    "ClusterQueue.kueue.x-k8s.io": 5,
    "Cohort.kueue.x-k8s.io": 1,
    "ResourceFlavor.kueue.x-k8s.io": 1,
}
"""How many objects of a kind Kueue works on together: as in the configuration that it is installed with
(``config/components/manager/controller_manager_config.yaml`` of 0.19.2)."""


class Kueue(HostedContender):
    """It admits each Job, which exists suspended until then. Its webhooks are on."""

    name = KUEUE
    users = (KUEUE,)

    async def submit(self, jobs: int) -> Mapping[str, float]:
        """See ``Contender.submit``."""
        made = [queued_job(number) for number in range(jobs)]
        return await self.stage.cluster.post_jobs([[(JOBS, each)] for each in made], per_s=QPS)

    def begin(self) -> None:
        """Start Kueue and make the queue; returns when it admits."""
        UnhinderedKueue().start(self.host)
        for each in queue(self.stage.nodes):
            self.host.kubectl("apply", "-f", "-", content=each)
        self.host.kubectl("wait", "--for=condition=Active", f"clusterqueue/{QUEUE}", "--timeout=60s")
        self.host.kubectl("-n", NAMESPACE, "wait", "--for=condition=Active", f"localqueue/{QUEUE}", "--timeout=60s")


class UnhinderedKueue(KueueController):
    """Kueue on ports of its own, which may send as many requests as the cluster's own components."""

    def __init__(self) -> None:
        self.port, self.metrics_port, self.health_port = free_ports(3)

    def settings(self, own: Path) -> dict[str, Any]:
        """See ``KueueController.settings``."""
        limits = {"clientConnection": {"qps": QPS, "burst": 2 * QPS}}
        return {**super().settings(own), **limits, "controller": {"groupKindConcurrency": _TOGETHER}}


def queue(nodes: int) -> list[dict[str, Any]]:
    """The queue of the jobs' namespace, with all that so many nodes have."""
    quotas = {"cpu": str(nodes * NODE_CPU), "memory": f"{nodes * NODE_MEMORY_GI}Gi"}
    flavor = {"name": QUEUE, "resources": [{"name": name, "nominalQuota": size} for name, size in quotas.items()]}
    of_all = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": list(quotas), "flavors": [flavor]}]}
    local = {"name": QUEUE, "namespace": NAMESPACE}
    return [
        {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": QUEUE}},
        {"apiVersion": _API, "kind": "ClusterQueue", "metadata": {"name": QUEUE}, "spec": of_all},
        {"apiVersion": _API, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": QUEUE}},
    ]


def queued_job(number: int) -> dict[str, Any]:
    """A plain Job that is in the queue."""
    job = plain_job(number)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": QUEUE}
    return job
