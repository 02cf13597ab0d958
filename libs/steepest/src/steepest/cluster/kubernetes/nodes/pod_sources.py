"""Where an adapter reads what pods print and use: from API server and kubelets, or nowhere, because agents on the nodes do.

It owns that choice's two simple cases; an agent's own case is in ``agent``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.folders.replica_roster import ResourceUse
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.nodes.namespaced_pods import NamespacedPods
from steepest.cluster.kubernetes.nodes.usage import PodUsage
from steepest.cluster.kubernetes.objects import CONTAINER, Pod
from steepest.cluster.kubernetes.output import ContainerOutput, PodOutput
from steepest.cluster.kubernetes.pod_observer import PodRecord


class PodMeter(Protocol):
    """Measures pods."""

    def of(self, uid: str) -> ResourceUse:
        """The newest use of a pod."""

    def measure_pods(self, pods: Sequence[Pod]) -> None:
        """Measure these pods now, or soon; returns without waiting."""

    def forget(self, uid: str) -> None:
        """Forget a pod that has ended."""

    async def close(self) -> None:
        """End all measuring."""


class PodSources(Protocol):
    """The sources from which an adapter reads about pods.

    Attributes:
        usage: What they use.
    """

    usage: PodMeter

    def output(
        self, folder: IncarnationFolder, record: PodRecord, pod: Pod | None, *, patience_s: float, delay_s: float
    ) -> ContainerOutput | None:
        """Begin to copy what a pod prints; None: that is not this adapter's.

        Args:
            folder: The incarnation.
            record: Its pod.
            pod: The same as the API server has it, or had it; None: it has none, and nothing is known of it.
            patience_s: How long to wait for another adapter that copies.
            delay_s: How long to leave it to another adapter before.
        """


class ApiServerSources:
    """Reads output through the API server, and asks kubelets for use.

    Args:
        api: The API server.
        pods: The copies of the pods.
        kubelet_of: Where the kubelet of a node serves; empty: it is not known.
    """

    def __init__(self, api: KubernetesApi, pods: NamespacedPods, kubelet_of: Callable[[str], str]) -> None:
        self._pods = pods
        self._api = api
        self.usage: PodMeter = PodUsage(api, kubelet_of)

    def output(
        self, folder: IncarnationFolder, record: PodRecord, pod: Pod | None, *, patience_s: float, delay_s: float
    ) -> ContainerOutput | None:
        """See ``PodSources.output``."""
        if not self._pods.has(record.namespace):
            return None
        container = pod.container if pod is not None else CONTAINER
        at = self._pods.path(record.namespace, record.name)

        def is_gone() -> bool:
            return self._pods.last(record.uid) is not None

        return PodOutput(self._api, at, container, folder, patience_s=patience_s, delay_s=delay_s, is_gone=is_gone)


class ElsewhereSources:
    """Reads nothing: each node has an agent."""

    def __init__(self) -> None:
        self.usage: PodMeter = _Unmeasured()

    def output(
        self, folder: IncarnationFolder, record: PodRecord, pod: Pod | None, *, patience_s: float, delay_s: float
    ) -> ContainerOutput | None:
        """See ``PodSources.output``."""
        del folder, record, pod, patience_s, delay_s
        return None


class _Unmeasured:
    def of(self, uid: str) -> ResourceUse:
        del uid
        return ResourceUse()

    def measure_pods(self, pods: Sequence[Pod]) -> None:
        del pods

    def forget(self, uid: str) -> None:
        del uid

    async def close(self) -> None:
        return
