"""Parses the cluster that a user names, and makes a node of each of its nodes.

It owns ``kubernetes=NAMESPACE/CLAIM:FOLDER``, the address that an installation keeps of it, and how an object of the API
server becomes a node.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import msgspec

from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.nodes.selected_nodes import resources, takes_pods
from steepest.cluster.kubernetes.objects import ClusterNode, Listing
from steepest.errors import ClusterError, InputError
from steepest.events.common import Resources

SCHEME = "kubernetes://"
_NAMED = re.compile(r"(?P<namespace>[a-z0-9-]{1,63})/(?P<claim>[a-z0-9.-]{1,253}):(?P<volume>/.+)", re.ASCII)
_LISTED = 500


class KubernetesAddress(msgspec.Struct, frozen=True):
    """Where jobs run.

    Attributes:
        namespace: Of the Jobs.
        claim: Of the volume that their pods share, in that namespace.
        volume: Where that volume is mounted here.
    """

    namespace: str
    claim: str
    volume: Path

    def __str__(self) -> str:
        return f"{SCHEME}{self.namespace}/{self.claim}:{self.volume}"


def address(asked: str) -> KubernetesAddress:
    """What a user names after ``kubernetes=``, or an address that an installation keeps.

    Raises:
        InputError: It is neither.
    """
    if (found := _NAMED.fullmatch(asked.removeprefix(SCHEME))) is None:
        raise InputError(
            f"{asked!r} is no place for jobs on Kubernetes",
            code="bad-cluster",
            hint="write it like kubernetes=NAMESPACE/CLAIM:/mnt/claim",
        )
    return KubernetesAddress(found["namespace"], found["claim"], Path(found["volume"]))


def nodes(kubeconfig: Path | None = None) -> list[tuple[str, Resources]]:
    """The nodes of the cluster that take pods now, with what pods may have there, by name. It blocks.

    What others' pods have there is not taken off: a start that finds no room is refused, and tried elsewhere.

    Raises:
        InputError: The API server does not answer, or there is no such node.
    """
    found = asyncio.run(_listed(kubeconfig))
    usable = [
        (each.metadata.name, resources(each.status.allocatable)) for each in found if each.is_ready and takes_pods(each)
    ]
    if not usable:
        raise InputError("no node of the cluster takes pods", code="no-nodes", hint="kubectl get nodes")
    return sorted(usable)


async def _listed(kubeconfig: Path | None) -> list[ClusterNode]:
    api = KubernetesApi(kubeconfig)
    try:
        found: list[ClusterNode] = []
        query = {"limit": str(_LISTED)}
        while True:
            page = await api.get("/api/v1/nodes", Listing[ClusterNode], query)
            found += page.items
            if not page.metadata.continue_:
                return found
            query = {"limit": str(_LISTED), "continue": page.metadata.continue_}
    except ClusterError as error:
        raise InputError(f"the API server does not list its nodes: {error}", code="no-api-server") from error
    finally:
        await api.close()
