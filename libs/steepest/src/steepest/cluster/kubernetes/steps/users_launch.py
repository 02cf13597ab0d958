"""Gives the pods of an object that a user has made their places: one resumption for all of them, then each its node.

It owns the order of these steps. The caller holds the job's lock, so the replicas of a gang take turns. The first one
resumes the object; no pod is let go before each replica has one that waits. Once a replica could not be started, no other
one of the same incarnation begins, and the object is suspended again.
"""

from __future__ import annotations

import msgspec

from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.kubernetes.jobs import BatchJobs
from steepest.cluster.kubernetes.kinds.known import referred
from steepest.cluster.kubernetes.kinds.users_owners import UsersOwner
from steepest.cluster.kubernetes.manifest import REPLICA, users_annotations
from steepest.cluster.kubernetes.nodes.selected_nodes import of_container
from steepest.cluster.kubernetes.pod_observer import PodRecord
from steepest.cluster.kubernetes.steps.pod_launch import PodLaunch, recorded
from steepest.cluster.kubernetes.users_jobs import USERS_JOB
from steepest.errors import RefusedError


def refuse_unless_whole(jobs: BatchJobs, folder: IncarnationFolder) -> None:
    """Refuse a replica of a gang of which another one could not be started.

    Raises:
        RefusedError: ``gang-incomplete``; nothing happened.
    """
    if jobs.owners.has_given_up(folder.replica.job, folder.incarnation):
        raise RefusedError(f"another replica of {folder} could not be started", code="gang-incomplete")


async def users_placed(jobs: BatchJobs, folder: IncarnationFolder, order: PodLaunch) -> PodRecord:
    """Resume the object of a replica if it is suspended, and give the replica's pod its node.

    Raises:
        RefusedError: ``no-such-job``: the object is over or gone, or has another number of pods than the job has replicas.
        ClusterError: Nothing runs.
        UncertainError: It may run.
    """
    replica, found = folder.replica, None
    while found is None:  # an object whose pod was killed may turn out to be over only now
        owner = await _owner(jobs, folder, order)
        if await jobs.owners.resume(replica.job, owner):
            waits_for = (replica.job, replica.index, folder.incarnation, owner)
            found = await jobs.owners.waiting_pod(*waits_for, jobs.refusal if order.keeper is not None else None)
    pod = await recorded(folder, found)
    # A limit is set on the container that trains, and not on what else its pod requests.
    own = [of_container(one) for one in found.spec.containers if one.name == found.container]
    spec = msgspec.structs.replace(order.spec, requests=own[0]) if own else order.spec
    annotations = users_annotations(folder, spec, order.restore, owner.hosts, order.keeper)
    await jobs.place(pod, order.host, annotations, {REPLICA: str(replica.index)})
    return pod


async def _owner(jobs: BatchJobs, folder: IncarnationFolder, order: PodLaunch) -> UsersOwner:
    """The object that a user has made: there is never another one in its place."""
    asked = referred(jobs.settings.kinds, order.spec.env.get(USERS_JOB, ""))
    owner = await jobs.owners.find(folder.replica.job, asked.namespace if asked is not None else None)
    if owner is None or owner.is_over:
        raise RefusedError(f"the user's object of {folder} is {'over' if owner else 'gone'}", code="no-such-job")
    wanted = order.spec.gang.world_size if order.spec.gang is not None else 1
    if owner.replicas != wanted:
        raise RefusedError(
            f"the {owner.kind.name} {owner.name} has {owner.replicas} pods, and {wanted} when it was submitted",
            code="no-such-job",
        )
    return owner
