"""The local cluster: each call of the port is a series of checks, one action, and a wait for its proof.

It owns the order within a call and what a failure of it means. It must never know how processes are supervised or
throttled. The state folder is the truth: every call reads it again, so an adapter that was suspended never acts on stale
state.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from steepest.aio import uncancelled
from steepest.cluster import keepers
from steepest.cluster.data_source import DataSource
from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.acts import definite
from steepest.cluster.folders.adapter_folder import IncarnationFolder, LimitRecord, spec_record
from steepest.cluster.folders.ended_jobs import GIB, Retention
from steepest.cluster.folders.folder_cluster import STEP_POLL_S, FolderCluster
from steepest.cluster.folders.folder_watch import wait
from steepest.cluster.folders.gang_ports import PortTable
from steepest.cluster.folders.gpu_table import GpuTable
from steepest.cluster.gang_variables import GangAddresses
from steepest.cluster.keepers import KeeperPlace
from steepest.cluster.local.duty_cycles import send_order
from steepest.cluster.local.groups import Groups, cap, find_groups, keeper_group
from steepest.cluster.local.launch import ProcessLaunch, is_known, launch
from steepest.cluster.local.links import NodeLinks
from steepest.cluster.local.local_background import LocalBackground
from steepest.cluster.local.phases import observe
from steepest.cluster.local.process_roster import LocalRoster
from steepest.cluster.local.supervisor import FULL_SHARE
from steepest.cluster.nvml import MachineGpus, NvmlGpus, boot_id
from steepest.cluster.observation import Observation, declare_gone
from steepest.cluster.port import GangPlace, ReplicaId, ReplicaSpec, Stopped
from steepest.errors import ClusterError, InputError, RefusedError, UncertainError
from steepest.events.common import KEPT, CheckpointMode, CheckpointRef, Name, Resources

_KILL_S = 10.0  # SIGKILL takes longer only for a process that waits for a disk
_LOOPBACK = "127.0.0.1"


class LocalNode(msgspec.Struct, frozen=True):
    """An emulated node."""

    name: Name
    capacity: Resources


def numbered_gpus(nodes: Sequence[LocalNode]) -> dict[str, range]:
    """The GPUs of each node by their ids: the nodes share this machine's, so no two have the same one."""
    found: dict[str, range] = {}
    first = 0
    for node in nodes:
        found[node.name] = range(first, first + node.capacity.gpus)
        first += node.capacity.gpus
    return found


class LocalCluster(FolderCluster[LocalBackground]):
    """Emulated nodes that run real processes on this machine. It starts with the first call, within a running loop.

    Args:
        state_dir: The state folder; a new adapter on the same folder adopts the replicas that run.
        nodes: All nodes of the pool.
        pool: The pool's name, for the heartbeats.
        heartbeat_s: The heartbeats' period in seconds.
        cpu: How caps are enforced: by control groups, by SIGSTOP and SIGCONT, or (``auto``) by the first that works here.
        events: False polls instead of using the file system's events.
        retention: How much is kept of forgotten jobs.
        data: Where jobs read their data; None: there is no storage. What each incarnation reads is counted.
        link_mbit: The rate of the links that join the nodes, in Mbit/s; None: all are on this machine's loopback.
        driver: What is known of this machine's GPUs; None: nothing, they are only declared.
        keep_all: Whether a job whose user says nothing of its checkpoints has a keeper too, as if it said ``auto``.

    Raises:
        InputError: A node's name is invalid or appears twice; or there are links and a storage.
    """

    def __init__(
        self,
        state_dir: Path,
        nodes: Sequence[LocalNode],
        pool: str,
        *,
        heartbeat_s: float = 1.0,
        cpu: Literal["auto", "cgroup", "duty-cycle"] = "auto",
        events: bool = True,
        retention: Retention = Retention(),  # noqa: B008 - frozen
        data: DataSource | None = None,
        link_mbit: int | None = None,
        driver: NvmlGpus | None = None,
        keep_all: bool = False,
    ) -> None:
        named = [(node.name, node.capacity) for node in nodes]
        super().__init__(state_dir, named, pool, heartbeat_s=heartbeat_s, events=events, retention=retention)
        if data is not None and link_mbit:
            raise InputError("nodes that links join reach no storage", hint="leave out the links or the storage")
        self._cpu = cpu
        self._keep_all = keep_all
        self._data = data
        self._boot = boot_id()
        self._ports = PortTable(self._state)
        numbered = numbered_gpus(nodes)
        self._gpus = GpuTable(self._state, numbered)
        self._machine = MachineGpus(self._state, numbered, driver, self._boot) if driver is not None else None
        self._links = NodeLinks(state_dir, [*self._capacities], link_mbit) if link_mbit else None

    async def start(
        self,
        replica: ReplicaId,
        incarnation: int,
        node: str,
        spec: ReplicaSpec,
        restore: CheckpointRef | None,
    ) -> None:
        """See ``Cluster.start``. The checkpoint is verified first."""
        background = await self._ready()
        if node not in self._capacities:
            raise RefusedError(f"there is no node {node!r}", code="unknown-node")
        folder = self._folder(replica, incarnation)
        async with self._starting.setdefault(replica.job, asyncio.Lock()):
            await uncancelled(self._start(background, folder, node, spec, restore))

    async def _start(
        self,
        background: LocalBackground,
        folder: IncarnationFolder,
        node: str,
        spec: ReplicaSpec,
        restore: CheckpointRef | None,
    ) -> None:
        spec = await asyncio.to_thread(self._asked, folder, spec, restore)
        share = FULL_SHARE
        if background.groups is None:
            share = background.duty.first(node, spec.cpu_limit_m, background.roster.running())
        order = ProcessLaunch(node=node, spec=spec, restore=restore, boot=self._boot, share=share, data=self._data)
        try:
            if restore is None or not await asyncio.to_thread(self._is_known_locked, folder, node):
                unable = await asyncio.to_thread(self._why_not_kept, folder, spec, restore, background.groups)
                kept = spec.checkpoint_mode in KEPT and not unable
                # A keeper verifies its image itself, and knows an older one where the newest is damaged.
                await self._check(background, folder, spec, None if kept else restore)
                await asyncio.to_thread(self._start_locked, folder, order, background.groups, kept=kept)
                await asyncio.to_thread(keepers.declare_none, folder, spec, unable)
        finally:
            if await asyncio.to_thread(folder.path.exists):
                background.track(folder, spec_record(node, spec))  # even after a failure: it may run

    def _asked(self, folder: IncarnationFolder, spec: ReplicaSpec, restore: CheckpointRef | None) -> ReplicaSpec:
        """What a job is to have whose user has not said how it is saved: a keeper, where that takes nothing from it."""
        if spec.checkpoint_mode is not None:
            return spec
        has_image = restore is not None and keepers.is_image(self._state, folder.replica.job, restore)
        # Nodes share this machine's loopback, but a gang that begins on several is as on machines.
        apart = spec.gang is not None and (self._links is not None or len(dict.fromkeys(spec.gang.nodes)) > 1)
        loses = apart or spec.tty or spec.requests.gpus or spec.requests.gpu_m
        if has_image or (self._keep_all and not loses):
            return msgspec.structs.replace(spec, checkpoint_mode=CheckpointMode.AUTO)
        return spec

    def _why_not_kept(
        self, folder: IncarnationFolder, spec: ReplicaSpec, restore: CheckpointRef | None, groups: Groups | None
    ) -> str:
        """Why a job has no keeper although its user wants one; empty: it has one, or needs none.

        Raises:
            RefusedError: ``checkpoint-refused``: it starts from an image, and only a keeper can restore one.
        """
        if spec.checkpoint_mode not in KEPT:
            return ""
        if unable := self._unable(groups):
            keepers.refuse_image(self._state, folder.replica.job, restore, unable)
        return unable

    def _unable(self, groups: Groups | None) -> str:
        """Why no job here can have a keeper; empty: they can."""
        if self._data is not None:
            return "jobs read their data through relays of their own"
        found = keepers.find_programs()
        return found if isinstance(found, str) else keepers.why_unable(found, has_groups=groups is not None)

    def _is_known_locked(self, folder: IncarnationFolder, node: str) -> bool:
        with definite(f"{folder} did not start"), incarnation_locks.held(self._state.locks / folder.replica.job):
            return is_known(self._state, folder, node, self._boot)

    def _start_locked(
        self, folder: IncarnationFolder, order: ProcessLaunch, groups: Groups | None, *, kept: bool = False
    ) -> None:
        job = folder.replica.job
        with definite(f"{folder} did not start"), incarnation_locks.held(self._state.locks / job):
            if is_known(self._state, folder, order.node, self._boot):
                return
            if order.spec.gang is not None:
                order = msgspec.structs.replace(order, addresses=self._addresses(folder, order.spec.gang))
            if self._links is not None:
                order = msgspec.structs.replace(order, entering=self._links.entering(order.node))
            failed = self._machine.failed(order.node) if self._machine is not None else ()
            gpus = self._gpus.assign(folder, order.node, order.spec.requests, failed)
            order = msgspec.structs.replace(order, gpus=gpus)
            if groups is not None:
                name = f"{job}.{folder.replica.index}.{folder.incarnation}"
                capacity_m = self._capacities[order.node].cpu_m
                group = groups.make(order.node, name, order.spec.cpu_limit_m, capacity_m)
                order = msgspec.structs.replace(order, cgroup=group)
                if kept and not isinstance(programs := keepers.find_programs(), str):
                    own = groups.make(order.node, keeper_group(group).name, None, capacity_m)
                    most = self._retention.checkpoints_gib * GIB or None
                    place = KeeperPlace(programs=programs, group=own, most_bytes=most)
                    order = msgspec.structs.replace(order, keeper=place)
            with self._gpus.released_unless_started(folder):
                launch(self._state, folder, order)

    def _addresses(self, folder: IncarnationFolder, gang: GangPlace) -> GangAddresses:
        found = self._ports.reserve(folder.replica.job, folder.incarnation, gang.world_size)
        hosts = [_LOOPBACK if self._links is None else self._links.address(node) for node in gang.nodes]
        return GangAddresses(tuple(hosts), found.of_ranks, found.master)

    async def stop(self, replica: ReplicaId, incarnation: int, *, grace_s: float) -> Stopped:
        """See ``Cluster.stop``."""
        background = await self._ready()
        folder = self._folder(replica, incarnation)
        if not await asyncio.to_thread(folder.path.exists):
            raise RefusedError(f"{folder} was never started here", code="unknown-incarnation")
        seen = await self._stop_and_wait(background, folder, grace_s)
        return await self._stopped(background, folder, seen)

    async def _stop_and_wait(
        self, background: LocalBackground, folder: IncarnationFolder, grace_s: float
    ) -> Observation:
        deadline = time.monotonic() + grace_s + _KILL_S
        sent = False
        while True:
            pulse = background.watch.pulse.next_pulse()
            seen = await self._observe(folder)
            if seen.ended:
                return seen
            if not seen.began:
                with definite(f"{folder} was not stopped"):
                    await asyncio.to_thread(self._cancel_start, folder)
                continue
            sent = sent or await asyncio.to_thread(send_order, folder.orders, f"stop {grace_s:.3f}")
            if time.monotonic() >= deadline:
                raise UncertainError(f"{folder} still runs {_KILL_S:g} s after its grace", code="stop-timeout")
            await wait(pulse, background.watch.poll_s if sent else STEP_POLL_S)

    def _cancel_start(self, folder: IncarnationFolder) -> None:
        """Record the end of an interrupted start, so that a later ``start`` never completes it."""
        with incarnation_locks.held(self._state.locks / folder.replica.job):
            if not observe(folder, self._boot).began:
                declare_gone(folder, "it was stopped before it began")

    async def limit(
        self,
        replica: ReplicaId,
        incarnation: int,
        cpu_limit_m: int | None,
        *,
        memory_limit_mib: int | UnsetType | None = UNSET,
    ) -> None:
        """See ``Cluster.limit``. The cap outlives the adapter."""
        background = await self._ready()
        folder = self._folder(replica, incarnation)
        await self._refuse_unless_running(folder)
        if isinstance(memory_limit_mib, int):
            raise RefusedError("emulated nodes cannot cap memory", code="limit-unsupported")
        background.track(folder)
        await background.look()
        tracked = background.roster.get(replica)
        if tracked is None or tracked.folder.incarnation != incarnation:
            raise RefusedError(f"{folder} does not run", code="not-running")
        with definite(f"the limit of {folder} is as it was"):
            await asyncio.to_thread(folder.write, folder.limit, LimitRecord(cpu_limit_m=cpu_limit_m))
            tracked.limit_m = cpu_limit_m
            if tracked.cgroup is not None and tracked.node in self._capacities:
                await asyncio.to_thread(cap, tracked.cgroup, cpu_limit_m, self._capacities[tracked.node].cpu_m)
        await background.changed(measured=False)

    def _forget(self, job: str) -> None:
        with definite(f"{job} is not forgotten"), incarnation_locks.held(self._state.locks / job):
            for replica in self._state.replicas(job):
                for folder in self._state.incarnations(replica):
                    seen = observe(folder, self._boot)
                    if seen.began and not seen.ended:
                        raise RefusedError(f"{folder} is {seen.phase}", code="still-running", hint="stop it first")
            self._state.retire(job)

    async def _open(self) -> LocalBackground:
        await asyncio.to_thread(self._state.make)
        if self._links is not None:
            await asyncio.to_thread(self._links.make)
        groups = await asyncio.to_thread(self._open_groups)
        roster = LocalRoster(self._state, self._boot)
        keeper = await asyncio.to_thread(keepers.facts, self._unable(groups)) if self._keep_all else None
        background = LocalBackground(
            self._settings,
            roster,
            groups,
            self._links,
            gpus=self._machine,
            keeper=keeper,
        )
        if self._machine is not None:
            await asyncio.to_thread(self._machine.recall)
        for tracked in await asyncio.to_thread(roster.load):
            background.watch_incarnation(tracked.folder)
        await background.look()
        background.start()
        return background

    def _open_groups(self) -> Groups | None:
        if self._cpu == "duty-cycle":
            return None
        groups = find_groups(self._state.path)
        if groups is not None:
            groups.open({name: capacity.cpu_m for name, capacity in self._capacities.items()})
        elif self._cpu == "cgroup":
            raise ClusterError("CPU control groups cannot be used here", code="no-cgroup", hint='use cpu="duty-cycle"')
        return groups

    async def _observe(self, folder: IncarnationFolder) -> Observation:
        return await asyncio.to_thread(observe, folder, self._boot)
