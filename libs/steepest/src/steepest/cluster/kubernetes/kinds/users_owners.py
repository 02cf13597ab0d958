"""The objects of users that were marked as the installation's: found, suspended, resumed, and the pods they have made.

It owns the requests that change such an object. It must never make or remove one.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from steepest.cluster.folders.folder_watch import wait
from steepest.cluster.kubernetes.api import NOT_FOUND, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.having_roles import having_roles
from steepest.cluster.kubernetes.kinds.kueue import NOT_ADMITTED, KueueWorkloads, is_queued
from steepest.cluster.kubernetes.kinds.marks import suspension
from steepest.cluster.kubernetes.kinds.users_object import UsersObject, UsersRole, hosts, is_suspended, rank_of, roles
from steepest.cluster.kubernetes.manifest import INCARNATION, JOB, JobSettings, digest_of, labels_of_job
from steepest.cluster.kubernetes.nodes.namespaced_pods import NAME_IT, REMOVED_S, NamespacedPods, emptied
from steepest.cluster.kubernetes.objects import SCHEDULE, Listing, Pod
from steepest.cluster.kubernetes.reflector import label_group, labelled
from steepest.cluster.kubernetes.users_jobs import job_name
from steepest.errors import ClusterError, InputError, RefusedError, UncertainError

_POD_S = 50.0  # a busy Job controller was seen to take 33 s
_ASK_S = 1.0
_ADOPT_S = 0.3


class UsersOwner(msgspec.Struct, frozen=True, kw_only=True):
    """An object that makes the pods of a job, as it was read.

    Attributes:
        kind: Its kind.
        namespace: Its namespace.
        name: Its name.
        uid: Its UID.
        is_suspended: Whether it is suspended.
        is_queued: Whether Kueue suspends and resumes it.
        is_over: Whether it runs no pods any more, and never will.
        roles: Its roles, in the order of the replicas' ranks; none where the object is gone that has them.
        hosts: The host name of each replica.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    is_suspended: bool
    is_queued: bool
    is_over: bool
    roles: tuple[UsersRole, ...]
    hosts: tuple[str, ...]

    @property
    def replicas(self) -> int:
        """How many pods it has at a time."""
        return len(self.hosts)

    @property
    def may_make_pods(self) -> bool:
        """Whether it may make pods without a change of Steepest's: one that is queued does once Kueue admits it."""
        return not self.is_over and (self.is_queued or not self.is_suspended)


class UsersOwners:
    """The users' objects of an adapter.

    Args:
        api: The API server.
        settings: What the installation's Jobs have in common.
        pods: The copies of their pods.
    """

    def __init__(self, api: KubernetesApi, settings: JobSettings, pods: NamespacedPods) -> None:
        self._api = api
        self._settings = settings
        self._pods = pods
        self._kueue = KueueWorkloads(api)
        self._given_up: dict[str, int] = {}

    async def find(self, job: str, namespace: str | None = None) -> UsersOwner | None:
        """The object of a job that a user has made and that was marked as the installation's; None: there is none.

        Args:
            job: The job.
            namespace: Where it is; empty: in the installation's own namespace; None: that is not on record.

        Raises:
            ClusterError: It cannot be read any more.
            RefusedError: It may be where nothing may be read, or where the installation names no namespace any more.
            UncertainError: The API server does not answer.
        """
        if namespace is not None:
            if not self._pods.has(namespace):
                raise RefusedError(
                    f"the object of {job} is in {namespace}, which is none of the installation's namespaces any more",
                    code="other-namespace",
                    hint=NAME_IT,
                )
            return await self._find(job, self._settings.place(namespace))
        refused: RefusedError | None = None
        for each in self._settings.all_namespaces:
            try:
                if (found := await self._find(job, each)) is not None:
                    return found
            except RefusedError as error:  # rights in one namespace must not decide about the objects of others
                refused = error
        if refused is not None:  # it may be there
            raise refused
        return None

    async def _find(self, job: str, namespace: str) -> UsersOwner | None:
        labels = labelled({**labels_of_job(self._settings, job), SCHEDULE: "true"})
        for kind in self._settings.kinds:
            try:
                listed = await self._api.get(kind.path(namespace), Listing[UsersObject], labels)
            except AnswerError as error:
                if error.status == NOT_FOUND:  # the cluster has no such kind
                    continue
                raise
            for owner in listed.items:
                # Labels are a user's to write, a UID is not: an object that is marked like another one's job is none.
                if job_name(owner.metadata.name, owner.metadata.uid) == job:
                    having = await having_roles(self._api, namespace, kind, owner)
                    return _read(kind, namespace, owner, having)
        return None

    async def suspend(self, owner: UsersOwner) -> bool:
        """Suspend an object that was read just now, which ends all of its pods; False if it is over or gone.

        Raises:
            UncertainError: It is in a queue of Kueue, which has no Workload of it now.
        """
        if owner.is_over:
            return False
        if owner.is_queued:
            if not await self._kueue.hold(owner.namespace, owner.uid):
                why = f"Kueue has no Workload of the {owner.kind.name} {owner.name}"
                raise UncertainError(why, code=NOT_ADMITTED)
            return True
        return owner.is_suspended or await self._set(owner, suspended=True)

    async def resume(self, job: str, owner: UsersOwner) -> bool:
        """Resume the object of a job that was read just now; False if it is gone since.

        One in a queue of Kueue may be admitted only later, or not at all.

        Raises:
            ClusterError: Pods of before are still there after a long time, and would count; or another party has
                deactivated it in Kueue.
        """
        if not owner.is_suspended:
            return True
        if owner.is_queued:
            await self._kueue.release(owner.namespace, owner.uid)
            return True
        group = label_group(JOB, digest_of(self._settings, job))
        if owner.kind.counts_what_is_there and not await emptied(self._pods.of(owner.namespace), group):
            why = f"pods of the {owner.kind.name} {owner.name} are still there after {REMOVED_S:g} s"
            raise ClusterError(why, code="not-started")
        return await self._set(owner, suspended=False)

    async def waiting_pod(
        self,
        job: str,
        rank: int,
        incarnation: int,
        owner: UsersOwner,
        refusal: Callable[[str], Awaitable[str]] | None = None,
    ) -> Pod | None:
        """The pod of a replica, once each replica of its job has one that waits, or has got its place in this incarnation.

        So no pod of a gang is let go before all of them are there.

        Args:
            job: The job.
            rank: Which of its replicas.
            incarnation: The incarnation that is started.
            owner: The object that makes the pods.
            refusal: Why the API server refuses pods of the object with a UID, which have rights that it may not admit.

        Returns:
            None if the object is over or another one now, so that it must be looked at again.

        Raises:
            RefusedError: ``no-such-program``: the API server refuses its pods; none of them runs.
            ClusterError: They are not there for a long time, or Kueue has no quota for them; the pod does not run.
        """
        group = label_group(JOB, digest_of(self._settings, job))
        deadline = time.monotonic() + _POD_S
        asks_s, pause_s = time.monotonic() + _ASK_S, _ASK_S
        is_admitted = not owner.is_queued
        while (now_s := time.monotonic()) < deadline:
            changed = self._pods.next_change(group)
            waiting, there = self._seen(owner, self._pods.of(owner.namespace).of_group(group), incarnation)
            if rank in waiting and len(there) == owner.replicas:
                return waiting[rank]
            if now_s > asks_s:
                if refusal is not None and (why := await refusal(owner.uid)):
                    message = f"the {owner.kind.name} {owner.name} may make no pod: {why[:500]}"
                    raise RefusedError(message, code="no-such-program")
                now = await self.find(job, owner.namespace)
                if now is None or now.uid != owner.uid or not now.may_make_pods:
                    return None
                # Pods that are long in coming have a busy cluster to wait for: asking often would make it busier.
                pause_s *= 2
                asks_s = time.monotonic() + pause_s
            until_s = min(asks_s, deadline)
            if not is_admitted and (is_admitted := await self._kueue.is_admitted(owner.namespace, owner.uid)):
                deadline = time.monotonic() + _POD_S
            if owner.is_queued:
                if is_admitted:
                    await self._kueue.adopt(owner.namespace, owner.uid, labels_of_job(self._settings, job))
                until_s = min(until_s, time.monotonic() + _ADOPT_S)
            await wait(changed, until_s - time.monotonic())
        raise ClusterError(
            f"the {owner.kind.name} {owner.name} has made {len(there)} of {owner.replicas} pods in {_POD_S:g} s"
            + ("" if is_admitted else ", and makes none before Kueue admits it"),
            code="not-started" if is_admitted else NOT_ADMITTED,
            hint=f"kubectl -n {owner.namespace} describe {owner.kind.name.lower()} {owner.name}",
        )

    def give_up(self, job: str, incarnation: int) -> None:
        """Note that a replica of a gang could not be started: the others of this incarnation must not begin then."""
        self._given_up[job] = incarnation

    def has_given_up(self, job: str, incarnation: int) -> bool:
        """Whether a replica of the same incarnation could not be started."""
        return self._given_up.get(job) == incarnation

    def forget(self, job: str) -> None:
        """Forget a job that is over."""
        self._given_up.pop(job, None)

    @staticmethod
    def _seen(owner: UsersOwner, pods: Iterable[Pod], incarnation: int) -> tuple[dict[int, Pod], set[int]]:
        """By rank, the pods that wait, and the ranks of which one waits or has got its place in this incarnation."""
        waiting: dict[int, Pod] = {}
        there: set[int] = set()
        for pod in pods:
            rank = rank_of(owner.kind, owner.roles, pod.metadata.labels)
            if rank is None:
                continue
            if pod.is_gated and pod.metadata.deletion_timestamp is None and not pod.has_ended:
                waiting[rank] = pod
                there.add(rank)
            elif pod.metadata.annotations.get(INCARNATION) == str(incarnation):
                there.add(rank)
        return waiting, there

    async def _set(self, owner: UsersOwner, *, suspended: bool) -> bool:
        path = f"{owner.kind.path(owner.namespace)}/{owner.name}"
        change = suspension(owner.kind, owner.uid, suspended=suspended)
        return await self._api.merge(path, change)


def _read(kind: Kind, namespace: str, found: UsersObject, having: UsersObject | None) -> UsersOwner:
    try:
        own = found.read()
        fields = own if having is found else having.read() if having is not None else {}
        read = roles(kind, fields) if having is not None else ()
    except InputError as error:
        raise ClusterError(
            f"the {kind.name} {found.metadata.name} cannot be scheduled any more: {error}", code="no-such-job"
        ) from error
    return UsersOwner(
        kind=kind,
        namespace=namespace,
        name=found.metadata.name,
        uid=found.metadata.uid,
        is_suspended=is_suspended(kind, own),
        is_queued=kind.may_be_queued and is_queued(found.metadata),
        is_over=found.is_over(kind),
        roles=read,
        hosts=hosts(kind, found.metadata.name, fields, read),
    )
