"""The objects of users that are in a queue of Kueue too: Kueue admits them, and Steepest schedules what was admitted.

Kueue suspends and resumes such an object, and undoes what others say of that. Steepest stops one by deactivating its
Workload: then Kueue suspends it, and gives up its quota once its pods are gone. It is resumed when Kueue admits it again.

This module owns the requests that change a Workload, and those that mark pods which no template marks. It must never
activate a Workload that another party has deactivated. (Kueue 0.19: ``pkg/controller/jobframework/reconciler.go``,
``pkg/controller/core/workload_controller.go``.)
"""

from __future__ import annotations

from collections.abc import Mapping

from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.objects import BatchJobStatus, ClusterObject, Listing, ObjectMetadata, ObjectPart, Pod
from steepest.cluster.kubernetes.reflector import labelled
from steepest.errors import ClusterError

QUEUE_OF_KUEUE = "kueue.x-k8s.io/queue-name"
"""The label of an object that Kueue suspends and resumes."""

NOT_ADMITTED = "not-admitted"  # nothing of such a start is taken back: its Workload keeps its place in the queue

HELD = "steepest.dev/held"
"""The annotation of a Workload that Steepest has deactivated."""

_UID = "kueue.x-k8s.io/job-uid"
_OWNER = "batch.kubernetes.io/controller-uid"
_API = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"


class _WorkloadSpec(ObjectPart, frozen=True):
    active: bool = True


class _Workload(ClusterObject, frozen=True):
    spec: _WorkloadSpec = _WorkloadSpec()
    status: BatchJobStatus = BatchJobStatus()


def is_queued(found: ObjectMetadata) -> bool:
    """Whether Kueue suspends and resumes an object."""
    return QUEUE_OF_KUEUE in found.labels


class KueueWorkloads:
    """The Workloads that Kueue has made of users' objects, and the pods of what it has admitted.

    Args:
        api: The API server.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    async def hold(self, namespace: str, uid: str) -> bool:
        """Deactivate the Workload of an object, unless it is inactive; False: there is none.

        Args:
            namespace: The object's namespace.
            uid: The object's UID.

        Raises:
            ClusterError: The API server refuses.
            UncertainError: It does not answer.
        """
        found = await self._find(namespace, uid)
        if found is None:
            return False
        return not found.spec.active or await self._set(found, active=False)

    async def release(self, namespace: str, uid: str) -> None:
        """Let Kueue admit an object again.

        Raises:
            ClusterError: Another party has deactivated its Workload, or the API server refuses.
            UncertainError: It does not answer.
        """
        found = await self._find(namespace, uid)
        if found is None or found.spec.active:
            return
        if HELD not in found.metadata.annotations:
            raise ClusterError(
                f"the Workload {found.metadata.name} is inactive, and not by Steepest",
                code=NOT_ADMITTED,
                hint=f"kueuectl -n {namespace} resume workload {found.metadata.name}",
            )
        await self._set(found, active=True)

    async def is_admitted(self, namespace: str, uid: str) -> bool:
        """Whether Kueue has admitted an object; False: it has not looked at it since its Workload was activated.

        Raises:
            ClusterError: Kueue has no quota for it now, or the API server refuses.
            UncertainError: It does not answer.
        """
        found = await self._find(namespace, uid) or _Workload(metadata=ObjectMetadata())
        for one in found.status.conditions:
            is_new = one.observed_generation >= found.metadata.generation
            if (one.type, one.status, is_new) == ("QuotaReserved", "False", True):
                raise ClusterError(f"Kueue has not admitted it: {one.reason}: {one.message}"[:500], code=NOT_ADMITTED)
        return any((one.type, one.status) == ("Admitted", "True") for one in found.status.conditions)

    async def adopt(self, namespace: str, uid: str, labels: Mapping[str, str]) -> None:
        """Mark the gated pods of a Job themselves: Kueue puts its template back whenever it stops the Job.

        Args:
            namespace: The Job's namespace.
            uid: The Job's UID.
            labels: The marks.

        Raises:
            ClusterError: The API server refuses.
            UncertainError: It does not answer.
        """
        path = f"/api/v1/namespaces/{namespace}/pods"
        for pod in (await self._api.get(path, Listing[Pod], labelled({_OWNER: uid}))).items:
            known = pod.metadata
            if pod.is_gated and known.deletion_timestamp is None and not labels.items() <= known.labels.items():
                change = {"metadata": {"uid": known.uid, "labels": dict(labels)}}
                await self._api.merge(f"{path}/{known.name}", change)

    async def _find(self, namespace: str, uid: str) -> _Workload | None:
        listed = await self._api.get(_API.format(namespace), Listing[_Workload], labelled({_UID: uid}))
        return next((each for each in listed.items if each.metadata.deletion_timestamp is None), None)

    async def _set(self, found: _Workload, *, active: bool) -> bool:
        known = found.metadata
        metadata = {"uid": known.uid, "annotations": {HELD: None if active else "true"}}
        change = {"metadata": metadata, "spec": {"active": active}}
        return await self._api.merge(f"{_API.format(known.namespace)}/{known.name}", change)
