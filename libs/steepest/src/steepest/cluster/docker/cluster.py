"""The Docker cluster: each call of the port is a series of checks, one action, and a wait for its proof.

It owns the order within a call and what a failure of it means. Nodes are engines; the state folder must be on a disk that
every engine's machine mounts at the same path. It creates, stops and removes only containers that carry its own label.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import requests
from docker.errors import APIError, DockerException, NotFound
from msgspec import UNSET, UnsetType

from steepest.aio import uncancelled
from steepest.cluster import keepers
from steepest.cluster.allowed_folders import Allowed
from steepest.cluster.container_paths import KEEPER, metrics_in_checkpoints
from steepest.cluster.data_source import DataSource
from steepest.cluster.docker.addresses import peer_hosts
from steepest.cluster.docker.container import container_of, name_of, ours, updates
from steepest.cluster.docker.docker_background import DockerBackground, DockerTracked
from steepest.cluster.docker.host import SERVER_FAILED, DockerNode, EngineInfo, Host, status_of
from steepest.cluster.docker.kept import ContainerKeeper
from steepest.cluster.docker.launch import ContainerLaunch, launch, remove
from steepest.cluster.docker.observe import observe
from steepest.cluster.fence import is_made
from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.acts import definite
from steepest.cluster.folders.adapter_folder import IncarnationFolder, spec_record
from steepest.cluster.folders.ended_jobs import GIB, Retention
from steepest.cluster.folders.folder_cluster import FolderCluster
from steepest.cluster.folders.folder_label import label_of
from steepest.cluster.folders.folder_watch import wait
from steepest.cluster.folders.gang_ports import PortTable
from steepest.cluster.folders.gpu_table import GpuTable
from steepest.cluster.folders.replica_roster import Roster
from steepest.cluster.gang_variables import GangAddresses
from steepest.cluster.nvml import MachineGpus, NvmlGpus, boot_id
from steepest.cluster.observation import Observation, declare_gone
from steepest.cluster.port import GangPlace, MetricsPlace, ReplicaId, ReplicaSpec, Stopped
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events.common import CheckpointMode, CheckpointRef, Resources

_KILL_S = 10.0  # SIGKILL takes longer only for a process that waits for a disk
_RETRY_S = 1.0
_CONFLICT = 409
_NOT_ITS_KEEPERS = ("no-such-image", "node-lost", "still-running")


class DockerCluster(FolderCluster[DockerBackground]):
    """Docker engines as nodes. It starts with the first call, within a running loop.

    Args:
        state_dir: The state folder; a new adapter on the same folder adopts the replicas that run.
        nodes: All nodes of the pool.
        pool: The pool's name, for the heartbeats.
        image: The default image.
        allowed: The folders of the machine that containers may use.
        soft_limits: A CPU limit is a weight among the node's containers instead of a cap, so that no CPU stays idle.
        host_network: Whether replicas of gangs may have their machine's network; without it no gang starts.
        system_checkpoints: Whether jobs may have keepers, which need capabilities and no filter of system calls.
        heartbeat_s: The heartbeats' period in seconds. Engines measure once per second.
        data: Where jobs read their data; None: there is no storage. With it, what a container receives over a network of
            its own counts as what it reads.
        driver: What is known of this machine's GPUs, which are those of the engines on it; None: nothing.

    Raises:
        InputError: A node's name is invalid or appears twice.
    """

    def __init__(
        self,
        state_dir: Path,
        nodes: Sequence[DockerNode],
        pool: str,
        *,
        image: str,
        allowed: Allowed,
        soft_limits: bool = False,
        host_network: bool = False,
        system_checkpoints: bool = False,
        heartbeat_s: float = 1.0,
        retention: Retention = Retention(),  # noqa: B008 - frozen
        data: DataSource | None = None,
        driver: NvmlGpus | None = None,
    ) -> None:
        named = [(node.name, node.capacity) for node in nodes]
        super().__init__(state_dir, named, pool, heartbeat_s=heartbeat_s, events=True, retention=retention)
        self._hosts = {node.name: Host(node) for node in nodes}
        self._data = data
        self._image = image
        self._allowed = allowed
        self._soft = soft_limits
        self._host_network = host_network
        self._system_checkpoints = system_checkpoints
        self._label = label_of(self._state)
        self._ports = PortTable(self._state)
        self._gpus = GpuTable(self._state, {node.name: range(node.capacity.gpus) for node in nodes})
        here = {node.name: range(node.capacity.gpus) for node in nodes if node.is_here}
        self._machine = MachineGpus(self._state, here, driver, boot_id()) if driver is not None else None

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
            RefusedError: ``no-such-image`` as well.
        """
        background = await self._ready()
        if node not in self._hosts:
            raise RefusedError(f"there is no node {node!r}", code="unknown-node")
        folder = self._folder(replica, incarnation)
        async with self._starting.setdefault(replica.job, asyncio.Lock()):
            await uncancelled(self._start(background, folder, node, spec, restore))

    async def _start(
        self,
        background: DockerBackground,
        folder: IncarnationFolder,
        node: str,
        spec: ReplicaSpec,
        restore: CheckpointRef | None,
    ) -> None:
        try:
            host = self._hosts[node]
            if restore is None or not await host.run(lambda: self._is_known_locked(folder, node)):
                keeper = await asyncio.to_thread(self._keeper, folder.replica.job, spec)
                is_kept = isinstance(keeper, ContainerKeeper)
                # A keeper verifies its image itself, and knows an older one where the newest is damaged.
                await self._check(background, folder, spec, None if is_kept else restore)
                unable = await host.run(lambda: self._start_locked(folder, node, spec, restore, keeper))
                await asyncio.to_thread(keepers.declare_none, folder, spec, unable)
        finally:
            if await asyncio.to_thread(folder.path.exists):
                background.track(folder, spec_record(node, spec))  # even after a failure: it may run

    def _keeper(self, job: str, spec: ReplicaSpec) -> ContainerKeeper | str:
        """How a job is kept, or why it is not: only if its user says so, because a job with the SDK writes to its folders.

        It blocks.
        """
        if spec.checkpoint_mode is not CheckpointMode.SYSTEM:
            return "its user does not want it"
        if not self._system_checkpoints:
            return "containers may have none here; allow it: steepest up --system-checkpoints"
        if os.geteuid() != 0:
            return "only root may close the folders of a job to it"
        home = keepers.find_whole()
        if isinstance(home, str):
            return home
        for place in (home, KEEPER):  # jobs run as the owner of their allowed folder
            found = self._allowed.find(str(place))
            if found is not None and found.folder.stat().st_uid != 0:
                return (
                    f"jobs may change {place}, which would have their keeper's rights: let them have another --folder"
                )
        most = self._retention.checkpoints_gib * GIB or None
        return ContainerKeeper(home, temporary=self._state.temporary(job), most_bytes=most)

    def _is_known_locked(self, folder: IncarnationFolder, node: str) -> bool:
        with definite(f"{folder} did not start"), incarnation_locks.held(self._state.locks / folder.replica.job):
            return self._is_known(folder, node)

    def _start_locked(
        self,
        folder: IncarnationFolder,
        node: str,
        spec: ReplicaSpec,
        restore: CheckpointRef | None,
        keeper: ContainerKeeper | str,
    ) -> str:
        """Start it, with its keeper if the engine lets it have one; return why it has none, or empty."""
        job, host = folder.replica.job, self._hosts[node]
        with definite(f"{folder} did not start"), incarnation_locks.held(self._state.locks / job):
            if self._is_known(folder, node):
                return ""
            try:
                engine = host.info()
            except UncertainError as error:
                raise RefusedError(str(error), code="node-lost", hint=error.hint) from error
            failed = self._machine.failed(node) if self._machine is not None else ()
            order = ContainerLaunch(
                node=node,
                spec=spec,
                restore=restore,
                label=self._label,
                image=spec.image or self._image,
                capacity=self._capacity(host, engine),
                allowed=self._allowed,
                soft=self._soft,
                engine=engine,
                addresses=self._addresses(folder, spec.gang) if spec.gang is not None else None,
                gpus=self._gpus.assign(folder, node, spec.requests, failed),
                data=self._data,
                closed=self._system_checkpoints and spec.checkpoint_mode is CheckpointMode.SYSTEM and not os.geteuid(),
            )
            with self._gpus.released_unless_started(folder):
                if isinstance(keeper, ContainerKeeper):
                    try:
                        launch(host, self._state, folder, msgspec.structs.replace(order, keeper=keeper))
                    except ClusterError as error:
                        if not error.definite or error.code in _NOT_ITS_KEEPERS:
                            raise
                        keeper = str(error)
                    else:
                        return ""
                keepers.refuse_image(self._state, job, restore, keeper)
                launch(host, self._state, folder, order)
                return keeper

    def _addresses(self, folder: IncarnationFolder, gang: GangPlace) -> GangAddresses:
        """Where a gang listens. It blocks.

        Raises:
            RefusedError: ``host-network``, ``unknown-node``, ``no-address`` or ``no-free-ports``.
        """
        if not self._host_network:
            raise RefusedError(
                "replicas of a gang need their machine's network, and containers may not have it here",
                code="host-network",
                hint="run `steepest up --host-network`",
            )
        if unknown := [node for node in gang.nodes if node not in self._hosts]:
            raise RefusedError(f"there is no node {unknown[0]!r}", code="unknown-node")
        hosts = peer_hosts([self._hosts[node].node.url for node in gang.nodes])
        found = self._ports.reserve(folder.replica.job, folder.incarnation, gang.world_size)
        return GangAddresses(hosts, found.of_ranks, found.master)

    def _is_known(self, folder: IncarnationFolder, node: str) -> bool:
        """Whether the incarnation was started (it runs or has ended); False: it may be started now.

        Raises:
            RefusedError: ``stale-incarnation``, ``wrong-node`` or ``still-running``.
            UncertainError: It may have been started.
        """

        def seen(older: IncarnationFolder) -> Observation:
            return observe(self._host_of(older), older, self._label)

        if not is_made(self._state, folder, node, seen):
            return False
        return observe(self._hosts[node], folder, self._label).began

    async def stop(self, replica: ReplicaId, incarnation: int, *, grace_s: float) -> Stopped:
        """See ``Cluster.stop``. An engine that comes back within the grace gets the signal again."""
        background = await self._ready()
        folder = self._folder(replica, incarnation)
        if not await asyncio.to_thread(folder.path.exists):
            raise RefusedError(f"{folder} was never started here", code="unknown-incarnation")
        node = (await asyncio.to_thread(self._host_of, folder)).node.name
        container = await asyncio.to_thread(container_of, folder)
        seen = await self._stop_and_wait(background, folder, grace_s)
        try:
            await background.put_on_record(node, folder, container, seen)
        except (ClusterError, DockerException, requests.RequestException, OSError):
            background.watch.pulse.fire()  # it has ended all the same; the background tasks retry
        return await self._stopped(background, folder, seen)

    async def _stop_and_wait(
        self, background: DockerBackground, folder: IncarnationFolder, grace_s: float
    ) -> Observation:
        host = self._host_of(folder)
        patience = time.monotonic() + grace_s
        signalled = False
        while True:
            pulse = background.watch.pulse.next_pulse()
            late = time.monotonic() - patience
            try:
                seen = await self._observe(folder)
                if seen.ended:
                    return seen
                if not seen.began:
                    with definite(f"{folder} was not stopped"):
                        await host.run(lambda: self._cancel_start(host, folder))
                    continue
                if late >= 0 or not signalled:
                    number = "SIGKILL" if late >= 0 else "SIGTERM"
                    signalled = await host.run(lambda n=number: self._signal(host, folder, n))  # type: ignore[misc]
            except UncertainError:
                if late >= _KILL_S:
                    raise
            if late >= _KILL_S:
                raise UncertainError(f"{folder} still runs {_KILL_S:g} s after its grace", code="stop-timeout")
            await wait(pulse, _RETRY_S if late >= 0 else min(_RETRY_S, -late))

    def _signal(self, host: Host, folder: IncarnationFolder, number: str) -> bool:
        """Signal the container's first process; False if it does not run. It blocks."""
        name = name_of(self._label, folder)
        with (
            host.looking()
        ):  # not ``acting``: the caller observes the container again, so an uncertain result is enough
            client = host.client()
            try:
                found = ours(client, name, self._label)
                if found["State"]["Paused"]:
                    client.unpause(found["Id"])
                client.kill(found["Id"], number)
            except NotFound:
                return False
            except APIError as error:
                if status_of(error) != _CONFLICT:  # a conflict: it does not run (any more)
                    raise
                return False
            return True

    def _cancel_start(self, host: Host, folder: IncarnationFolder) -> None:
        """Record the end of an interrupted start, so that a later ``start`` never completes it."""
        with incarnation_locks.held(self._state.locks / folder.replica.job):
            if not observe(host, folder, self._label).began:
                remove(host, name_of(self._label, folder), self._label)
                declare_gone(folder, "it was stopped before it began")

    async def limit(
        self,
        replica: ReplicaId,
        incarnation: int,
        cpu_limit_m: int | None,
        *,
        memory_limit_mib: int | UnsetType | None = UNSET,
    ) -> None:
        """See ``Cluster.limit``. The engine keeps the caps across its own restarts."""
        await self._ready()
        folder = self._folder(replica, incarnation)
        await self._refuse_unless_running(folder)
        host = self._host_of(folder)
        await uncancelled(host.run(lambda: self._limit(host, folder, cpu_limit_m, memory_limit_mib)))

    def _limit(
        self, host: Host, folder: IncarnationFolder, cpu_limit_m: int | None, memory_limit_mib: int | UnsetType | None
    ) -> None:
        name = name_of(self._label, folder)
        capacity = self._capacity(host, host.info())
        try:
            with host.acting(f"the limit of {folder} is as it was"):
                client = host.client()
                found = ours(client, name, self._label)
                settings = updates(cpu_limit_m, memory_limit_mib, found["HostConfig"], capacity, soft=self._soft)
                client.update_container(found["Id"], **settings)
        except NotFound as error:
            raise RefusedError(f"{folder} does not run", code="not-running") from error
        except ClusterError as error:
            cause = error.__cause__
            if isinstance(cause, APIError) and status_of(cause) < SERVER_FAILED:
                raise RefusedError(str(error), code="limit-refused") from cause
            raise

    def metrics_folder(self, job: str, asked: str) -> MetricsPlace:
        """See ``Cluster.metrics_folder``: in the job's checkpoints, or in a folder that containers may use."""
        if Path(asked).is_absolute() and (own := metrics_in_checkpoints(asked, self._state.checkpoints(job))):
            return own
        found = self._allowed.find(asked)
        if found is None or found.path.is_relative_to(self._allowed.hidden.resolve()):
            raise RefusedError(
                f"losses may not be read from {asked}: containers may not use it",
                code="no-such-program",
                hint=f"allow it: steepest up --folder {asked}",
            )
        return MetricsPlace(found.path, found.folder)

    def _forget(self, job: str) -> None:
        with definite(f"{job} is not forgotten"), incarnation_locks.held(self._state.locks / job):
            known = [folder for replica in self._state.replicas(job) for folder in self._state.incarnations(replica)]
            for folder in known:
                seen = observe(self._host_of(folder), folder, self._label)
                if seen.began and not seen.ended:
                    raise RefusedError(f"{folder} is {seen.phase}", code="still-running", hint="stop it first")
            for folder in known:
                remove(self._host_of(folder), name_of(self._label, folder), self._label)
            self._state.retire(job)

    def _capacity(self, host: Host, engine: EngineInfo) -> Resources:
        """The most that one container may have: the node's capacity, or the machine's for a resource it does not name."""
        node = self._capacities[host.node.name]
        return Resources(cpu_m=node.cpu_m, memory_mib=node.memory_mib or engine.capacity.memory_mib)

    async def _open(self) -> DockerBackground:
        await asyncio.to_thread(self._state.make)
        roster: Roster[DockerTracked] = Roster(self._state, DockerTracked)
        background = DockerBackground(
            self._settings,
            roster,
            self._hosts,
            self._label,
            gpus=self._machine,
            counts_reads=self._data is not None,
            has_keepers=self._system_checkpoints,
            image=self._image,
        )
        if self._machine is not None:
            await asyncio.to_thread(self._machine.recall)
        for tracked in await asyncio.to_thread(roster.load):
            background.watch_incarnation(tracked.folder)
        await background.open()
        return background

    async def _observe(self, folder: IncarnationFolder) -> Observation:
        host = await asyncio.to_thread(self._host_of, folder)
        return await host.run(lambda: observe(host, folder, self._label))

    def _host_of(self, folder: IncarnationFolder) -> Host:
        """The engine of an incarnation whose folder exists. It blocks.

        Raises:
            UncertainError: Its node is not in this cluster, or its record cannot be read.
        """
        spec = folder.planned()
        if spec is None or spec.node not in self._hosts:
            raise UncertainError(
                f"{folder} was started on {spec.node if spec else 'an unknown node'}, which is not in this cluster",
                code="unknown-node",
                hint="name all nodes that something may still run on",
            )
        return self._hosts[spec.node]
