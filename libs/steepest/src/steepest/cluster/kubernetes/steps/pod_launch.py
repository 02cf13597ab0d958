"""The inputs of every start of a pod, and the record that it makes before the pod may run."""

from __future__ import annotations

import asyncio

import msgspec

from steepest.cluster.folders.acts import definite
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.kubernetes.objects import Pod
from steepest.cluster.kubernetes.pod_observer import PodRecord, record_of
from steepest.cluster.kubernetes.steps.kept import PodKeeper
from steepest.cluster.port import ReplicaSpec
from steepest.events.common import CheckpointRef


class PodLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a start.

    Attributes:
        keeper: How it is kept; None: it runs without a keeper.
        host: What selects the node (``ClusterNode.host``), once that is known.
    """

    node: str
    spec: ReplicaSpec
    restore: CheckpointRef | None
    keeper: PodKeeper | None = None
    host: str = ""


async def recorded(folder: IncarnationFolder, found: Pod) -> PodRecord:
    """Write down which pod an incarnation gets: what is not on record has never run.

    Raises:
        ClusterError: It could not be written.
    """
    made = found.metadata
    pod = PodRecord(name=made.name, uid=made.uid, namespace=made.namespace)
    with definite(f"{folder} did not start"):
        await asyncio.to_thread(folder.write, record_of(folder), pod)
    return pod
