"""Measures pods through their kubelets' summaries.

A kubelet is asked itself, for which one needs the right to ``nodes/stats`` alone. Where that fails, the API server is asked
to pass the question on, for which it wants ``nodes/proxy``: who has that right may also run commands in every pod.

It owns the requests and their arithmetic. Unknown is None, never 0. A kubelet measures every few seconds, so a sample
is used until the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

import msgspec

from steepest.cluster.folders.replica_roster import ResourceUse
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.objects import Pod, training
from steepest.errors import ClusterError, UntrustedError
from steepest.logger import Logger
from steepest.untrusted.json import decode

_log = Logger()
_MIB = 1 << 20
_PERIOD_S = 1.0
NODES_A_SECOND = 50
"""Kubelets that are asked in a second: of more nodes each is asked less often."""

_ASKED_AT_ONCE = 8
_CALL_S = 5.0
_SUMMARY = "/stats/summary"


class _CpuTime(msgspec.Struct, rename="camel"):
    time: datetime | None = None
    usage_core_nano_seconds: int | None = None


class _WorkingSet(msgspec.Struct, rename="camel"):
    working_set_bytes: int | None = None


class _PodNetwork(msgspec.Struct, rename="camel"):
    rx_bytes: int | None = None
    tx_bytes: int | None = None


class _PodReference(msgspec.Struct):
    uid: str = ""


class _MeasuredContainer(msgspec.Struct):
    name: str
    cpu: _CpuTime = msgspec.field(default_factory=_CpuTime)
    memory: _WorkingSet = msgspec.field(default_factory=_WorkingSet)


class MeasuredPod(msgspec.Struct, rename="camel"):
    """A kubelet's measurements of a pod, whose containers are null until one of them is measured."""

    pod_ref: _PodReference
    containers: list[_MeasuredContainer] | None = None
    network: _PodNetwork | None = None


class KubeletSummary(msgspec.Struct):
    """A kubelet's answer about its pods."""

    pods: list[MeasuredPod] | None = None


class PodSample(msgspec.Struct, frozen=True):
    """Counters of a pod at one time; None: unknown.

    Attributes:
        at_s: The node's clock, in seconds.
        cpu_s: CPU time so far, in seconds.
        memory_mib: Memory in use without the reclaimable file cache, in MiB.
        network_bytes: Bytes received and sent so far.
        received_bytes: Bytes received so far.
    """

    at_s: float
    cpu_s: float
    memory_mib: int | None
    network_bytes: int | None
    received_bytes: int | None


class PodUsage:
    """The newest use of each pod.

    Args:
        api: The API server.
        kubelet_of: Where the kubelet of a node serves; empty: it is not known.
    """

    def __init__(self, api: KubernetesApi, kubelet_of: Callable[[str], str]) -> None:
        self._api = api
        self._kubelet_of = kubelet_of
        self._proxied: set[str] = set()  # nodes to ask through the API server next
        self._samples: dict[str, PodSample] = {}
        self._use: dict[str, ResourceUse] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(_ASKED_AT_ONCE)

    def of(self, uid: str) -> ResourceUse:
        """The newest use of a pod."""
        return self._use.get(uid, ResourceUse())

    def measure(self, nodes: Collection[str]) -> None:
        """Ask the kubelets of these nodes, each at most once a second; returns without waiting."""
        pause_s = max(_PERIOD_S, len(nodes) / NODES_A_SECOND)
        for node in nodes:
            if node not in self._running or self._running[node].done():
                self._running[node] = asyncio.create_task(self._ask(node, pause_s))

    def measure_pods(self, pods: Sequence[Pod]) -> None:
        """Ask the kubelets of the nodes that these pods are on."""
        self.measure(sorted({pod.spec.node_name for pod in pods if pod.spec.node_name is not None}))

    def forget(self, uid: str) -> None:
        """Forget a pod that has ended."""
        self._samples.pop(uid, None)
        self._use.pop(uid, None)

    async def close(self) -> None:
        """End all requests."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _ask(self, node: str, pause_s: float) -> None:
        try:
            async with self._turns:
                kubelet = "" if node in self._proxied else self._kubelet_of(node)
                path = _SUMMARY if kubelet else f"/api/v1/nodes/{node}/proxy{_SUMMARY}"
                body = await self._api.request("GET", path, timeout_s=_CALL_S, server=kubelet or None)
            for pod in decode(body, KubeletSummary).pods or ():
                self._take(pod)
        except (ClusterError, UntrustedError) as error:
            _log.info("node not measured", node=node, why=str(error)[:500])
            self._proxied ^= {node}
        await asyncio.sleep(pause_s)

    def _take(self, pod: MeasuredPod) -> None:
        sample = sample_of(pod)
        before = self._samples.get(pod.pod_ref.uid)
        if sample is None or (before is not None and sample.at_s <= before.at_s):
            return
        self._samples[pod.pod_ref.uid] = sample
        with contextlib.suppress(ZeroDivisionError, OverflowError):
            self._use[pod.pod_ref.uid] = use_between(before, sample)


def sample_of(pod: MeasuredPod) -> PodSample | None:
    """The counters of a pod's training container; None if its CPU is not measured yet."""
    found = training(pod.containers or ())
    if found is None or found.cpu.time is None or found.cpu.usage_core_nano_seconds is None:
        return None
    memory = found.memory.working_set_bytes
    received, sent = (pod.network.rx_bytes, pod.network.tx_bytes) if pod.network is not None else (None, None)
    return PodSample(
        at_s=found.cpu.time.timestamp(),
        cpu_s=found.cpu.usage_core_nano_seconds / 1e9,
        memory_mib=None if memory is None else memory // _MIB,
        network_bytes=None if received is None or sent is None else received + sent,
        received_bytes=received,
    )


def use_between(before: PodSample | None, now: PodSample) -> ResourceUse:
    """The use between two samples; without the first, only what one sample says."""
    total = ResourceUse(cpu_ms=int(now.cpu_s * 1000), memory_mib=now.memory_mib, read_bytes=now.received_bytes)
    if before is None:
        return total
    span_s = now.at_s - before.at_s
    moved = None
    if before.network_bytes is not None and now.network_bytes is not None:
        moved = max(int((now.network_bytes - before.network_bytes) / span_s), 0)
    used_m = max(int((now.cpu_s - before.cpu_s) * 1000 / span_s), 0)
    return msgspec.structs.replace(total, cpu_m=used_m, network_bytes_s=moved)
