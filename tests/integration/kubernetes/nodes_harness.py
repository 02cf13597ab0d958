"""The lab's two real nodes under the contract suite, and what else tests of the Kubernetes adapter share.

It owns the adapter over them and what happens behind its back. What runs is ended by the cluster's own tools.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import msgspec
from tests.harness.contracts import contract_job
from tests.harness.contracts.cluster_harness import PATIENCE_S, ClusterHarness
from tests.integration.kubernetes.pod_processes import process_in

from steepest.cluster.data_source import DataSource
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.folders.folder_label import label_of
from steepest.cluster.kubernetes import KubernetesCluster
from steepest.cluster.kubernetes.manifest import CLUSTER
from steepest.cluster.kubernetes.pod_observer import PodRecord, pod_of
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import Resources
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import CLAIM, NAMESPACE, NODES


class KubernetesHarness(ClusterHarness):
    """The lab's nodes.

    Args:
        lab: The lab, which runs.
        kubeconfig: The adapter's own, with the rights that an installation has.
        name: Of the state folder on the lab's volume.
    """

    def __init__(self, lab: KubernetesLab, kubeconfig: Path, name: str) -> None:
        self.kubeconfig = kubeconfig
        self.nodes = {
            NODES[0].name: Resources(cpu_m=900, memory_mib=512),
            NODES[1].name: Resources(cpu_m=500, memory_mib=256),
        }
        self.pool = "test"
        self.caps_memory = self.confines = True
        self.lab = lab
        self.state = AdapterFolder(lab.folder.volume / name)
        self._zombies: list[KubernetesCluster] = []
        self.data: DataSource | None = None

    def job(self, *arguments: str) -> ReplicaSpec:
        """The contract's job, under the image's Python; its source is the argument."""
        source = Path(contract_job.__file__).read_text()
        return ReplicaSpec(command=("python3", "-c", source, *arguments))

    async def leave(self) -> None:
        """Forget the adapter, which goes on as a zombie beside the next one: that is worse than to be dead."""
        self._zombies.append(self.cluster)

    async def come_back(self) -> None:
        """A new adapter on the same folder."""
        self.cluster: KubernetesCluster = self.made()

    def made(self, *, system_checkpoints: bool = False) -> KubernetesCluster:
        """An adapter on the folder."""
        return KubernetesCluster(
            self.state.path,
            list(self.nodes.items()),
            self.pool,
            namespace=NAMESPACE,
            claim=CLAIM,
            volume=self.lab.folder.volume,
            image=DEMO,
            kubeconfig=self.kubeconfig,
            heartbeat_s=0.5,
            data=self.data,
            system_checkpoints=system_checkpoints,
        )

    async def kill(self, replica: ReplicaId) -> None:
        """Kill the job; its kubelet sees how it ended."""
        os.kill(self.first_process(replica), signal.SIGKILL)

    async def lose(self, replica: ReplicaId) -> None:
        """Remove the pod from the API server by force, as an operator does whose node is gone."""
        pod = self.pod(replica)
        finalizers = msgspec.json.encode({"metadata": {"finalizers": None}}).decode()
        self.kubectl("patch", "pod", pod.name, "--type=merge", "-p", finalizers)
        self.kubectl("delete", "pod", pod.name, "--grace-period=0", "--force", "--wait=false")

    async def end_place(self, replica: ReplicaId) -> None:
        """Evict the pod, as a drain does."""
        pod = self.pod(replica).name
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
        self.lab.kubectl("create", "--raw", path, "-f", "-", content=eviction)

    def kubectl(self, *arguments: str) -> str:
        """What kubectl prints, in the jobs' namespace."""
        return self.lab.kubectl("-n", NAMESPACE, *arguments)

    def pod(self, replica: ReplicaId) -> PodRecord:
        """The pod of a replica's newest incarnation."""
        found = pod_of(self.state.incarnations(replica)[-1])
        assert found is not None
        return found

    def first_process(self, replica: ReplicaId) -> int:
        """The first process of a running replica, by its number on this machine."""
        return process_in(self.pod(replica).uid, "python3 -c", within_s=PATIENCE_S)

    async def aclose(self) -> None:
        """Remove all Jobs, and close all adapters."""
        for cluster in (*self._zombies, self.cluster):
            await cluster.close()
        mine = f"{CLUSTER}={label_of(self.state)}"
        with contextlib.suppress(Exception):
            self.kubectl("delete", "pods", "-l", mine, "--grace-period=1", "--wait=false")
        self.kubectl("delete", "jobs,services", "-l", mine, "--wait=false")
