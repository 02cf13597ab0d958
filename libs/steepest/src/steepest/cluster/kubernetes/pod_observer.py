"""Observes an incarnation through the records in its folder and its pod.

It owns the proof behind each phase and must never guess.

=============  ====================  ========  ==================================================================
exit/gone.json pod                   pod.json  phase
=============  ====================  ========  ==================================================================
there          –                     –         ``EXITED`` / ``GONE``
–              –                     –         ``STARTING``: it never ran; a start completes it
–              has its gate          there     ``STARTING``: likewise
–              has no gate           there     ``STARTING``, and ``RUNNING`` once its container runs
–              succeeded or failed   there     ``EXITED``; ``GONE`` where its place ended, another party than
                                               Steepest deleted it, or the kubelet did not see how it ended
–              not there             there     ``GONE``; as it ended, where the watch saw that before it was removed.
                                               A watch by labels leaves out a pod that lost one: only the API server
                                               says that a pod is not there
=============  ====================  ========  ==================================================================

A pod succeeds or fails only when the kubelet has proven that none of its containers runs. A pod that is removed by force,
without that proof, counts as ended: Kubernetes itself then places its successor.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from pathlib import Path

import msgspec

from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.folders.replica_roster import Tracked
from steepest.cluster.kubernetes.api import NOT_FOUND, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.nodes.namespaced_pods import NamespacedPods
from steepest.cluster.kubernetes.objects import Pod, observed
from steepest.cluster.observation import Observation, end, kept_end, recorded_end
from steepest.cluster.observation import record as record_end
from steepest.cluster.port import ReplicaPhase

_LAST_WORD_S = 3.0
"""How long a removed pod's last state may take through the watch: milliseconds."""


class PodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``pod.json``: written before the pod's gate is dropped, so before the container runs its first instruction.

    Attributes:
        name: Its name.
        uid: Its UID.
        namespace: Its namespace; empty, as in older records: the installation's own.
    """

    name: str
    uid: str
    namespace: str = ""


def record_of(folder: IncarnationFolder) -> Path:
    """The path of the record of an incarnation's pod."""
    return folder.path / "pod.json"


def stop_of(folder: IncarnationFolder) -> Path:
    """The path of a file that is there before Steepest stops an incarnation: another party may delete its pod as well."""
    return folder.path / "stop.json"


def pod_of(folder: IncarnationFolder) -> PodRecord | None:
    """The pod of an incarnation; None if it has none yet."""
    return folder.read(record_of(folder), PodRecord)


class KubernetesTracked(Tracked):
    """One incarnation as a pod."""

    @functools.cached_property
    def pod(self) -> PodRecord | None:
        """Its pod. Read it only after the pod was recorded: the result is cached."""
        return pod_of(self.folder)


class PodObserver:
    """Observes incarnations.

    Args:
        api: The API server.
        pods: The copies of the pods.
    """

    def __init__(self, api: KubernetesApi, pods: NamespacedPods) -> None:
        self._api = api
        self._pods = pods

    async def observe(self, folder: IncarnationFolder) -> Observation:
        """The state of an incarnation whose folder exists; an end is recorded.

        Raises:
            UncertainError: The API server does not answer.
        """
        ended, record = await asyncio.to_thread(_records, folder)
        if ended is not None:
            return ended
        if record is None:
            return Observation(phase=ReplicaPhase.STARTING, began=False)
        pod = await self.find(record)
        seen = observed(pod) if pod is not None else None
        if seen is None or (not seen.ended and pod is self._removed(record)):
            pod, seen = None, end(None, "its pod was removed")
        return await asyncio.to_thread(_recorded, folder, seen, pod) if seen.ended else seen

    async def find(self, record: PodRecord) -> Pod | None:
        """A pod, or its last state if it is gone; None if that is not known.

        Raises:
            UncertainError: The API server does not answer.
        """
        copy = self._pods.of(record.namespace)
        if copy.is_live and (pod := copy.get(record.uid)) is not None:
            return pod
        removed = self._removed(record)
        if removed is not None and removed.has_ended:
            return removed
        with contextlib.suppress(AnswerError):
            pod = await self.read(record)
            if pod is not None and pod.metadata.uid == record.uid:
                return pod
        return await copy.removed(record.uid, _LAST_WORD_S)

    async def read(self, record: PodRecord) -> Pod | None:
        """The pod of that name as the API server has it now; None if there is none.

        Raises:
            UncertainError: It does not answer.
            ClusterError: It refuses.
        """
        try:
            return await self._api.get(self._pods.path(record.namespace, record.name), Pod)
        except AnswerError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def _removed(self, record: PodRecord) -> Pod | None:
        return self._pods.last(record.uid)


def _records(folder: IncarnationFolder) -> tuple[Observation | None, PodRecord | None]:
    """How it ended, or else its pod; a thread that is asked once is waited for once."""
    ended = recorded_end(folder)
    return ended, pod_of(folder) if ended is None else None


def _recorded(folder: IncarnationFolder, seen: Observation, pod: Pod | None) -> Observation:
    if pod is not None and stop_of(folder).exists():
        seen = observed(pod, was_stopped=True)
    return record_end(folder, kept_end(folder, seen))
