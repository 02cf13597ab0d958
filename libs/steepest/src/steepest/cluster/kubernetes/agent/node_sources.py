"""An agent's sources about the pods of its node: the node's own files."""

from __future__ import annotations

from pathlib import Path

import msgspec

from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.kubernetes.agent.cgroups import ContainerGroups
from steepest.cluster.kubernetes.agent.node_meter import NodeMeter
from steepest.cluster.kubernetes.agent.node_output import ContainerLog, NodeOutput
from steepest.cluster.kubernetes.nodes.namespaced_pods import NamespacedPods
from steepest.cluster.kubernetes.nodes.pod_sources import PodMeter
from steepest.cluster.kubernetes.objects import Pod, training
from steepest.cluster.kubernetes.output import ContainerOutput
from steepest.cluster.kubernetes.pod_observer import PodRecord

LOGS = Path("/host/pod-logs")
GROUPS = Path("/host/cgroup")


class AgentNode(msgspec.Struct, frozen=True):
    """The node that an agent works for.

    Attributes:
        name: Its name in the cluster.
        logs: Where the folder of its pods' logs is mounted (``/var/log/pods``).
        groups: Where its control groups are mounted (``/sys/fs/cgroup``).
    """

    name: str
    logs: Path = LOGS
    groups: Path = GROUPS


class NodeSources:
    """The sources of one node.

    Args:
        node: The node.
        pods: The copies of its pods.
    """

    def __init__(self, node: AgentNode, pods: NamespacedPods) -> None:
        self._logs = node.logs
        self._pods = pods
        self.usage: PodMeter = NodeMeter(ContainerGroups(node.groups))

    def output(
        self, folder: IncarnationFolder, record: PodRecord, pod: Pod | None, *, patience_s: float, delay_s: float
    ) -> ContainerOutput | None:
        """See ``PodSources.output``. There is no other adapter to leave it to."""
        del delay_s
        if pod is None:
            return None
        status = training(pod.status.container_statuses)
        log = ContainerLog(
            below=self._logs,
            folder=self._logs / f"{pod.metadata.namespace}_{record.name}_{record.uid}" / pod.container,
            name=f"{status.restart_count if status is not None else 0}.log",
        )
        return NodeOutput(log, lambda: self._has_ended(record.uid), folder, patience_s=patience_s)

    def _has_ended(self, uid: str) -> bool:
        """Whether a pod's container has ended: its pod says so, or is gone."""
        pod = self._pods.get(uid)
        if pod is None:
            return self._pods.last(uid) is not None
        return pod.has_ended or pod.state.terminated is not None
