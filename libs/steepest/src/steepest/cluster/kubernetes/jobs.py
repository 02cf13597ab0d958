"""The Jobs of the installation's own namespace: made, suspended, resumed, removed; and the one pod that a Job has at a time.

It owns the requests that change such Jobs, and all pods, also those of users' objects in further namespaces. It must never
touch an object that does not carry the adapter's own label.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import msgspec

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.folders.folder_watch import wait
from steepest.cluster.kubernetes.api import CONFLICT, MERGE, NOT_FOUND, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.kinds.users_owners import UsersOwner, UsersOwners
from steepest.cluster.kubernetes.manifest import (
    CLUSTER,
    TEMPLATE,
    JobManifest,
    JobSettings,
    name_of,
    service,
    service_of,
)
from steepest.cluster.kubernetes.nodes.namespaced_pods import REMOVED_S, NamespacedPods, emptied
from steepest.cluster.kubernetes.objects import GATE, HOSTNAME, BatchJob, ClusterObject, Listing, Pod
from steepest.cluster.kubernetes.pod_observer import PodRecord, pod_of
from steepest.cluster.kubernetes.users_jobs import is_users
from steepest.cluster.port import ReplicaId
from steepest.errors import ClusterError, UncertainError

REFUSED = "pod-refused"
"""The code of a Job whose pods the API server refuses for their rights."""

_LOOK_S = 0.02
_POD_S = 50.0  # a busy Job controller was seen to take 33 s
_ASK_S = 1.0


class _JobEvent(ClusterObject, frozen=True):
    message: str = ""


class BatchJobs:
    """The Jobs of an adapter.

    Args:
        api: The API server.
        settings: What they have in common.
        state: The adapter's folder, which has on record in which namespace a pod is.
        pods: The copies of the pods.

    Attributes:
        settings: What they have in common.
        owners: The objects of users that make pods in place of such Jobs.
    """

    def __init__(self, api: KubernetesApi, settings: JobSettings, state: AdapterFolder, pods: NamespacedPods) -> None:
        self._api = api
        self.settings = settings
        self._state = state
        self._pods = pods
        self._namespace = f"/api/v1/namespaces/{settings.namespace}"
        self._jobs = f"/apis/batch/v1/namespaces/{settings.namespace}/jobs"
        self.owners = UsersOwners(api, settings, pods)
        self._suspended: dict[ReplicaId, BatchJob] = {}  # as the server answered, until they are resumed or removed

    async def make(self, replica: ReplicaId, wanted: JobManifest, *, is_first: bool) -> BatchJob:
        """The Job of a replica, suspended or not: the one that is there, if it can run what is wanted, or a new one.

        Args:
            replica: The replica.
            wanted: What it is to run.
            is_first: Whether there is none yet, as far as is known: then none is looked for unless its name is taken.

        Raises:
            ClusterError: The API server refused it, or another party's Job has its name.
            UncertainError: It does not answer.
        """
        deadline = time.monotonic() + REMOVED_S
        found = self._suspended.pop(replica, None)
        if found is None and not is_first:
            found = await self.read(replica)
        while True:
            if found is None:
                try:
                    body = await self._api.request("POST", self._jobs, body=wanted.job)
                    return msgspec.json.decode(body, type=BatchJob)
                except AnswerError as error:
                    if error.status != CONFLICT:
                        raise
            elif found.may_make_pods and found.metadata.annotations.get(TEMPLATE) == wanted.digest:
                return found
            else:
                await self._remove(found)
            if time.monotonic() > deadline:
                raise ClusterError(f"the Job {name_of(self.settings, replica)} is not removed", code="not-started")
            await asyncio.sleep(_LOOK_S)
            found = await self.read(replica)

    async def read(self, replica: ReplicaId) -> BatchJob | None:
        """The Job of a replica, if there is one that is the adapter's own.

        Raises:
            ClusterError: Another party's Job has its name.
            UncertainError: The API server does not answer.
        """
        path = f"{self._jobs}/{name_of(self.settings, replica)}"
        try:
            found = await self._api.get(path, BatchJob)
        except AnswerError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        if found.metadata.labels.get(CLUSTER) != self.settings.label:
            raise ClusterError(f"{path} is not Steepest's", code="name-taken", hint="rename it")
        return found

    async def suspend(self, replica: ReplicaId, *, fails: bool = False) -> bool:
        """Suspend the Job of a replica; False if there is none, or it is over. ``fails``: it will be over soon.

        An object that a user has made is suspended with all of its pods.
        """
        self._suspended.pop(replica, None)
        if (owner := await self._owner(replica)) is not None:
            return await self.owners.suspend(owner)
        found = await self.read(replica)
        if found is None or found.is_over:
            return False
        if not found.spec.suspend:
            found = await self._set_suspended(found, suspended=True)
        if not fails:
            self._suspended[replica] = found
        return True

    async def resume(self, job: BatchJob) -> bool:
        """Resume a Job that was read, or made, just now; False if it is gone since, or makes no pods any more.

        Raises:
            ClusterError: The API server refused it.
            UncertainError: It does not answer.
        """
        if job.spec.suspend:
            try:
                return (await self._set_suspended(job, suspended=False)).may_make_pods
            except AnswerError as error:
                if error.status in {NOT_FOUND, CONFLICT}:  # another one has its name now: the change names the UID
                    return False
                raise
        return True

    async def remove(self, replica: ReplicaId) -> None:
        """Remove a Job with its pods; succeeds if there is none. Its pods may still be ending then.

        An object that a user has made is only suspended.
        """
        self._suspended.pop(replica, None)
        if (owner := await self._owner(replica)) is not None:
            await self.owners.suspend(owner)
        elif (found := await self.read(replica)) is not None:
            await self._remove(found)

    async def make_service(self, job: str) -> None:
        """Make the Service of a gang, unless it is there."""
        try:
            await self._api.request("POST", f"{self._namespace}/services", body=service(self.settings, job))
        except AnswerError as error:
            if error.status != CONFLICT:
                raise

    async def remove_service(self, job: str) -> None:
        """Remove the Service of a gang, if there is one."""
        with contextlib.suppress(AnswerError):
            await self._api.request("DELETE", f"{self._namespace}/services/{service_of(self.settings, job)}")

    async def waiting_pod(
        self, replica: ReplicaId, job: BatchJob, *, is_first: bool, may_be_refused: bool = False
    ) -> Pod | None:
        """The pod of a Job that waits for a place; None if the Job makes none, so that another one is needed.

        Args:
            replica: The replica.
            job: Its Job.
            is_first: Whether it has had no pod yet, and so cannot be over: then it is not read while it is waited for.
            may_be_refused: Whether its pods have rights that a namespace may not admit: then it is asked for that.

        Raises:
            ClusterError: There is none for a long time, or its pods are refused; nothing runs.
        """
        deadline = time.monotonic() + _POD_S
        asks_s, pause_s = time.monotonic() + _ASK_S, _ASK_S
        while (now_s := time.monotonic()) < deadline:
            changed = self._pods.next_change(job.metadata.uid)
            for pod in self._pods.of(self.settings.namespace).of_group(job.metadata.uid):
                if pod.is_gated and pod.metadata.deletion_timestamp is None:
                    return pod
            if may_be_refused and (why := await self.refusal(job.metadata.uid)):
                raise ClusterError(f"the Job {job.metadata.name} may make no pod: {why[:500]}", code=REFUSED)
            if now_s > asks_s and not is_first:
                now = await self.read(replica)
                if now is None or not now.may_make_pods or now.metadata.uid != job.metadata.uid:
                    return None
                # A pod that is long in coming has a busy cluster to wait for: asking often would make it busier.
                pause_s *= 2
                asks_s = time.monotonic() + pause_s
            until = deadline if is_first else min(asks_s, deadline)
            await wait(changed, _ASK_S if may_be_refused else until - time.monotonic())
        raise ClusterError(
            f"the Job {job.metadata.name} has made no pod for {_POD_S:g} s",
            code="not-started",
            hint=f"kubectl describe job {job.metadata.name}",
        )

    async def refusal(self, uid: str) -> str:
        """Why the API server refuses a Job's pods for good, as by Pod Security; empty: it does not, or may not be asked."""
        asked = f"involvedObject.uid={uid},reason=FailedCreate"
        with contextlib.suppress(AnswerError):
            found = await self._api.get(f"{self._namespace}/events", Listing[_JobEvent], {"fieldSelector": asked})
            said = (each.message for each in found.items)
            return next((each for each in said if "forbidden" in each and "exceeded quota" not in each), "")
        return ""

    async def place(
        self, pod: PodRecord, host: str, annotations: dict[str, str], labels: dict[str, str] | None = None
    ) -> None:
        """Give a gated pod its incarnation, its node and further labels, and drop the gate, in one request.

        ``host``: what selects the node (``ClusterNode.host``).

        Raises:
            ClusterError: Nothing happened.
            UncertainError: The gate may be gone.
        """
        change = {
            "metadata": {"uid": pod.uid, "annotations": annotations, "labels": labels or {}},
            "spec": {
                "nodeSelector": {HOSTNAME: host},
                "schedulingGates": [{"$patch": "delete", "name": GATE}],
            },
        }
        await self._change(self._pods.path(pod.namespace, pod.name), change)

    async def resize(self, pod: PodRecord, container: dict[str, Any]) -> None:
        """Ask for other caps of a running pod.

        Raises:
            AnswerError: They are not allowed.
            UncertainError: They may have been set.
        """
        change = {"metadata": {"uid": pod.uid}, "spec": {"containers": [container]}}
        await self._change(f"{self._pods.path(pod.namespace, pod.name)}/resize", change)

    async def end(self, pod: PodRecord, *, grace_s: int) -> None:
        """Let a pod end within ``grace_s`` seconds from now, also one that ends already; succeeds if it is gone."""
        options = {"gracePeriodSeconds": grace_s, "preconditions": {"uid": pod.uid}}
        try:
            await self._api.request("DELETE", self._pods.path(pod.namespace, pod.name), body=options)
        except AnswerError as error:
            if error.status not in {NOT_FOUND, CONFLICT}:
                raise

    async def gone(self, pod: PodRecord) -> None:
        """Wait until a pod is removed.

        Raises:
            UncertainError: It is still there after a long time.
        """
        if not await emptied(self._pods.of(pod.namespace), pod.uid):
            raise UncertainError(f"the pod {pod.name} is still there after {REMOVED_S:g} s", code="stop-timeout")

    async def _owner(self, replica: ReplicaId) -> UsersOwner | None:
        """The object of a user that makes the pod of a replica; None: the Job of that replica does."""
        users, namespace = await asyncio.to_thread(self._recorded, replica)
        return await self.owners.find(replica.job, namespace) if users else None

    def _recorded(self, replica: ReplicaId) -> tuple[bool, str | None]:
        """Whether a user's object makes a replica's pods, and their namespace; None: it has had none yet. It blocks."""
        folders = self._state.incarnations(replica)
        records = (pod_of(folder) for folder in reversed(folders))
        namespace = next((record.namespace for record in records if record is not None), None)
        return is_users(replica.job, folders[-1] if folders else None), namespace

    async def _set_suspended(self, job: BatchJob, *, suspended: bool) -> BatchJob:
        change = {"metadata": {"uid": job.metadata.uid}, "spec": {"suspend": suspended}}
        body = await self._change(f"{self._jobs}/{job.metadata.name}", change)
        return msgspec.json.decode(body, type=BatchJob)

    async def _remove(self, job: BatchJob) -> None:
        options = {"propagationPolicy": "Background", "preconditions": {"uid": job.metadata.uid}}
        try:
            await self._api.request("DELETE", f"{self._jobs}/{job.metadata.name}", body=options)
        except AnswerError as error:
            if error.status not in {NOT_FOUND, CONFLICT}:
                raise

    async def _change(self, path: str, change: dict[str, Any]) -> bytes:
        return await self._api.request("PATCH", path, body=change, content=MERGE)
