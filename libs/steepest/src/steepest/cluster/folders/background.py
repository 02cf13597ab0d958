"""The background tasks of an adapter with a state folder: observe, measure, verify checkpoints, send heartbeats.

It owns these tasks and the state that they share with the calls of the port. It must never start or stop a replica, nor know
how a replica is observed or measured: each adapter adds that. An error that one incarnation or job causes never affects
another one: it is logged, and the round continues.

* The *look loop* observes all replicas that have not ended whenever something may have changed, at the latest after
  ``Watch.poll_s``.
* The *heartbeat loop* measures once a heartbeat period, and sends a heartbeat for each node that answers.
* The *verify loop* verifies the checkpoints of running jobs.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from typing import Generic

import msgspec

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder, SpecRecord
from steepest.cluster.folders.checkpoint_verification import Volume
from steepest.cluster.folders.folder_watch import Watch, wait
from steepest.cluster.folders.replica_roster import Roster, T, jobs_of
from steepest.cluster.heartbeat_fanout import NO_FACTS, GpuFacts, Listener, heartbeat
from steepest.cluster.nvml import MachineGpus
from steepest.cluster.time_slicer import TimeSlicer
from steepest.errors import ClusterError
from steepest.events.common import CheckpointRef, KeeperFacts, Resources
from steepest.events.heartbeat import NodeHeartbeat
from steepest.logger import Logger

_log = Logger()
VERIFIED_A_HEARTBEAT = 256
"""Jobs whose checkpoints begin to be verified in a heartbeat period; those of more jobs take several periods."""

FOLLOWING_SHARE = 0.1
"""The most of a thread's time that looking for what other processes started may take: a large folder is read less often."""

_DRIVER_S = 2.0
"""How long heartbeats wait for the GPUs' driver, which may hang when one of them fails."""

_SETTLE_S = 5.0
"""How long the report of an end waits for the last checkpoint's verification; gigabytes are hashed in that time."""


class AdapterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of an adapter that its background tasks need too.

    Attributes:
        state: The state folder.
        capacities: Node to capacity.
        pool: The pool's name, for the heartbeats.
        heartbeat_s: The heartbeats' period in seconds.
        events: False polls instead of using the file system's events.
    """

    state: AdapterFolder
    capacities: Mapping[str, Resources]
    pool: str
    heartbeat_s: float
    events: bool


class Background(abc.ABC, Generic[T]):
    """The adapter's background tasks. Create it in a running loop, after the roster was loaded.

    Args:
        gpus: What this machine's driver says of its GPUs; None: nothing.
    """

    def __init__(self, settings: AdapterSettings, roster: Roster[T], gpus: MachineGpus | None = None) -> None:
        self.roster = roster
        self._gpus = gpus
        self._gpu_look: asyncio.Task[None] | None = None
        self.watch = Watch(events=settings.events)
        self._state = settings.state
        self._capacities = settings.capacities
        self._pool = settings.pool
        self._heartbeat_s = settings.heartbeat_s
        self.slicer = TimeSlicer()
        self._volumes: dict[str, tuple[Volume, asyncio.Lock]] = {}
        self._places: dict[str, KeeperFacts] = {}  # by node, as keepers have seen them
        self._verifying: dict[str, asyncio.Task[None]] = {}
        self._verified: dict[str, None] = {}  # the jobs that run, the next to verify first
        self._follows_others_s = 0.0
        self._last_round = dict.fromkeys(("look", "heartbeat"), time.monotonic())
        self._listeners: list[Listener] = []
        self._looking = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._settling: list[asyncio.Task[None]] = []

    # --- what an adapter adds -----------------------------------------------------------------------------------------

    @abc.abstractmethod
    async def see(self) -> list[T]:
        """Observe all replicas that have not ended; return those that changed. Calls never overlap."""

    @abc.abstractmethod
    async def measure(self) -> None:
        """Update ``use`` of every running replica, and read its reports. It never overlaps with ``see``."""

    async def finish(self, ended: T) -> None:
        """Finish what must be done before the end of an incarnation is reported."""

    async def changed(self, *, measured: bool) -> None:
        """Called after replicas started or ended, or were measured."""

    def unwatch(self, tracked: T) -> None:
        """Stop watching an incarnation that has ended or is no longer the newest."""
        self.watch.remove(tracked.folder.path)
        self.watch.remove(tracked.folder.control)

    def gpu_facts(self, node: str) -> GpuFacts:
        """The newest facts of a node's GPUs."""
        return NO_FACTS if self._gpus is None else self._gpus.facts(node)

    def keeper_facts(self, node: str) -> KeeperFacts | None:
        """What an image of a node's jobs depends on; None: it is not known, or there are no keepers here."""
        del node
        return None

    def _as_keepers_see(self, node: str, said: KeeperFacts | None) -> KeeperFacts | None:
        """The same with what only a keeper that ran on the node has seen; ``said``: what the node says itself."""
        place = self._places.get(node)
        if said is None or place is None or place.kernel != said.kernel:
            return said
        return msgspec.structs.replace(said, cpu=place.cpu, criu=place.criu)

    def capacity(self, node: str) -> Resources:
        """What a node has, without the GPUs that failed."""
        return self._capacities[node] - Resources(gpus=len(self.gpu_facts(node).failed))

    def answers(self, node: str) -> bool:
        """Whether a node answers: only then is a heartbeat sent for it."""
        return node in self._capacities

    def speaks_for(self, node: str) -> bool:
        """Whether a node's heartbeats are this process's to send."""
        del node
        return True

    async def follow_others(self) -> None:
        """Another process may run an adapter on the same folder: report what it starts and forgets as well."""
        for folder in await asyncio.to_thread(self.roster.untracked):
            self.track(folder)
        await self.drop_retired()

    # --- what calls of the port use -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the tasks."""
        loops = (self._look_loop(), self._heartbeat_loop(), self._verify_loop())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop the tasks, and end every stream of heartbeats."""
        background = [*self._tasks, *self._settling, *self._verifying.values()]
        background += [] if self._gpu_look is None else [self._gpu_look]
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        await self.watch.close()
        self.slicer.close()

    def silence_s(self) -> float:
        """Seconds by which looking or measuring is overdue: a call in it hangs."""
        now = time.monotonic()
        return max(now - self._last_round["look"], now - self._last_round["heartbeat"] - self._heartbeat_s, 0.0)

    def track(self, folder: IncarnationFolder, spec: SpecRecord | None = None) -> None:
        """Track an incarnation, and observe it soon. ``spec``: what it was started with, if that is known."""
        before = self.roster.get(folder.replica)
        if self.roster.track(folder, spec) is not None:
            self.watch_incarnation(folder)
            if before is not None:
                self.unwatch(before)
        self.watch.pulse.fire()

    def watch_incarnation(self, folder: IncarnationFolder) -> None:
        """Watch an incarnation's folders for changes."""
        self.watch.add(folder.path, closed=True)
        self.watch.add(folder.control)  # without ``closed``: jobs append to its files all the time

    def drop(self, job: str) -> None:
        """Stop tracking a job."""
        dropped = self.roster.drop(job)
        for each in dropped:
            self.unwatch(each)
        self._volumes.pop(job, None)
        if (verifying := self._verifying.pop(job, None)) is not None:
            verifying.cancel()
        self._send(each.node for each in dropped)

    async def drop_retired(self) -> None:
        """Stop tracking the jobs that another process has forgotten."""
        for job in await asyncio.to_thread(self.roster.retired):
            self.drop(job)

    async def look(self) -> None:
        """Observe everything now; send the heartbeats of the nodes where something changed."""
        async with self._looking:
            changed = await self.see()
        if not changed:
            return
        for each in changed:
            if each.seen.ended:
                self.unwatch(each)
                self._settling.append(asyncio.create_task(self._settle(each)))
        self._settling = [task for task in self._settling if not task.done()]
        await self.changed(measured=False)
        self._send(each.node for each in changed)

    async def _settle(self, ended: T) -> None:
        """Read a job's last output and checkpoint, which it may have written after the last look, and report its end."""
        if ended.gpus:
            await self._survive(self._look_at_gpus())  # that its GPU failed is known before its end is reported
        await self._survive(self.finish(ended))
        if self.roster.get(ended.folder.replica) is ended:
            await self._survive(self.checkpoint(ended.folder.replica.job, within_s=_SETTLE_S))
        ended.settled = True
        self._send([ended.node])

    async def checkpoint(self, job: str, *, within_s: float) -> CheckpointRef | None:
        """The newest valid checkpoint of a job, verified now; after ``within_s`` seconds, the newest known one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                return await self._verify(job)
        _log.warning("checkpoint verification takes too long", job=job, waited_s=within_s)
        return self._known_checkpoint(job)

    def volume(self, job: str) -> Volume:
        """A job's checkpoints. All use one object, so that gigabytes are not read again at each step of a move."""
        return self._of(job)[0]

    def _of(self, job: str) -> tuple[Volume, asyncio.Lock]:
        if job not in self._volumes:
            self._volumes[job] = (Volume(self._state.checkpoints(job), job), asyncio.Lock())
        return self._volumes[job]

    async def _verify(self, job: str) -> CheckpointRef | None:
        volume, reading = self._of(job)
        async with reading:
            return await self.slicer.run(volume.refreshing())

    async def heartbeats(self) -> AsyncIterator[NodeHeartbeat]:
        """Yield all heartbeats from now on, starting with one of each node that answers."""
        if self._settling:  # so that the first heartbeat lists what ended before this consumer came
            await asyncio.wait(self._settling)  # not gather: a consumer that leaves must not cancel them
        listener = Listener()
        for node in self._capacities:
            if self.answers(node) and self.speaks_for(node):
                listener.put(self._heartbeat(node))
        self._listeners.append(listener)
        try:
            async for each in listener.heartbeats():
                yield each
        finally:
            self._listeners.remove(listener)

    # --- the tasks ----------------------------------------------------------------------------------------------------

    async def _look_loop(self) -> None:
        while True:
            pulse = self.watch.pulse.next_pulse()
            await self._survive(self.look())
            self._last_round["look"] = time.monotonic()
            await wait(pulse, self.watch.poll_s)

    async def _heartbeat_loop(self) -> None:
        while True:
            began = time.monotonic()
            await self._survive(self._send_all())
            self._last_round["heartbeat"] = time.monotonic()
            await asyncio.sleep(max(self._heartbeat_s - (time.monotonic() - began), 0.0))

    async def _send_all(self) -> None:
        began = time.monotonic()
        if began >= self._follows_others_s:
            await self.follow_others()
            ended = time.monotonic()
            self._follows_others_s = ended + (ended - began) * (1 / FOLLOWING_SHARE - 1)
        async with self._looking:
            await self.measure()
        await self._survive(self._look_at_gpus())
        await self.changed(measured=True)
        self._send(self._capacities)

    async def _look_at_gpus(self) -> None:
        """Bring the facts of GPUs up to date, one look at a time; a driver that hangs delays nothing else for long."""
        while self._gpus is not None:
            look, is_new = self._gpu_look, False
            if look is None or look.done():
                look, is_new = asyncio.create_task(asyncio.to_thread(self._gpus.look)), True
                self._gpu_look = look
            if not (await asyncio.wait([look], timeout=_DRIVER_S))[0]:
                self._gpus.forget_use()
                break
            if is_new:
                look.result()
                break

    async def _verify_loop(self) -> None:
        """Verify in a loop of its own: hashing gigabytes must not delay a heartbeat and make a node look dead."""
        while True:
            running = dict.fromkeys(jobs_of(self.roster.running()))
            for job in [job for job, task in self._verifying.items() if task.done() or job not in running]:
                self._verifying.pop(job).cancel()
            self._verified = {job: None for job in (*self._verified, *running) if job in running}
            turn = list(itertools.islice(self._verified, VERIFIED_A_HEARTBEAT))
            for job in turn:
                del self._verified[job]
                self._verified[job] = None
            for job in await asyncio.to_thread(self._with_checkpoints, turn):
                if job not in self._verifying:
                    self._verifying[job] = asyncio.create_task(self._verify_one(job))
            await asyncio.sleep(self._heartbeat_s)

    def _with_checkpoints(self, jobs: Iterable[str]) -> list[str]:
        """Those that have saved, or had: most of many jobs have nothing yet, and then one look at all is enough."""
        return [
            job
            for job in jobs
            if self._known_checkpoint(job) is not None or not Volume(self._state.checkpoints(job), job).is_empty
        ]

    async def _verify_one(self, job: str) -> None:
        await self._survive(self._verify(job))

    async def _survive(self, act: Awaitable[object]) -> None:
        """Log an error instead of raising it: a full disk or a lost node must not end the background tasks."""
        try:
            await act
        except (OSError, ClusterError) as error:
            _log.warning("background task failed once", why=str(error))
        except Exception:  # noqa: BLE001 - a job may cause an error that was not anticipated
            _log.exception("background task failed once")

    def _send(self, nodes: Iterable[str]) -> None:
        for node in sorted(set(nodes)):
            if self.answers(node) and self.speaks_for(node):
                newest = self._heartbeat(node)
                for listener in self._listeners:
                    listener.put(newest)

    def _heartbeat(self, node: str) -> NodeHeartbeat:
        replicas = self.roster.on(node)
        self._places |= {each.node: each.place for each in replicas if each.place is not None}
        return heartbeat(
            node=node,
            pool=self._pool,
            at_ms=time.time_ns() // 1_000_000,
            capacity=self.capacity(node),
            replicas=replicas,
            checkpoint=self._known_checkpoint,
            gpus=self.gpu_facts(node),
            keeper=self.keeper_facts(node),
        )

    def _known_checkpoint(self, job: str) -> CheckpointRef | None:
        return self._volumes[job][0].newest if job in self._volumes else None

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (failure := task.exception()) is None:
            return
        _log.error("background task failed", why=repr(failure))
        for listener in self._listeners:
            listener.close(failure)
