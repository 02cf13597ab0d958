"""Which GPUs pods have, and which of these failed, as the kubelets say in the pods' status (KEP-4680).

It owns the numbers of a node's GPUs: a device plugin names them as it likes, and the log counts them. A number is the place
in a file of the state folder, by first sight, so that a restarted adapter means the same GPU. Kubelets before 1.36 say
nothing. Its calls block.
"""

from __future__ import annotations

import msgspec

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.kubernetes.nodes.selected_nodes import GPU
from steepest.cluster.kubernetes.objects import ClusterNode, Pod, training
from steepest.cluster.kubernetes.quantities import millis
from steepest.errors import UntrustedError
from steepest.events.facts import FailedGpu
from steepest.untrusted import files, json

REMEMBERED_S = 20.0
"""For how long a failure counts whose pod is gone: a kubelet says every 10 s how many GPUs its node has."""

_FAILED = "Unhealthy"
_WHY = "its kubelet says that it is unhealthy"
_FILE_BYTES_MOST = 1 << 16


class PodDevices:
    """The GPUs of the nodes whose pods an adapter watches.

    Args:
        state: The adapter's folder.
    """

    def __init__(self, state: AdapterFolder) -> None:
        self._state = state
        self._ids: dict[str, list[str]] = {}
        self._failed: dict[str, dict[int, float]] = {}

    def of(self, node: str, pod: Pod, now_s: float) -> tuple[int, ...]:
        """The numbers of the GPUs of a pod on a node; those that failed are noted, with a monotonic time in seconds."""
        container = training(pod.status.container_statuses)
        numbers = []
        for each in () if container is None else container.allocated_resources_status:
            for device in each.resources if each.name == GPU else ():
                number = self._number(node, device.resource_id)
                numbers.append(number)
                failed = self._failed.setdefault(node, {})
                if device.health == _FAILED:
                    failed[number] = now_s
                else:
                    failed.pop(number, None)
        return tuple(sorted(numbers))

    def failed(self, node: str, now_s: float) -> tuple[FailedGpu, ...]:
        """The GPUs of a node that pods had when they failed."""
        found = self._failed.get(node, {})
        return tuple(FailedGpu(number, _WHY) for number in sorted(found) if now_s - found[number] < REMEMBERED_S)

    def _number(self, node: str, device: str) -> int:
        ids = self._ids.get(node)
        path = self._state.path / f"devices-{node}.json"
        if ids is None:
            try:
                ids = json.read_json(path, list[str], below=self._state.path, most=_FILE_BYTES_MOST)
            except (FileNotFoundError, UntrustedError):
                ids = []
            self._ids[node] = ids
        if device not in ids:
            files.replace(path, msgspec.json.encode([*ids, device]), below=self._state.path)
            ids.append(device)
        return ids.index(device)


def unhealthy(node: ClusterNode | None) -> int:
    """How many GPUs of a node its kubelet does not give to pods."""
    if node is None:
        return 0
    there, given = (millis(of.get(GPU, 0)) or 0 for of in (node.status.capacity, node.status.allocatable))
    return max(there - given, 0) // 1000
