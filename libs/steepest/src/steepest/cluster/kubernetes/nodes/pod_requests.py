"""What the scheduler reserves for a pod: one arithmetic for users' templates and for the pods of others.

It owns Kubernetes' rules (``PodRequests`` in ``k8s.io/component-helpers/resource`` and ``SetDefaults_Pod`` in
``pkg/apis/core/v1``, both of 1.36). It must never send a request.

* A limit stands in for a request that is missing, each resource by itself.
* Containers and sidecars (init containers that are always restarted, KEP-753) add up. Any other init container needs its own
  share and that of the sidecars before it; the pod needs the most of all these.
* What the pod requests as a whole (KEP-2837) stands in place of that, for CPU and memory. Its overhead is added.
* Of a container that is being resized, what its node has allocated counts as well as what is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from steepest.cluster.kubernetes.objects import ContainerCaps, PodContainer, PodStatus
from steepest.cluster.kubernetes.quantities import Quantity, mebibytes, millis
from steepest.events.common import Resources

GPU = "nvidia.com/gpu"
"""What a node's device plugin calls its whole GPUs."""

_PLAIN = frozenset({"cpu", "memory", "pods", "ephemeral-storage", GPU})


class Requesting(Protocol):
    """The parts of a pod's spec, or of a template's, by which it requests something."""

    @property
    def containers(self) -> Sequence[PodContainer]:
        """Those that run side by side."""

    @property
    def init_containers(self) -> Sequence[PodContainer]:
        """Those that run before them, and sidecars."""

    @property
    def resources(self) -> ContainerCaps:
        """What the pod asks for as a whole."""

    @property
    def overhead(self) -> Mapping[str, Quantity]:
        """What its sandbox needs."""


def resources(quantities: Mapping[str, Quantity], *, up: bool = False) -> Resources:
    """What these quantities are, with memory rounded down, or ``up``; what cannot be read counts as nothing."""
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
    )


def requested(pod: Requesting, status: PodStatus = PodStatus()) -> Resources:  # noqa: B008 - frozen
    """What the scheduler reserves for a pod. ``status``: what its kubelet says of it; of a template, nothing."""
    total = sum((of_container(one, status) for one in pod.containers), Resources())
    sidecars = most = Resources()
    for one in pod.init_containers:
        own = of_container(one, status)
        if one.restart_policy == "Always":
            total, sidecars, own = total + own, sidecars + own, Resources()
        most = most.larger(sidecars + own)
    total = total.larger(most)
    named = {name for one in (*pod.containers, *pod.init_containers) for name in _asked(one.resources)}
    limits = {name: limit for name, limit in pod.resources.limits.items() if name not in named}
    whole = {**limits, **pod.resources.requests}
    stated = resources(whole, up=True)
    return resources(pod.overhead, up=True) + msgspec.structs.replace(
        total,
        cpu_m=stated.cpu_m if "cpu" in whole else total.cpu_m,
        memory_mib=stated.memory_mib if "memory" in whole else total.memory_mib,
    )


def of_container(container: PodContainer, status: PodStatus = PodStatus()) -> Resources:  # noqa: B008 - frozen
    """What is reserved for one container."""
    asked, has = resources(_asked(container.resources), up=True), Resources()
    for said in (*status.container_statuses, *status.init_container_statuses):
        if said.name == container.name:
            set_ = said.resources.requests if said.resources is not None else {}
            has = resources(said.allocated_resources, up=True).larger(resources(set_, up=True))
    pending = status.condition("PodResizePending")
    return has if pending is not None and pending.reason == "Infeasible" else asked.larger(has)


def _asked(caps: ContainerCaps) -> dict[str, Quantity]:
    return {**caps.limits, **caps.requests}
