"""The present capacity of each node of a pool for its jobs, where the cluster says which nodes those are.

It owns which nodes are a pool's, and the arithmetic, which is the scheduler's (``PodRequests`` in
``k8s.io/component-helpers/resource`` and ``SetDefaults_Pod`` in ``pkg/apis/core/v1``, both of 1.36). It must never send a
request.

A pool has the nodes with its labels. Of what a node can allocate, what the pods of others have requested is not the pool's.
They come and go, so less is believed immediately, and more once it has lasted. A node that is cordoned, or has a taint that
keeps pods away, has what the pool's own pods hold there and no more: nothing new is placed on it, except jobs that tolerate
its taints (``tolerated``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from steepest.cluster.kubernetes.objects import ClusterNode, ContainerCaps, Pod, PodContainer, PodSpec
from steepest.cluster.kubernetes.quantities import Quantity, mebibytes, millis
from steepest.events.common import Resources, Taint, is_name

GPU = "nvidia.com/gpu"
"""The resource name of a device plugin's whole GPUs."""

_PLAIN = frozenset({"cpu", "memory", "pods", "ephemeral-storage", GPU})

LASTING_S = 10.0
"""How long a node must have more before the pool counts on it: pods of others come and go."""

STEP_CPU_M = 50
STEP_MEMORY_MIB = 64
STEP_PODS = 5
"""The rest that others leave is rounded down to these steps, so that few sizes of nodes occur."""


def takes_pods(node: ClusterNode) -> bool:
    """Whether nothing but its size and its readiness keeps pods away."""
    return not node.spec.unschedulable and not taints_of(node)


def taints_of(node: ClusterNode) -> tuple[Taint, ...]:
    """The taints of a node that keep pods away."""
    return tuple(
        Taint(key=taint.key, value=taint.value, effect=taint.effect)
        for taint in node.spec.taints
        if taint.effect != "PreferNoSchedule"
    )


def resources(quantities: Mapping[str, Quantity], *, up: bool = False) -> Resources:
    """The amounts of these quantities, with memory rounded down, or ``up``; an unreadable one counts as nothing."""
    extended = {
        name: count
        for name, quantity in sorted(quantities.items())
        if name not in _PLAIN and not name.startswith("hugepages-") and (count := (millis(quantity) or 0) // 1000)
    }
    return Resources(
        cpu_m=millis(quantities.get("cpu", 0)) or 0,
        memory_mib=mebibytes(quantities.get("memory", 0), up=up) or 0,
        gpus=(millis(quantities.get(GPU, 0)) or 0) // 1000,
        extended=tuple(extended.items()),
        replicas=(millis(quantities.get("pods", 0)) or 0) // 1000,
    )


def requested(pod: PodSpec) -> Resources:
    """The resources that the scheduler reserves for a pod.

    Containers and sidecars (init containers that are always restarted, KEP-753) add up. Any other init container needs its
    own share and that of the sidecars before it; the pod needs the most of all these. Its request as a whole (KEP-2837)
    replaces that, for CPU and memory. Its overhead is added.
    """
    total = sum(map(of_container, pod.containers), Resources())
    sidecars = most = Resources()
    for one in pod.init_containers:
        own = of_container(one)
        if one.restart_policy == "Always":
            total, sidecars, own = total + own, sidecars + own, Resources()
        most = most.larger(sidecars + own)
    total = total.larger(most)
    named = {name for one in (*pod.containers, *pod.init_containers) for name in _asked(one.resources)}
    whole = {name: limit for name, limit in pod.resources.limits.items() if name not in named} | pod.resources.requests
    stated = resources(whole, up=True)
    cpu_m = stated.cpu_m if "cpu" in whole else total.cpu_m
    memory_mib = stated.memory_mib if "memory" in whole else total.memory_mib
    return resources(pod.overhead, up=True) + msgspec.structs.replace(total, cpu_m=cpu_m, memory_mib=memory_mib)


def of_container(container: PodContainer) -> Resources:
    """The resources reserved for one container."""
    return resources(_asked(container.resources), up=True)


def _asked(caps: ContainerCaps) -> dict[str, Quantity]:
    """A limit replaces a missing request, each resource by itself."""
    return {**caps.limits, **caps.requests}


def by_node(pods: Iterable[Pod]) -> dict[str, Resources]:
    """The resources that bound pods which have not ended hold together on each node."""
    held: dict[str, Resources] = {}
    for pod in pods:
        if pod.spec.node_name is not None and not pod.has_ended:
            held[pod.spec.node_name] = held.get(pod.spec.node_name, Resources()) + requested(pod.spec).of_a_replica
    return held


class SelectedNodes(Mapping[str, Resources]):
    """By node, what the pool's jobs may have there.

    Args:
        selector: The labels of its nodes; empty: all nodes.
        now_s: A monotonic clock in seconds.
    """

    def __init__(self, selector: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self.selector = selector
        self._for_all = _Stated(now_s)
        self._tolerated = _Stated(now_s)

    def renew(
        self, nodes: Iterable[ClusterNode], own: Mapping[str, Resources], others: Mapping[str, Resources]
    ) -> None:
        """Take in what is known now.

        Args:
            nodes: Those of the pool. One whose name is no name of a node is left out.
            own: What the pool's own pods hold, by node.
            others: What all other pods hold, by node.
        """
        known = [node for node in nodes if is_name(node.metadata.name)]
        for node in known:
            name = node.metadata.name
            held = own.get(name, Resources())
            left = held if node.spec.unschedulable else _left(node, held, others)
            self._tolerated.state(name, left)
            self._for_all.state(name, left if takes_pods(node) else held)
        names = {node.metadata.name for node in known}
        for stated in (self._for_all, self._tolerated):
            stated.keep(names)

    def tolerated(self, name: str) -> Resources:
        """The capacity of a node for jobs that tolerate its taints."""
        return self._tolerated.amounts[name]

    def __getitem__(self, name: str) -> Resources:
        return self._for_all.amounts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._for_all.amounts))

    def __len__(self) -> int:
        return len(self._for_all.amounts)


class _Stated:
    """The believed capacity of each node: less immediately, more once it has lasted."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.amounts: dict[str, Resources] = {}
        self._now_s = now_s
        self._more_since_s: dict[str, float] = {}

    def state(self, name: str, now: Resources) -> None:
        """A node has this now."""
        stated = self.amounts.get(name)
        is_more = stated is not None and stated != now and stated.fits(now)
        if is_more and self._now_s() - self._more_since_s.setdefault(name, self._now_s()) < LASTING_S:
            return
        self._more_since_s.pop(name, None)
        self.amounts[name] = now

    def keep(self, names: Collection[str]) -> None:
        """All others are gone."""
        for gone in [name for name in self.amounts if name not in names]:
            del self.amounts[gone]
            self._more_since_s.pop(gone, None)


def _left(node: ClusterNode, held: Resources, others: Mapping[str, Resources]) -> Resources:
    name = node.metadata.name
    total = resources(node.status.allocatable)
    taken = others.get(name)
    if taken is None:
        return total
    left = (total - taken).positive
    pods = left.replicas // STEP_PODS * STEP_PODS
    if total.replicas and not pods:
        return held
    cpu_m, memory_mib = left.cpu_m // STEP_CPU_M * STEP_CPU_M, left.memory_mib // STEP_MEMORY_MIB * STEP_MEMORY_MIB
    left = msgspec.structs.replace(left, cpu_m=cpu_m, memory_mib=memory_mib, replicas=pods)
    return left.larger(held)
