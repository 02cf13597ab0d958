"""The local cluster: the port's calls, each made of checks, one act, and a wait for its proof.

It owns the order within a call and what a failure of it means. It must never know how processes are supervised or
throttled. The state folder is the truth: every call reads it anew, so an adapter that was asleep acts on nothing stale.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from steepest.cluster import conversation, locks
from steepest.cluster.acts import definite, uncancelled
from steepest.cluster.asking import Asking, withdraw
from steepest.cluster.checkpoints import Volume
from steepest.cluster.conversation import ReportsTail
from steepest.cluster.folder import IncarnationFolder, LimitRecord, SpecRecord, StateFolder, read_json, write_json
from steepest.cluster.local.duty import tell
from steepest.cluster.local.engine import Engine
from steepest.cluster.local.groups import Groups, cap, find_groups
from steepest.cluster.local.launch import Launch, is_known, launch
from steepest.cluster.local.phases import Observation, boot_id, declare_gone, observe
from steepest.cluster.local.roster import Roster
from steepest.cluster.local.supervisor import FULL_SHARE
from steepest.cluster.port import ReplicaFiles, ReplicaId, ReplicaSpec, ReplicaStatus, Stopped
from steepest.cluster.watch import wait
from steepest.errors import ClusterError, InputError, RefusedError, UncertainError
from steepest.events.common import CheckpointRef, Name, Resources
from steepest.events.heartbeat import NodeHeartbeat

_KILL_S = 10.0  # SIGKILL takes longer only for a process that waits for a disk
_STEP_POLL_S = 0.05  # reports are appended without an event that would be worth its price


class LocalNode(msgspec.Struct, frozen=True):
    """An emulated node."""

    name: Name
    capacity: Resources


class LocalCluster:
    """Emulated nodes that run real processes on this machine. It acts when first called, within a running loop.

    Args:
        state_dir: Everything is kept here; a new adapter on the same folder adopts what runs.
        nodes: All nodes of the pool.
        pool: The pool's name, for the heartbeats.
        heartbeat_s: The heartbeats' period in seconds.
        clock: The wall clock, in integer milliseconds.
        cpu: How caps are enforced: by control groups, by stopping and continuing, or by whichever works here.
        events: False polls instead of using the file system's events.

    Raises:
        InputError: The nodes are no set of names.
    """

    def __init__(
        self,
        state_dir: Path,
        nodes: Sequence[LocalNode],
        pool: str,
        *,
        heartbeat_s: float = 1.0,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        cpu: Literal["auto", "cgroup", "duty-cycle"] = "auto",
        events: bool = True,
    ) -> None:
        self._state = StateFolder(state_dir)
        self._capacities = {_checked(node.name): node.capacity for node in nodes}
        if len(self._capacities) < len(nodes):
            raise InputError("two nodes have the same name", code="bad-name")
        self._pool = _checked(pool)
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self._cpu = cpu
        self._events = events
        self._boot = boot_id()
        self._opening = asyncio.Lock()
        self._engine: Engine | None = None
        self._closed = False
        self._starting: dict[str, asyncio.Lock] = {}

    async def start(
        self,
        replica: ReplicaId,
        incarnation: int,
        node: str,
        spec: ReplicaSpec,
        restore: CheckpointRef | None,
    ) -> None:
        """See ``Cluster.start``. The checkpoint is verified before anything else happens."""
        engine = await self._ready()
        if node not in self._capacities:
            raise RefusedError(f"there is no node {node!r}", code="unknown-node")
        folder = self._folder(replica, incarnation)
        async with self._starting.setdefault(replica.job, asyncio.Lock()):
            await uncancelled(self._start(engine, folder, node, spec, restore))

    async def _start(
        self, engine: Engine, folder: IncarnationFolder, node: str, spec: ReplicaSpec, restore: CheckpointRef | None
    ) -> None:
        share = FULL_SHARE
        if engine.groups is None:
            share = engine.duty.first(node, spec.cpu_limit_m, engine.roster.running())
        order = Launch(node=node, spec=spec, restore=restore, boot=self._boot, share=share)
        try:
            await asyncio.to_thread(self._start_locked, folder, order, engine.groups)
        finally:
            engine.track(folder)  # also after a failure: it may run

    def _start_locked(self, folder: IncarnationFolder, order: Launch, groups: Groups | None) -> None:
        job = folder.replica.job
        with definite(f"{folder} did not start"), locks.held(self._state.locks / job):
            if is_known(self._state, folder, order.node, self._boot):
                return
            self._check(job, order.restore)
            if groups is not None:
                name = f"{job}.{folder.replica.index}.{folder.incarnation}"
                capacity_m = self._capacities[order.node].cpu_m
                group = groups.make(order.node, name, order.spec.cpu_limit_m, capacity_m)
                order = msgspec.structs.replace(order, cgroup=group)
            launch(self._state, folder, order)

    def _check(self, job: str, restore: CheckpointRef | None) -> None:
        if restore is None:
            return
        try:
            found = Volume(self._state.checkpoints(job), job).verify(restore.name)
        except InputError as error:
            raise RefusedError(str(error), code="checkpoint-refused") from error
        if found != restore:
            raise RefusedError(f"the checkpoint {restore.name} is another one by now", code="checkpoint-refused")

    async def checkpoint(
        self, replica: ReplicaId, incarnation: int, *, request: str, hold_s: float, timeout_s: float
    ) -> CheckpointRef:
        """See ``Cluster.checkpoint``. Whatever goes wrong after the request was written, it is withdrawn."""
        engine = await self._ready()
        folder = self._folder(replica, incarnation)
        await self._refuse_unless_running(folder)
        asking = Asking(engine.watch, Volume(self._state.checkpoints(replica.job), replica.job), folder, self._boot)
        return await asking.checkpoint(request, hold_s=hold_s, timeout_s=timeout_s)

    async def release(self, replica: ReplicaId, incarnation: int, *, request: str) -> None:
        """See ``Cluster.release``."""
        await self._ready()
        folder = self._folder(replica, incarnation)
        if await asyncio.to_thread(folder.path.exists):
            await withdraw(folder, request)

    async def stop(self, replica: ReplicaId, incarnation: int, *, grace_s: float) -> Stopped:
        """See ``Cluster.stop``."""
        engine = await self._ready()
        folder = self._folder(replica, incarnation)
        if not await asyncio.to_thread(folder.path.exists):
            raise RefusedError(f"{folder} was never started here", code="unknown-incarnation")
        seen = await self._end(engine, folder, grace_s)
        await engine.look()
        step = await asyncio.to_thread(ReportsTail(folder.reports).read)
        return Stopped(exit_status=seen.exit_status, step=step, checkpoint=await engine.checkpoint(replica.job))

    async def _end(self, engine: Engine, folder: IncarnationFolder, grace_s: float) -> Observation:
        deadline = time.monotonic() + grace_s + _KILL_S
        told = False
        while True:
            beat = engine.watch.pulse.beat()
            seen = await self._observe(folder)
            if seen.ended:
                return seen
            if not seen.began:
                with definite(f"{folder} was not stopped"):
                    await asyncio.to_thread(self._cancel_start, folder)
                continue
            told = told or await asyncio.to_thread(tell, folder.orders, f"stop {grace_s:.3f}")
            if time.monotonic() >= deadline:
                raise UncertainError(f"{folder} still runs {_KILL_S:g} s after its grace", code="stop-timeout")
            await wait(beat, engine.watch.poll_s if told else _STEP_POLL_S)

    def _cancel_start(self, folder: IncarnationFolder) -> None:
        """An interrupted start must never be completed once it was stopped."""
        with locks.held(self._state.locks / folder.replica.job):
            if not observe(folder, self._boot).began:
                declare_gone(folder, "it was stopped before it began")

    async def limit(self, replica: ReplicaId, incarnation: int, cpu_limit_m: int | None) -> None:
        """See ``Cluster.limit``. The cap outlives the adapter."""
        engine = await self._ready()
        folder = self._folder(replica, incarnation)
        await self._refuse_unless_running(folder)
        engine.track(folder)
        await engine.look()
        tracked = engine.roster.get(replica)
        if tracked is None or tracked.folder.incarnation != incarnation:
            raise RefusedError(f"{folder} does not run", code="not-running")
        with definite(f"the limit of {folder} is as it was"):
            await asyncio.to_thread(write_json, folder.limit, LimitRecord(cpu_limit_m=cpu_limit_m))
            tracked.limit_m = cpu_limit_m
            if tracked.cgroup is not None and tracked.node in self._capacities:
                await asyncio.to_thread(cap, tracked.cgroup, cpu_limit_m, self._capacities[tracked.node].cpu_m)
        await engine.divide(measured=False)

    async def lookup(self, replica: ReplicaId) -> ReplicaStatus | None:
        """See ``Cluster.lookup``. An interrupted start is ``STARTING``: starting it again completes it."""
        engine = await self._ready()
        known = await asyncio.to_thread(self._state.incarnations, replica)
        if not known:
            return None
        folder = known[-1]
        spec = await asyncio.to_thread(read_json, folder.spec, SpecRecord)
        if spec is None:
            raise UncertainError(f"{folder.spec} cannot be read", code="damaged-state", mend="restore or remove it")
        engine.track(folder)
        seen = await self._observe(folder)
        said = await asyncio.to_thread(conversation.hello, folder)
        return ReplicaStatus(
            replica=replica,
            incarnation=folder.incarnation,
            node=spec.node,
            phase=seen.phase,
            exit_status=seen.exit_status,
            step=await asyncio.to_thread(ReportsTail(folder.reports).read),
            restored_step=said.restored_step if said else None,
            checkpoint=await engine.checkpoint(replica.job),
        )

    async def wait_for_step(self, replica: ReplicaId, incarnation: int, *, at_least: int, timeout_s: float) -> int:
        """See ``Cluster.wait_for_step``."""
        engine = await self._ready()
        folder = self._folder(replica, incarnation)
        if not await asyncio.to_thread(folder.path.exists):
            raise RefusedError(f"{folder} was never started here", code="not-running")
        tail = ReportsTail(folder.reports)
        deadline = time.monotonic() + timeout_s
        while True:
            beat = engine.watch.pulse.beat()
            seen = await self._observe(folder)
            step = await asyncio.to_thread(tail.read)
            if step is not None and step >= at_least:
                return step
            if seen.ended:
                return await self._last_step(folder, seen, step)
            if time.monotonic() >= deadline:
                raise RefusedError(f"{folder} did not reach step {at_least} in {timeout_s:g} s", code="step-timeout")
            await wait(beat, min(_STEP_POLL_S, deadline - time.monotonic()))

    async def _last_step(self, folder: IncarnationFolder, seen: Observation, step: int | None) -> int:
        if seen.exit_status != 0:
            raise RefusedError(f"{folder} ended with status {seen.exit_status} at step {step}", code="ended")
        said = await asyncio.to_thread(conversation.hello, folder)
        return step if step is not None else (said.restored_step or 0 if said else 0)

    async def heartbeats(self) -> AsyncIterator[NodeHeartbeat]:
        """See ``Cluster.heartbeats``: beginning with one of each node, and at once when a job says how it can be saved."""
        engine = await self._ready()
        async for beat in engine.heartbeats():
            yield beat

    def files(self, node: str) -> Sequence[ReplicaFiles]:
        """See ``Cluster.files``."""
        return [
            ReplicaFiles(
                replica=folder.replica, incarnation=folder.incarnation, output=folder.output, reports=folder.reports
            )
            for folder in self._state.all()
            if (spec := read_json(folder.spec, SpecRecord)) is not None and spec.node == node
        ]

    async def forget(self, job: str) -> None:
        """See ``Cluster.forget``. Output and checkpoints move to ``ended/<job>.<n>/``.

        Raises:
            RefusedError: ``still-running``.
        """
        engine = await self._ready()
        self._state.job(job)
        async with self._starting.setdefault(job, asyncio.Lock()):
            await uncancelled(asyncio.to_thread(self._forget, job))
            engine.drop(job)
        del self._starting[job]

    def _forget(self, job: str) -> None:
        with definite(f"{job} is not forgotten"), locks.held(self._state.locks / job):
            for replica in self._state.replicas(job):
                for folder in self._state.incarnations(replica):
                    seen = observe(folder, self._boot)
                    if seen.began and not seen.ended:
                        raise RefusedError(f"{folder} is {seen.phase}", code="still-running", mend="stop it first")
            self._state.retire(job)

    async def close(self) -> None:
        """See ``Cluster.close``."""
        self._closed = True
        async with self._opening:
            if self._engine is not None:
                await self._engine.close()
                self._engine = None

    async def _ready(self) -> Engine:
        async with self._opening:
            if self._closed:
                raise ClusterError("the cluster was closed", code="closed")
            if self._engine is None:
                self._engine = await self._open()
            return self._engine

    async def _open(self) -> Engine:
        await asyncio.to_thread(self._state.make)
        groups = await asyncio.to_thread(self._open_groups)
        roster = Roster(self._state, self._boot)
        engine = Engine(
            state=self._state,
            roster=roster,
            capacities=self._capacities,
            pool=self._pool,
            heartbeat_s=self._heartbeat_s,
            clock=self._clock,
            groups=groups,
            events=self._events,
        )
        for tracked in await asyncio.to_thread(roster.load):
            engine.watch_over(tracked.folder)
        await engine.look()
        engine.start()
        return engine

    def _open_groups(self) -> Groups | None:
        if self._cpu == "duty-cycle":
            return None
        groups = find_groups(self._state.path)
        if groups is not None:
            groups.open({name: capacity.cpu_m for name, capacity in self._capacities.items()})
        elif self._cpu == "cgroup":
            raise ClusterError("CPU control groups cannot be used here", code="no-cgroup", mend='use cpu="duty-cycle"')
        return groups

    def _folder(self, replica: ReplicaId, incarnation: int) -> IncarnationFolder:
        return self._state.incarnation(replica, incarnation)

    async def _observe(self, folder: IncarnationFolder) -> Observation:
        return await asyncio.to_thread(observe, folder, self._boot)

    async def _refuse_unless_running(self, folder: IncarnationFolder) -> None:
        if not await asyncio.to_thread(folder.path.exists):
            raise RefusedError(f"{folder} was never started here", code="not-running")
        seen = await self._observe(folder)
        if seen.ended or not seen.began:
            raise RefusedError(f"{folder} is {seen.phase}", code="not-running")


def _checked(name: str) -> str:
    try:
        return msgspec.convert(name, Name)
    except msgspec.ValidationError as error:
        raise InputError(f"{name!r} is no name of a node or pool: {error}", code="bad-name") from error
