"""The newest use of each pod of a node, from the control groups of their containers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from steepest.aio import uncancelled
from steepest.cluster.folders.replica_roster import ResourceUse
from steepest.cluster.kubernetes.agent.cgroups import ContainerGroups
from steepest.cluster.kubernetes.nodes.usage import PodSample, use_between
from steepest.cluster.kubernetes.objects import Pod, training


class NodeMeter:
    """Measures the pods of one node.

    Args:
        groups: The control groups of its containers.
    """

    def __init__(self, groups: ContainerGroups) -> None:
        self._groups = groups
        self._containers: dict[str, str] = {}
        self._samples: dict[str, PodSample] = {}
        self._use: dict[str, ResourceUse] = {}
        self._measuring: asyncio.Task[None] | None = None

    def of(self, uid: str) -> ResourceUse:
        """See ``PodMeter.of``."""
        return self._use.get(uid, ResourceUse())

    def measure_pods(self, pods: Sequence[Pod]) -> None:
        """See ``PodMeter.measure_pods``: one measurement after the other, each in one thread."""
        if self._measuring is None or self._measuring.done():
            self._containers = {pod.metadata.uid: _container(pod) for pod in pods}
            self._measuring = asyncio.create_task(self._measure(dict(self._containers)))

    def forget(self, uid: str) -> None:
        """See ``PodMeter.forget``."""
        self._samples.pop(uid, None)
        self._use.pop(uid, None)
        self._groups.forget(self._containers.pop(uid, ""))

    async def close(self) -> None:
        """See ``PodMeter.close``."""
        if self._measuring is not None:
            self._measuring.cancel()
            await asyncio.gather(self._measuring, return_exceptions=True)

    async def _measure(self, containers: Mapping[str, str]) -> None:
        for uid, sample in (await uncancelled(asyncio.to_thread(self._sampled, containers))).items():
            if uid not in self._containers:
                continue
            if sample is None:
                self._use[uid] = ResourceUse()
                continue
            before, self._samples[uid] = self._samples.get(uid), sample
            with contextlib.suppress(ZeroDivisionError, OverflowError):
                self._use[uid] = use_between(before, sample)

    def _sampled(self, containers: Mapping[str, str]) -> dict[str, PodSample | None]:
        return {uid: self._groups.sample(uid, container) for uid, container in containers.items()}


def _container(pod: Pod) -> str:
    found = training(pod.status.container_statuses)
    return found.container_id if found is not None else ""
