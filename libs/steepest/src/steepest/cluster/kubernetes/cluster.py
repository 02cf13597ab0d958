"""The adapter for Kubernetes: every replica is a Job of ``batch/v1``, whose pods wait behind a scheduling gate for a place.

It owns what an adapter has there, and which call does what; what takes several steps is in ``steps``. Its state folder is on
a volume that the pods share, so all that does not place, stop or cap is as in the other adapters.

* A start makes or resumes the Job, writes the incarnation and the node into the gated pod and drops the gate. The cluster's
  own scheduler then binds it: quotas, taints and the requests of others stay in force.
* A stop suspends the Job: its pod gets SIGTERM and its grace, and the Job counts no failure. It returns when the pod ended.
* A limit resizes the pod in place.

An object that a user has made replaces such Jobs, for all replicas of its job (``kinds``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from steepest.aio import uncancelled
from steepest.cluster import keepers
from steepest.cluster.container_paths import CHECKPOINTS, metrics_in_checkpoints
from steepest.cluster.data_source import DataSource
from steepest.cluster.fence import is_made
from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.acts import definite
from steepest.cluster.folders.adapter_folder import IncarnationFolder, spec_record
from steepest.cluster.folders.ended_jobs import GIB, Retention
from steepest.cluster.folders.folder_cluster import FolderCluster
from steepest.cluster.folders.folder_label import label_of
from steepest.cluster.folders.replica_roster import Roster
from steepest.cluster.kubernetes.agent.node_sources import AgentNode, NodeSources
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.jobs import REFUSED, BatchJobs
from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.known import JOB, referred
from steepest.cluster.kubernetes.kubernetes_background import KubernetesBackground
from steepest.cluster.kubernetes.manifest import UNPRIVILEGED, JobSettings
from steepest.cluster.kubernetes.nodes.namespaced_pods import NamespacedPods
from steepest.cluster.kubernetes.nodes.pod_sources import ElsewhereSources, PodSources
from steepest.cluster.kubernetes.nodes.selected_nodes import SelectedNodes
from steepest.cluster.kubernetes.objects import NOT_RUN
from steepest.cluster.kubernetes.pod_observer import KubernetesTracked, pod_of
from steepest.cluster.kubernetes.steps.kept import PodKeeper, provide, remove_unused
from steepest.cluster.kubernetes.steps.launch import launch
from steepest.cluster.kubernetes.steps.pod_launch import PodLaunch
from steepest.cluster.kubernetes.steps.resize import resize
from steepest.cluster.kubernetes.steps.stop import PodStop
from steepest.cluster.kubernetes.users_jobs import USERS_JOB
from steepest.cluster.observation import Observation, recorded_end
from steepest.cluster.port import MetricsPlace, NodeTerms, ReplicaId, ReplicaSpec, Stopped
from steepest.errors import ClusterError, InputError, RefusedError
from steepest.events.common import CheckpointMode, CheckpointRef, Resources

LARGEST_NODE = Resources(cpu_m=1_024_000, memory_mib=1 << 24)
"""Larger than any node: no cap is a cap of this size where nodes are selected, and so come and go."""

_ITS_KEEPERS = (REFUSED, NOT_RUN, "no-such-program")
"""Why a start fails that may succeed without a keeper: its rights are not admitted, or a runtime cannot give them."""


class KubernetesCluster(FolderCluster[KubernetesBackground]):
    """Nodes of a Kubernetes cluster. It starts with the first call, within a running loop.

    Args:
        state_dir: The state folder, on the volume; a new adapter on the same folder adopts the replicas that run.
        nodes: All nodes of the pool, with what they may have; or the labels of its nodes, of which it then has what is free.
        pool: The pool's name, for the heartbeats.
        namespace: The namespace of the Jobs.
        claim: The claim of the volume, in that namespace; pods on every node can mount it.
        volume: Where the volume is mounted here.
        image: The default image.
        kubeconfig: The file that says where the API server is; None: the pod's service account, or the user's default file.
        heartbeat_s: The heartbeats' period in seconds.
        events: True uses the file system's events, which a network file system does not have.
        retention: How much is kept of forgotten jobs.
        data: Where jobs read their data; what the pod of a job of one replica receives then counts as read from there.
        agent: The node that this is the agent of: it has no other one then.
        has_agents: Whether every node has an agent, which copies and measures there.
        kinds: The kinds of users' objects that it schedules.
        namespaces: Further namespaces whose users' objects it schedules; each has a claim of that name of the same volume.
        system_checkpoints: Whether jobs may have keepers, whose pods have capabilities and no filter of system calls.

    Raises:
        InputError: A node's name is invalid or appears twice, a namespace is named twice, or the state folder is not on the
            volume.
    """

    def __init__(
        self,
        state_dir: Path,
        nodes: Sequence[tuple[str, Resources]] | str,
        pool: str,
        *,
        namespace: str,
        claim: str,
        volume: Path,
        image: str,
        kubeconfig: Path | None = None,
        heartbeat_s: float = 1.0,
        retention: Retention = Retention(),  # noqa: B008 - frozen
        data: DataSource | None = None,
        agent: AgentNode | None = None,
        has_agents: bool = False,
        kinds: Sequence[Kind] = (JOB,),
        namespaces: Sequence[str] = (),
        system_checkpoints: bool = False,
    ) -> None:
        self._data = data
        self._system_checkpoints = system_checkpoints
        self._agent = agent
        self._has_agents = has_agents
        self._selected = SelectedNodes(nodes) if isinstance(nodes, str) else None
        listed = [] if isinstance(nodes, str) else [each for each in nodes if agent is None or each[0] == agent.name]
        super().__init__(state_dir, listed, pool, heartbeat_s=heartbeat_s, events=False, retention=retention)
        if self._selected is not None:
            self._capacities = self._selected
            self._settings = msgspec.structs.replace(self._settings, capacities=self._selected)
        if len({namespace, *namespaces}) <= len(namespaces):
            raise InputError(
                f"a namespace is named twice: {', '.join((namespace, *namespaces))}",
                code="bad-namespace",
                hint="name each further namespace once, and not the one of the claim",
            )
        mounted, folder = volume.resolve(), self._state.path.resolve()
        if not folder.is_relative_to(mounted):
            raise InputError(
                f"the state folder {state_dir} is not on the volume {volume}",
                code="bad-volume",
                hint="mount the claim here, and put the state folder below it",
            )
        self._jobs_settings = JobSettings(
            namespace=namespace,
            label=label_of(self._state),
            claim=claim,
            below=folder.relative_to(mounted),
            image=image,
            user=os.getuid() or UNPRIVILEGED,
            data_url=data.url if data is not None else "",
            kinds=tuple(kinds),
            namespaces=tuple(namespaces),
            most=Resources(
                cpu_m=max((capacity.cpu_m for _, capacity in listed), default=LARGEST_NODE.cpu_m),
                memory_mib=max((capacity.memory_mib for _, capacity in listed), default=LARGEST_NODE.memory_mib),
            ),
        )
        self._kubeconfig = kubeconfig
        self._jobs: BatchJobs | None = None

    async def start(
        self,
        replica: ReplicaId,
        incarnation: int,
        node: str,
        spec: ReplicaSpec,
        restore: CheckpointRef | None,
    ) -> None:
        """See ``Cluster.start``. The checkpoint is verified first.

        Raises:
            RefusedError: ``no-such-image``, ``not-run``, ``no-room`` and ``unsupported-resource`` as well.
        """
        background = await self._ready()
        if node not in self._capacities:
            raise RefusedError(f"there is no node {node!r}", code="unknown-node")
        folder = self._folder(replica, incarnation)
        order = PodLaunch(node=node, spec=spec, restore=restore)
        async with self._starting.setdefault(replica.job, asyncio.Lock()):
            await uncancelled(self._start(background, folder, order))
        await background.completed(replica)

    async def _start(self, background: KubernetesBackground, folder: IncarnationFolder, order: PodLaunch) -> None:
        try:
            if order.restore is None or not await self._is_known(folder, order.node):
                keeper = await asyncio.to_thread(self._keeper, order.spec)
                # A keeper verifies its image itself, and knows an older one where the newest is damaged.
                checked = None if isinstance(keeper, PodKeeper) else order.restore
                await self._check(background, folder, order.spec, checked)
                async with self._locked(folder.replica.job):
                    if not await self._is_known(folder, order.node):
                        unable = await self._launch(background, folder, order, keeper)
                        await asyncio.to_thread(keepers.declare_none, folder, order.spec, unable)
        finally:
            if await asyncio.to_thread(folder.path.exists):
                background.track(folder, spec_record(order.node, order.spec))  # even after a failure: it may run

    def _keeper(self, spec: ReplicaSpec) -> PodKeeper | str:
        """How a job is kept, or why it is not; it blocks."""
        if spec.checkpoint_mode is not CheckpointMode.SYSTEM or spec.gang is not None:
            return "only a job of one pod, whose user wants it, has one"
        if not self._system_checkpoints:
            return "pods may have none here; allow it: up --system-checkpoints, or the chart's jobs.systemCheckpoints"
        home = keepers.find_whole()
        if isinstance(home, str):
            return home
        try:
            return PodKeeper(provide(self._state, home), self._retention.checkpoints_gib * GIB or None)
        except OSError as error:
            return f"its programs are not on the volume: {error}"

    async def _launch(
        self, background: KubernetesBackground, folder: IncarnationFolder, order: PodLaunch, keeper: PodKeeper | str
    ) -> str:
        """Start it, with its keeper if the cluster lets it have one; return why it has none, or empty."""
        if isinstance(keeper, PodKeeper):
            try:
                with_keeper = msgspec.structs.replace(order, keeper=keeper)
                await launch(self._own_jobs, background, self._state, folder, with_keeper)
            except ClusterError as error:
                if not error.definite or error.code not in _ITS_KEEPERS or USERS_JOB in order.spec.env:
                    raise
                keeper = str(error)
            else:
                return ""
        if USERS_JOB in order.spec.env and order.spec.checkpoint_mode is CheckpointMode.SYSTEM:
            raise RefusedError(f"its pods begin with a keeper: {keeper}", code="no-such-program")
        await asyncio.to_thread(keepers.refuse_image, self._state, folder.replica.job, order.restore, keeper)
        await launch(self._own_jobs, background, self._state, folder, order)
        return keeper

    async def _is_known(self, folder: IncarnationFolder, node: str) -> bool:
        """Whether the incarnation was started (it runs or has ended); False: it may be started now.

        Raises:
            RefusedError: ``stale-incarnation``, ``wrong-node`` or ``still-running``.
            UncertainError: It may have been started.
        """
        loop = asyncio.get_running_loop()

        def seen(older: IncarnationFolder) -> Observation:
            if (ended := recorded_end(older)) is not None:
                return ended
            return asyncio.run_coroutine_threadsafe(self._observe(older), loop).result()

        if not await asyncio.to_thread(is_made, self._state, folder, node, seen):
            return False
        return (await self._observe(folder)).began

    async def stop(self, replica: ReplicaId, incarnation: int, *, grace_s: float) -> Stopped:
        """See ``Cluster.stop``. The Job is suspended, so that its pod ends without counting as a failure."""
        background = await self._ready()
        folder = self._folder(replica, incarnation)
        if not await asyncio.to_thread(folder.path.exists):
            raise RefusedError(f"{folder} was never started here", code="unknown-incarnation")
        seen = await PodStop(self._own_jobs, background, folder, self._locked).end(grace_s)
        background.complete_later(folder)
        return await self._stopped(background, folder, seen)

    async def limit(
        self,
        replica: ReplicaId,
        incarnation: int,
        cpu_limit_m: int | None,
        *,
        memory_limit_mib: int | UnsetType | None = UNSET,
    ) -> None:
        """See ``Cluster.limit``. A cap below what the job asked for lowers what is reserved for it as well."""
        background = await self._ready()
        folder = self._folder(replica, incarnation)
        await self._refuse_unless_running(folder)
        pod = await asyncio.to_thread(pod_of, folder)
        if pod is None:
            raise RefusedError(f"{folder} does not run", code="not-running")
        await uncancelled(
            resize(
                self._own_jobs,
                background,
                folder,
                pod,
                most=self._jobs_settings.most,
                cpu_limit_m=cpu_limit_m,
                memory_limit_mib=memory_limit_mib,
            )
        )

    def node_terms(self, node: str) -> NodeTerms | None:
        """See ``Cluster.node_terms``: its labels and taints, as the API server has them."""
        return self._background.terms(node) if self._background is not None else None

    def metrics_folder(self, job: str, asked: str) -> MetricsPlace:
        """See ``Cluster.metrics_folder``: in the job's checkpoints, relative to them or as its process sees them."""
        found = metrics_in_checkpoints(asked, self._state.checkpoints(job))
        if found is None:
            raise RefusedError(
                f"losses are read from a job's checkpoints alone, and not from {asked}",
                code="no-such-program",
                hint=f"let the job write to {CHECKPOINTS}/metrics, and name that",
            )
        return found

    def _neighbours(self, spec: ReplicaSpec) -> Iterable[str]:
        """See ``FolderCluster._neighbours``: those of its namespace."""
        settings = self._jobs_settings
        named = referred(settings.kinds, spec.env.get(USERS_JOB, ""))
        for job in self._state.names():
            pods = [pod for each in self._state.incarnations(ReplicaId(job)) if (pod := pod_of(each)) is not None]
            if pods and settings.place(pods[-1].namespace) == settings.place(named.namespace if named else ""):
                yield job

    @property
    def jobs_settings(self) -> JobSettings:
        """The common part of its Jobs."""
        return self._jobs_settings

    def connect(self) -> KubernetesApi:
        """Another connection to its API server; the caller closes it."""
        return KubernetesApi(self._kubeconfig)

    def _forget(self, job: str) -> None:
        asyncio.run_coroutine_threadsafe(self._forget_jobs(job), self._loop).result()

    async def _forget_jobs(self, job: str) -> None:
        async with self._locked(job):
            replicas = await asyncio.to_thread(self._state.replicas, job)
            for replica in replicas:
                for folder in await asyncio.to_thread(self._state.incarnations, replica):
                    seen = await self._observe(folder)
                    if seen.began and not seen.ended:
                        raise RefusedError(f"{folder} is {seen.phase}", code="still-running", hint="stop it first")
            for replica in replicas:
                await self._own_jobs.remove(replica)
            if len(replicas) > 1:
                await self._own_jobs.remove_service(job)
            self._own_jobs.owners.forget(job)
            with definite(f"{job} is not forgotten"):
                await asyncio.to_thread(self._state.retire, job)
            with contextlib.suppress(OSError):  # it is tried again with the next job
                await asyncio.to_thread(remove_unused, self._state)

    @property
    def _own_jobs(self) -> BatchJobs:
        assert self._jobs is not None  # noqa: S101 - made with the background tasks
        return self._jobs

    async def _open(self) -> KubernetesBackground:
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._state.make)
        node = self._agent.name if self._agent is not None else None
        roster: Roster[KubernetesTracked] = Roster(self._state, KubernetesTracked, node)
        api = KubernetesApi(self._kubeconfig)
        settings = self._jobs_settings
        background = KubernetesBackground(
            self._settings,
            roster,
            api,
            settings.all_namespaces,
            settings.label,
            selected=self._selected,
            counts_reads=self._data is not None,
            agent=self._agent,
            sources=self._sources if self._has_agents else None,
        )
        self._jobs = BatchJobs(api, settings, self._state, background.pods)
        self._observer = background.observer
        for tracked in await asyncio.to_thread(roster.load):
            background.watch_incarnation(tracked.folder)
        await background.open()
        return background

    def _sources(self, pods: NamespacedPods) -> PodSources:
        if self._agent is None:
            return ElsewhereSources()
        return NodeSources(self._agent, pods)

    async def _observe(self, folder: IncarnationFolder) -> Observation:
        return await self._observer.observe(folder)

    @contextlib.asynccontextmanager
    async def _locked(self, job: str) -> AsyncIterator[None]:
        """Hold the job's lock, also against other adapters on the folder.

        Raises:
            ClusterError: Another process held it for long; nothing was done.
        """
        async with contextlib.AsyncExitStack() as stack:
            held = incarnation_locks.held(self._state.locks / job)
            await asyncio.to_thread(held.__enter__)
            stack.push_async_callback(asyncio.to_thread, held.__exit__, None, None, None)
            yield
