"""Changes the caps of a running pod in place, and waits until its node has.

It owns what a node's answer means: a cap that it defers or cannot grant is taken back.
"""

from __future__ import annotations

import time

from msgspec import UNSET, UnsetType

from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.folders.folder_watch import wait
from steepest.cluster.kubernetes.api import AnswerError
from steepest.cluster.kubernetes.jobs import BatchJobs
from steepest.cluster.kubernetes.kubernetes_background import KubernetesBackground
from steepest.cluster.kubernetes.manifest import cpu_caps, memory_caps, requested_by
from steepest.cluster.kubernetes.objects import ContainerCaps, Pod, training
from steepest.cluster.kubernetes.pod_observer import PodRecord
from steepest.cluster.kubernetes.quantities import mebibytes, millis
from steepest.errors import RefusedError, UncertainError
from steepest.events.common import Resources

SET_S = 30.0
"""A resize takes 0.1 s on two idle cores; one that its node defers that long is refused."""

_LOOK_S = 1.0
_PENDING = "PodResizePending"
_INFEASIBLE = "Infeasible"


async def resize(
    jobs: BatchJobs,
    background: KubernetesBackground,
    folder: IncarnationFolder,
    pod: PodRecord,
    *,
    most: Resources,
    cpu_limit_m: int | None,
    memory_limit_mib: int | UnsetType | None,
) -> None:
    """Set the caps of a running pod.

    Args:
        jobs: The adapter's Jobs.
        background: What watches the pod.
        folder: The incarnation.
        pod: Its pod.
        most: The most that a node has: where there is no cap.
        cpu_limit_m: In millicores; None: no cap.
        memory_limit_mib: In MiB; None: no cap; UNSET: unchanged.

    Raises:
        RefusedError: ``limit-refused``: the node cannot grant it, and it was taken back; ``not-running``.
        UncertainError: It may have been set.
    """
    found = background.pods.get(pod.uid) or await background.observer.read(pod)
    if found is None or found.metadata.uid != pod.uid or found.has_ended:
        raise RefusedError(f"{folder} does not run", code="not-running")
    before, requested = _caps_of(found), requested_by(found.metadata)
    cpu = cpu_caps(requested.cpu_m, cpu_limit_m, most.cpu_m)
    asked = {"requests": {"cpu": f"{cpu[0]}m"}, "limits": {"cpu": f"{cpu[1]}m"}}
    if memory_limit_mib is not UNSET:
        memory = memory_caps(requested.memory_mib, memory_limit_mib, most.memory_mib)
        asked["requests"]["memory"] = f"{memory[0]}Mi"
        asked["limits"]["memory"] = f"{memory[1]}Mi"
    try:
        await jobs.resize(pod, {"name": found.container, "resources": asked})
    except AnswerError as error:
        raise RefusedError(f"the caps of {folder} are not allowed: {error}", code="limit-refused") from error
    why = await _settled(background, pod, asked["limits"])
    if why is None:
        return
    if before is not None:
        back = {"requests": before.requests, "limits": before.limits}
        await jobs.resize(pod, {"name": found.container, "resources": back})
    raise RefusedError(f"the node of {folder} cannot grant the caps: {why[:500]}", code="limit-refused")


async def _settled(background: KubernetesBackground, pod: PodRecord, limits: dict[str, str]) -> str | None:
    """None once the node has set the limits; why it cannot, otherwise.

    Raises:
        UncertainError: It has not said in time, or the pod is gone.
    """
    deadline = time.monotonic() + SET_S
    while True:
        changed = background.pods.next_change(pod.uid)
        found = background.pods.get(pod.uid)
        if found is None or found.has_ended:
            raise UncertainError(f"the pod {pod.name} has ended", code="not-running")
        pending = found.condition(_PENDING)
        late = time.monotonic() > deadline
        if pending is not None and (pending.reason == _INFEASIBLE or late):
            return f"{pending.reason}: {pending.message}"
        if pending is None and _has(found, limits):
            return None
        if late:
            raise UncertainError(f"the caps of {pod.name} are not confirmed after {SET_S:g} s", code="limit-timeout")
        await wait(changed, _LOOK_S)


def _has(pod: Pod, limits: dict[str, str]) -> bool:
    caps = _caps_of(pod)
    if caps is None:
        return False
    return all(
        millis(caps.limits.get(name, "")) == millis(limit)
        if name == "cpu"
        else mebibytes(caps.limits.get(name, "")) == mebibytes(limit)
        for name, limit in limits.items()
    )


def _caps_of(pod: Pod) -> ContainerCaps | None:
    """The caps that a node says it has set."""
    status = training(pod.status.container_statuses)
    return status.resources if status is not None else None
