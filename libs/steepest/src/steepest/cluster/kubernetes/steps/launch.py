"""Starts an incarnation: its folder, its Job, its pod's place; and takes back what a refused start has made.

It owns the order of these steps and what a failure between two of them leaves. The caller holds the job's lock.

A pod is made behind its gate, and its name is recorded before the gate is dropped. So what is not on record has never run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time

import msgspec
from msgspec import UNSET

from steepest.cluster import fence
from steepest.cluster.folders.acts import definite
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.folders.folder_watch import wait
from steepest.cluster.kubernetes.jobs import BatchJobs
from steepest.cluster.kubernetes.kinds.kueue import NOT_ADMITTED
from steepest.cluster.kubernetes.kubernetes_background import KubernetesBackground
from steepest.cluster.kubernetes.manifest import JobSettings, manifest
from steepest.cluster.kubernetes.nodes.selected_nodes import takes_pods
from steepest.cluster.kubernetes.objects import failed_start, unschedulable
from steepest.cluster.kubernetes.pod_observer import PodRecord, pod_of
from steepest.cluster.kubernetes.steps.kept import write_order
from steepest.cluster.kubernetes.steps.pod_launch import PodLaunch, recorded
from steepest.cluster.kubernetes.steps.resize import resize
from steepest.cluster.kubernetes.steps.users_launch import refuse_unless_whole, users_placed
from steepest.cluster.kubernetes.users_jobs import USERS_JOB
from steepest.errors import ClusterError, RefusedError
from steepest.logger import Logger

_log = Logger()
PROOF_S = 60.0
"""How long a start waits until the container runs. Pulling an image may take longer: the start is accepted then."""

NO_ROOM_S = 10.0
"""How long the scheduler may find no room: the pod that made room may still be ending."""

_MADE_S = 30.0
"""How long a kubelet may fail to make a container. With a keeper none: its runtime may not know what that needs."""

_LOOK_S = 1.0


async def launch(
    jobs: BatchJobs, background: KubernetesBackground, state: AdapterFolder, folder: IncarnationFolder, order: PodLaunch
) -> None:
    """Start an incarnation on a node; returns once its container runs, or takes long to.

    Raises:
        RefusedError: ``no-such-image``, ``no-such-program``, ``not-run``, ``no-room``, ``unsupported-resource``,
            ``node-lost``, ``no-such-job`` or ``gang-incomplete``; everything was removed again.
        ClusterError: It did not start for another reason; everything was removed again.
        UncertainError: It may have started.
    """
    try:
        await _launch(jobs, background, state, folder, order)
    except ClusterError as error:
        if error.definite and USERS_JOB in order.spec.env and order.spec.gang is not None:
            jobs.owners.give_up(folder.replica.job, folder.incarnation)
        raise


async def _launch(
    jobs: BatchJobs, background: KubernetesBackground, state: AdapterFolder, folder: IncarnationFolder, order: PodLaunch
) -> None:
    order = msgspec.structs.replace(order, host=_possible_host(background, order))
    refuse_unless_whole(jobs, folder)
    with definite(f"{folder} did not start"):
        await asyncio.to_thread(_make_folders, state, folder, order, jobs.settings)
    try:
        if USERS_JOB in order.spec.env:
            pod = await users_placed(jobs, folder, order)
        else:
            pod = await _placed(jobs, folder, order)
        await _proven(background, folder, pod, made_s=_MADE_S if order.keeper is None else 0.0)
    except ClusterError as error:
        if error.code == NOT_ADMITTED:
            await asyncio.to_thread(_remove_folder, folder)
        elif error.definite:
            await take_back(jobs, folder)
        raise
    if USERS_JOB in order.spec.env and order.spec.cpu_limit_m is not None:
        await _limit_users(jobs, background, folder, pod, order.spec.cpu_limit_m)


async def take_back(jobs: BatchJobs, folder: IncarnationFolder) -> None:
    """Remove the Job and the folder of an incarnation that has not run, so that it may be started again.

    Raises:
        UncertainError: Its pod may still be there; the folder is kept.
    """
    pod = await asyncio.to_thread(pod_of, folder)
    await jobs.remove(folder.replica)
    if pod is not None:
        await jobs.gone(pod)
    await asyncio.to_thread(_remove_folder, folder)


def _possible_host(background: KubernetesBackground, order: PodLaunch) -> str:
    """The label's value by which pods are bound to the node (``ClusterNode.host``); refuses a start that cannot succeed."""
    if not order.spec.command:
        raise RefusedError("the command is empty", code="no-such-program")
    if order.spec.requests.gpu_m:
        raise RefusedError(
            "a share of a GPU is not a resource of Kubernetes",
            code="unsupported-resource",
            hint="ask for a partition by its name, such as nvidia.com/mig-1g.5gb",
        )
    is_users, gang = USERS_JOB in order.spec.env, order.spec.gang
    hosts: dict[str, str] = {}
    # A user's gang starts by one resumption, so all of its nodes must do before that.
    for name in sorted(set(gang.nodes)) if is_users and gang is not None else (order.node,):
        hint = f"kubectl describe node {name}"
        found = background.node(name)
        if found is None or not background.answers(name):
            raise RefusedError(f"the node {name} is not ready", code="node-lost", hint=hint)
        # The pods of a user's object say themselves which taints they tolerate: the view and the scheduler go by that.
        if found.spec.unschedulable if is_users else not takes_pods(found):
            raise RefusedError(f"the node {name} is cordoned or tainted", code="node-lost", hint=hint)
        hosts[name] = found.host
    return hosts.get(order.node, order.node)


async def _placed(jobs: BatchJobs, folder: IncarnationFolder, order: PodLaunch) -> PodRecord:
    wanted = manifest(jobs.settings, folder, order.spec, order.restore, order.keeper)
    is_first, is_kept = folder.incarnation == 1, order.keeper is not None
    if order.spec.gang is not None:
        await jobs.make_service(folder.replica.job)
    found = None
    while found is None:  # a Job whose pod was killed may turn out to be over only now
        job = await jobs.make(folder.replica, wanted, is_first=is_first)
        if await jobs.resume(job):
            found = await jobs.waiting_pod(folder.replica, job, is_first=is_first, may_be_refused=is_kept)
    pod = await recorded(folder, found)
    await jobs.place(pod, order.host, wanted.annotations)
    return pod


async def _limit_users(
    jobs: BatchJobs, background: KubernetesBackground, folder: IncarnationFolder, pod: PodRecord, cpu_limit_m: int
) -> None:
    """Set a job's limit, which the pod lacks that a user's own template makes. Without it the job still runs."""
    most = jobs.settings.most
    try:
        await resize(jobs, background, folder, pod, most=most, cpu_limit_m=cpu_limit_m, memory_limit_mib=UNSET)
    except ClusterError as error:
        _log.warning("a user's Job runs without its limit", incarnation=str(folder), why=str(error))


async def _proven(
    background: KubernetesBackground, folder: IncarnationFolder, pod: PodRecord, *, made_s: float
) -> None:
    began = time.monotonic()
    while time.monotonic() < began + PROOF_S:
        changed = background.pods.next_change(pod.uid)
        found = background.pods.get(pod.uid)
        if found is None:
            if background.pods.last(pod.uid) is not None:  # another party has removed it, which ends it
                return
        elif (failure := failed_start(found, is_new=time.monotonic() < began + made_s)) is not None:
            raise RefusedError(f"{folder} cannot be started: {failure[1][:500]}", code=failure[0])
        elif not found.is_gated and (found.state.running or found.has_ended):
            return
        elif (why := unschedulable(found)) and time.monotonic() > began + NO_ROOM_S:
            raise RefusedError(f"{folder} finds no room: {why[:500]}", code="no-room")
        await wait(changed, _LOOK_S)


def _make_folders(state: AdapterFolder, folder: IncarnationFolder, order: PodLaunch, settings: JobSettings) -> None:
    fence.make(state, folder, order.node, order.spec)
    user = settings.user
    if order.keeper is not None:
        write_order(state, folder, order.spec, order.restore, order.keeper, user=user, image=settings.image)
    for place in (folder.control, state.checkpoints(folder.replica.job)):
        if USERS_JOB in order.spec.env and order.keeper is None:  # its pod says its user; no other pod mounts these
            place.chmod(0o777, follow_symlinks=False)
        elif user != os.getuid():
            os.chown(place, user, user, follow_symlinks=False)


def _remove_folder(folder: IncarnationFolder) -> None:
    # Rename it before removing it, so that no other process writes into a half-removed folder.
    removed = folder.path.with_name(f".{folder.path.name}.{os.urandom(4).hex()}")
    with contextlib.suppress(OSError):
        folder.path.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)
