"""The pods of an installation's namespaces: of each a copy, which a reflector of its own keeps.

It owns which namespaces these are, and the paths of their pods. A namespace that is not there, or where rights lack, stops
no other one: it is looked for again and again. The pods of a group are looked for in one namespace alone, because who may
make pods in another one may give them any label and any owner.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from steepest.cluster.folders.folder_watch import wait
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.manifest import JOB
from steepest.cluster.kubernetes.objects import Pod
from steepest.cluster.kubernetes.reflector import Awaited, PodReflector, Reflector, label_group, owners_of
from steepest.errors import UncertainError

NAME_IT = "name it again until its jobs are over: optIn.namespaces, or steepest up --namespace"
"""The advice about a namespace that was taken out too early."""

REMOVED_S = 60.0
_LIVE_S = 0.5  # a watch that begins again says nothing of objects that did not change


class NamespacedPods:
    """The pods with some labels, of all namespaces of an installation. UIDs are those of one cluster, and so never the same.

    Args:
        api: The API server.
        namespaces: The installation's own one first.
        selectors: As for a reflector.
        changed: Called with each pod that is new, changed or deleted.
        groups: The keys by which a pod is found together with others.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespaces: Sequence[str],
        selectors: Mapping[str, str],
        changed: Callable[[Pod], None],
        groups: Callable[[Pod], Iterable[str]],
    ) -> None:
        awaited: Awaited = weakref.WeakValueDictionary()
        self._copies: dict[str, PodReflector] = {
            namespace: Reflector(api, _path(namespace), Pod, selectors, changed, groups=groups, awaited=awaited)
            for namespace in namespaces
        }
        self._own = namespaces[0]

    def start(self) -> None:
        """Begin."""
        for each in self._copies.values():
            each.start()

    async def listed(self, timeout_s: float) -> bool:
        """Wait for the first lists, or for why a further namespace has none; False if the own one has none in time."""
        own, *further = self._copies.values()
        is_listed, *_ = await asyncio.gather(own.listed(timeout_s), *(each.answered(timeout_s) for each in further))
        return is_listed

    async def close(self) -> None:
        """End the watches."""
        for each in self._copies.values():
            await each.close()

    def of(self, namespace: str) -> PodReflector:
        """The copy of a namespace's pods; an empty name is that of the installation's own.

        Raises:
            UncertainError: The installation does not name it any more, so nothing is asked there.
        """
        if (found := self._copies.get(namespace or self._own)) is None:
            raise UncertainError(
                f"the namespace {namespace} is none of the installation's any more",
                code="other-namespace",
                hint=NAME_IT,
            )
        return found

    def has(self, namespace: str) -> bool:
        """Whether a namespace is one of the installation's; an empty name is that of its own."""
        return (namespace or self._own) in self._copies

    def path(self, namespace: str, name: str) -> str:
        """Where the API server has a pod.

        Raises:
            UncertainError: As for ``of``.
        """
        self.of(namespace)
        return f"{_path(namespace or self._own)}/{name}"

    def get(self, uid: str) -> Pod | None:
        """A pod that exists, as far as is known."""
        return next((pod for each in self._copies.values() if (pod := each.get(uid)) is not None), None)

    def last(self, uid: str) -> Pod | None:
        """The last state of a pod that was deleted while it was watched."""
        return next((pod for each in self._copies.values() if (pod := each.last(uid)) is not None), None)

    def all(self) -> Iterable[Pod]:
        """All pods."""
        return chain.from_iterable(each.all() for each in self._copies.values())

    def next_change(self, key: str) -> asyncio.Event:
        """See ``Reflector.next_change``; the key may be of any of the namespaces."""
        return self._copies[self._own].next_change(key)  # they are awaited together


async def emptied(copy: PodReflector, key: str) -> bool:
    """Wait until there is surely no pod with this UID, or of this group; False: there is for :data:`REMOVED_S`."""
    deadline = time.monotonic() + REMOVED_S
    while True:
        changed = copy.next_change(key)
        if copy.is_live and copy.get(key) is None and not copy.of_group(key):
            return True
        if time.monotonic() > deadline:
            return False
        await wait(changed, _LIVE_S)


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def groups_of(pod: Pod) -> list[str]:
    """The keys of a pod: the objects that made it, and its job, which may have several between it and its pods."""
    job = pod.metadata.labels.get(JOB)
    return owners_of(pod) if job is None else [*owners_of(pod), label_group(JOB, job)]
