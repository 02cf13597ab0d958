"""The base of adapters with a state folder: the calls of the port that only need to observe a replica.

It owns the order of steps within these calls and what their failures mean. It must never know whether a process or a
container runs a replica. The state folder is the truth: every call reads it again, so an adapter that was suspended never
acts on stale state.
"""

from __future__ import annotations

import abc
import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from steepest.aio import uncancelled
from steepest.cluster.folders import control_protocol
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.folders.background import AdapterSettings, Background
from steepest.cluster.folders.checkpoint_request import CheckpointRequester, observed, withdraw
from steepest.cluster.folders.control_protocol import ReportsTail
from steepest.cluster.folders.ended_jobs import GIB, Retention, bytes_of, sweep
from steepest.cluster.folders.folder_watch import wait
from steepest.cluster.observation import Observation
from steepest.cluster.port import MetricsPlace, NodeTerms, ReplicaFiles, ReplicaId, ReplicaSpec, ReplicaStatus, Stopped
from steepest.errors import ClusterError, InputError, RefusedError, UncertainError
from steepest.events.common import CheckpointRef, Name, Resources
from steepest.events.heartbeat import NodeHeartbeat
from steepest.logger import Logger

logger = Logger()

_B = TypeVar("_B", bound=Background[Any])
STEP_POLL_S = 0.05
"""Reports are polled: a file-system event for every appended line would cost more than it saves."""

SWEEP_EVERY_S = 3_600.0
"""Time between two retention sweeps."""

VERIFY_S = 60.0
"""How long a stop waits for a checkpoint's verification: enough for tens of gigabytes. A job may write an endless one."""

LOOK_S = 5.0
"""How long ``lookup`` waits for a checkpoint's verification."""


class FolderCluster(abc.ABC, Generic[_B]):
    """An adapter that keeps its state in a folder. It starts with the first call, within a running loop.

    Args:
        state_dir: The state folder; a new adapter on the same folder adopts the replicas that run.
        capacities: All nodes of the pool.
        pool: The pool's name, for the heartbeats.
        heartbeat_s: The heartbeats' period in seconds.
        events: False polls instead of using the file system's events.
        retention: How much is kept of forgotten jobs.

    Raises:
        InputError: The name of a node or of the pool is invalid.
    """

    def __init__(
        self,
        state_dir: Path,
        capacities: Sequence[tuple[str, Resources]],
        pool: str,
        *,
        heartbeat_s: float,
        events: bool,
        retention: Retention,
    ) -> None:
        self._state = AdapterFolder(state_dir)
        self._capacities: Mapping[str, Resources] = {_checked(name): capacity for name, capacity in capacities}
        if len(self._capacities) < len(capacities):
            raise InputError("two nodes have the same name", code="bad-name")
        self._settings = AdapterSettings(
            state=self._state,
            capacities=self._capacities,
            pool=_checked(pool),
            heartbeat_s=heartbeat_s,
            events=events,
        )
        self._retention = retention
        self._sweep: asyncio.Task[None] | None = None
        self._swept_s: float | None = None
        self._opening = asyncio.Lock()
        self._background: _B | None = None
        self._closed = False
        self._starting: dict[str, asyncio.Lock] = {}

    # --- what an adapter adds -----------------------------------------------------------------------------------------

    @abc.abstractmethod
    async def _open(self) -> _B:
        """Load the state folder, observe its replicas, and start the background tasks."""

    @abc.abstractmethod
    async def _observe(self, folder: IncarnationFolder) -> Observation:
        """The proven state of an incarnation whose folder exists.

        Raises:
            UncertainError: Its node does not answer.
        """

    @abc.abstractmethod
    def _forget(self, job: str) -> None:
        """Remove a job's records; refuse while any of its replicas may run. It blocks."""

    # --- the port -----------------------------------------------------------------------------------------------------

    async def checkpoint(
        self, replica: ReplicaId, incarnation: int, *, request: str, hold_s: float, timeout_s: float
    ) -> CheckpointRef:
        """See ``Cluster.checkpoint``. After any failure once the request was written, it is withdrawn."""
        background = await self._ready()
        folder = self._folder(replica, incarnation)
        await self._refuse_unless_running(folder)
        volume = background.volume(replica.job)
        asking = CheckpointRequester(background.watch, volume, background.slicer, folder, self._observe)
        return await asking.checkpoint(request, hold_s=hold_s, timeout_s=timeout_s)

    async def release(self, replica: ReplicaId, incarnation: int, *, request: str) -> None:
        """See ``Cluster.release``."""
        await self._ready()
        folder = self._folder(replica, incarnation)
        if await asyncio.to_thread(folder.path.exists):
            await withdraw(folder, request)

    async def keep(self, replica: ReplicaId, incarnation: int, checkpoint: str) -> None:
        """See ``Cluster.keep``."""
        await self._ready()
        folder = self._folder(replica, incarnation)
        if await asyncio.to_thread(folder.path.exists):
            await asyncio.to_thread(folder.write, folder.keep, {"checkpoint": checkpoint})

    async def lookup(self, replica: ReplicaId, *, verify: bool = True) -> ReplicaStatus | None:
        """See ``Cluster.lookup``. An interrupted start is ``STARTING``; calling ``start`` again completes it."""
        background = await self._ready()
        known = await asyncio.to_thread(self._state.incarnations, replica)
        if not known:
            return None
        folder = known[-1]
        spec = await asyncio.to_thread(folder.planned)
        tracked = background.roster.get(replica)
        if tracked is not None and tracked.folder.incarnation == folder.incarnation:
            spec = tracked.spec
        if spec is None:
            raise UncertainError(f"{folder.spec} cannot be read", code="damaged-state", hint="restore or remove it")
        background.track(folder)
        seen = await self._observe(folder)
        greeting = await asyncio.to_thread(control_protocol.hello, folder)
        return ReplicaStatus(
            replica=replica,
            incarnation=folder.incarnation,
            node=spec.node,
            phase=seen.phase,
            exit_status=seen.exit_status,
            reason=seen.reason,
            step=await asyncio.to_thread(ReportsTail(folder).read),
            restored_step=greeting.restored_step if greeting else None,
            checkpoint=await background.checkpoint(replica.job, within_s=LOOK_S) if verify else None,
        )

    async def wait_for_step(self, replica: ReplicaId, incarnation: int, *, at_least: int, timeout_s: float) -> int:
        """See ``Cluster.wait_for_step``."""
        background = await self._ready()
        folder = self._folder(replica, incarnation)
        if not await asyncio.to_thread(folder.path.exists):
            raise RefusedError(f"{folder} was never started here", code="not-running")
        tail = ReportsTail(folder)
        deadline = time.monotonic() + timeout_s
        while True:
            pulse = background.watch.pulse.next_pulse()
            seen = await observed(self._observe, folder)
            look_again = time.monotonic() + background.watch.poll_s
            while True:
                # Read after observing the process: what it reported just before its end counts.
                step = await asyncio.to_thread(tail.read)
                if step is not None and step >= at_least:
                    return step
                if step is None and (restored := await asyncio.to_thread(_restored_by_keeper, folder)) is not None:
                    return restored
                if seen is not None and seen.ended:
                    return await self._last_step(folder, seen, step)
                now = time.monotonic()
                if now >= deadline:
                    raise RefusedError(
                        f"{folder} did not reach step {at_least} in {timeout_s:g} s", code="step-timeout"
                    )
                await wait(pulse, min(STEP_POLL_S, deadline - now))
                if pulse.is_set() or now >= look_again:
                    break

    async def _last_step(self, folder: IncarnationFolder, seen: Observation, step: int | None) -> int:
        if seen.exit_status != 0:
            raise RefusedError(f"{folder} ended with status {seen.exit_status} at step {step}", code="ended")
        greeting = await asyncio.to_thread(control_protocol.hello, folder)
        return step if step is not None else (greeting.restored_step or 0 if greeting else 0)

    async def heartbeats(self) -> AsyncIterator[NodeHeartbeat]:
        """See ``Cluster.heartbeats``. Starts with one of each node; also sends one when a job announces itself."""
        background = await self._ready()
        async for each in background.heartbeats():
            yield each

    def node_terms(self, node: str) -> NodeTerms | None:
        """See ``Cluster.node_terms``."""
        del node
        return None

    def silence_s(self) -> float:
        """See ``Cluster.silence_s``."""
        return self._background.silence_s() if self._background is not None else 0.0

    def files(self, node: str | None = None, *, job: str | None = None) -> Sequence[ReplicaFiles]:
        """See ``Cluster.files``."""
        if not self._state.jobs.is_dir():
            return []
        known = self._state.all() if job is None else self._state.of_job(job)
        return [
            ReplicaFiles(
                replica=folder.replica,
                incarnation=folder.incarnation,
                output=folder.output,
                reports=folder.reports,
                below=folder.below,
            )
            for folder in known
            if (spec := folder.planned()) is not None and (node is None or spec.node == node)
        ]

    def metrics_folder(self, job: str, asked: str) -> MetricsPlace:
        """See ``Cluster.metrics_folder``: any. A process here has this user's rights, and so has who submits it."""
        del job
        return MetricsPlace(Path(asked), Path(asked))

    async def forget(self, job: str) -> None:
        """See ``Cluster.forget``. Output and checkpoints move to ``ended/<job>.<n>/``; the oldest are removed.

        Raises:
            RefusedError: ``still-running``.
        """
        background = await self._ready()
        self._state.job(job)
        async with self._starting.setdefault(job, asyncio.Lock()):
            await uncancelled(asyncio.to_thread(self._forget, job))
            background.drop(job)
        del self._starting[job]
        if self._swept_s is None or time.monotonic() - self._swept_s >= SWEEP_EVERY_S:
            self._swept_s = time.monotonic()
            self._sweep = asyncio.create_task(self._sweep_ended())

    async def _sweep_ended(self) -> None:
        try:
            gone = await asyncio.to_thread(sweep, self._state.ended, self._retention)
        except OSError as error:
            logger.warning("retention sweep failed", folder=str(self._state.ended), why=str(error))
        else:
            if gone:
                logger.info("ended jobs removed", folder=str(self._state.ended), jobs=len(gone))

    async def close(self) -> None:
        """See ``Cluster.close``."""
        self._closed = True
        if self._sweep is not None:
            await self._sweep
        async with self._opening:
            if self._background is not None:
                await self._background.close()
                self._background = None

    # --- what calls have in common ------------------------------------------------------------------------------------

    async def _ready(self) -> _B:
        async with self._opening:
            if self._closed:
                raise ClusterError("the cluster was closed", code="closed")
            if self._background is None:
                self._background = await self._open()
            return self._background

    def _folder(self, replica: ReplicaId, incarnation: int) -> IncarnationFolder:
        return self._state.incarnation(replica, incarnation)

    async def _check(
        self, background: _B, folder: IncarnationFolder, spec: ReplicaSpec, restore: CheckpointRef | None
    ) -> None:
        """Refuse to start from a checkpoint that is invalid or has changed, and a new job that wants too much."""
        job = folder.replica.job
        if folder.incarnation == 1:  # what runs by earlier rules is not ended by a move
            await asyncio.to_thread(self._refuse_new, job, spec)
        if restore is None:
            return
        try:
            found = await background.slicer.run(background.volume(job).verifying(restore.name))
        except InputError as error:
            raise RefusedError(str(error), code="checkpoint-refused") from error
        if not found.is_same(restore):
            raise RefusedError(f"the checkpoint {restore.name} has changed", code="checkpoint-refused")

    def _refuse_new(self, job: str, spec: ReplicaSpec) -> None:
        if spec.metrics_folder:
            self.metrics_folder(job, spec.metrics_folder)
        most = self._retention.checkpoints_gib
        held = sum(bytes_of(self._state.checkpoints(each)) for each in self._neighbours(spec)) if most else 0
        if held > most * GIB:
            raise RefusedError(
                f"the checkpoints of other jobs take {held / GIB:.1f} GiB, and {most} are allowed",
                code="no-space",
                hint="cancel one of these jobs, or let them keep fewer checkpoints",
            )

    def _neighbours(self, spec: ReplicaSpec) -> Iterable[str]:
        """The jobs that share the bound on checkpoints with one that is to start."""
        del spec
        return self._state.names()

    async def _refuse_unless_running(self, folder: IncarnationFolder) -> None:
        if not await asyncio.to_thread(folder.path.exists):
            raise RefusedError(f"{folder} was never started here", code="not-running")
        seen = await self._observe(folder)
        if seen.ended or not seen.began:
            raise RefusedError(f"{folder} is {seen.phase}", code="not-running")

    async def _stopped(self, background: _B, folder: IncarnationFolder, seen: Observation) -> Stopped:
        await background.look()
        step = await asyncio.to_thread(ReportsTail(folder).read)
        checkpoint = await background.checkpoint(folder.replica.job, within_s=VERIFY_S)
        return Stopped(exit_status=seen.exit_status, step=step, checkpoint=checkpoint, reason=seen.reason)


def _restored_by_keeper(folder: IncarnationFolder) -> int | None:
    """The step at which a keeper has continued a job, which reports none itself. It may be an older one, with the reason."""
    greeting = control_protocol.hello(folder)
    return greeting.restored_step if greeting is not None and greeting.kept else None


def _checked(name: str) -> str:
    try:
        return msgspec.convert(name, Name)
    except msgspec.ValidationError as error:
        raise InputError(f"{name!r} is not a valid name of a node or pool: {error}", code="bad-name") from error
