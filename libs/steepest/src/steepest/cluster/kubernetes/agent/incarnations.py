"""Which incarnation runs in a pod, as the pod itself says: what the start has written into it."""

from __future__ import annotations

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.kubernetes.manifest import INCARNATION, REPLICA, VARIABLE
from steepest.cluster.kubernetes.objects import ObjectMetadata
from steepest.cluster.port import ReplicaId
from steepest.errors import InputError

_DIGITS_MOST = 9
_JOB = f"{VARIABLE}STEEPEST_JOB"


def incarnation_of(state: AdapterFolder, pod: ObjectMetadata) -> IncarnationFolder | None:
    """The folder of a pod's incarnation, which may not exist; None: the pod names none. Its record there proves it."""
    index, incarnation = pod.labels.get(REPLICA, ""), pod.annotations.get(INCARNATION, "")
    if not (_is_number(index) and _is_number(incarnation)):
        return None
    try:
        return state.incarnation(ReplicaId(pod.annotations.get(_JOB, ""), int(index)), int(incarnation))
    except InputError:
        return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MOST
