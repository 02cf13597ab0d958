"""What an adapter over a state folder does by itself: look, measure, verify checkpoints, send heartbeats.

It owns the background tasks and what they share with the calls of the port. It must never start or stop a replica, nor know
how something is seen or measured: that is what an adapter adds. Whatever one incarnation or job is the cause of, it is the
trouble of no other one: its error is logged, and the round goes on.

* The *looker* looks at all that has not ended whenever something may have changed, at the latest after ``Watch.poll_s``.
* The *beater* measures at every heartbeat period, and sends a heartbeat for each node that answers.
* The *verifier* verifies the checkpoints of what runs.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Generic

import structlog

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder, SpecRecord
from steepest.cluster.folders.checkpoint_verification import Volume
from steepest.cluster.folders.folder_watch import Watch, wait
from steepest.cluster.folders.replica_roster import Roster, T, jobs_of
from steepest.cluster.heartbeat_fanout import Listener, heartbeat
from steepest.cluster.turns import Turns
from steepest.errors import ClusterError
from steepest.events.common import CheckpointRef, Resources
from steepest.events.heartbeat import NodeHeartbeat

_log = structlog.get_logger(__name__)
_SETTLE_S = 5.0
"""How long an end waits to be told for what was saved before it; gigabytes are hashed in that time."""


class Background(abc.ABC, Generic[T]):
    """The adapter's background. To be made in a running loop, after the roster was loaded.

    Args:
        capacities: Node to capacity.
        clock: The wall clock, in integer milliseconds.
        events: False polls instead of using the file system's events.
    """

    def __init__(
        self,
        *,
        state: AdapterFolder,
        roster: Roster[T],
        capacities: Mapping[str, Resources],
        pool: str,
        heartbeat_s: float,
        clock: Callable[[], int],
        events: bool,
    ) -> None:
        self.roster = roster
        self.watch = Watch(events=events)
        self._state = state
        self._capacities = capacities
        self._pool = pool
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self.turns = Turns()
        self._volumes: dict[str, tuple[Volume, asyncio.Lock]] = {}
        self._verifying: dict[str, asyncio.Task[None]] = {}
        self._came_round = dict.fromkeys(("look", "beat"), time.monotonic())
        self._listeners: list[Listener] = []
        self._looking = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._settling: list[asyncio.Task[None]] = []

    # --- what an adapter adds -----------------------------------------------------------------------------------------

    @abc.abstractmethod
    async def see(self) -> list[T]:
        """Look at all that has not ended, and give those that changed. One call at a time."""

    @abc.abstractmethod
    async def measure(self) -> None:
        """Put what everything uses into ``use``, and read what it reported. Never while ``see`` looks."""

    async def finish(self, ended: T) -> None:
        """Do what has to be done before the end of an incarnation may be told."""

    async def changed(self, *, measured: bool) -> None:
        """Something began, ended or was measured."""

    def let_go(self, tracked: T) -> None:
        """Of what has ended, or is not the newest any more."""
        self.watch.remove(tracked.folder.path)
        self.watch.remove(tracked.folder.control)

    def answers(self, node: str) -> bool:
        """Whether a node is there: a heartbeat says so."""
        return node in self._capacities

    # --- what calls of the port use -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._tasks = [asyncio.create_task(task) for task in (self._look_on(), self._beat_on(), self._verify_on())]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def close(self) -> None:
        """End the background, and every stream of heartbeats."""
        background = [*self._tasks, *self._settling, *self._verifying.values()]
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        await self.watch.close()
        self.turns.close()

    def silence_s(self) -> float:
        """For how long, in seconds, looking or measuring has not come round: a call in it hangs."""
        now = time.monotonic()
        return max(now - self._came_round["look"], now - self._came_round["beat"] - self._heartbeat_s, 0.0)

    def track(self, folder: IncarnationFolder, spec: SpecRecord | None = None) -> None:
        """Track an incarnation, and look at it soon. ``spec``: what it was started with, where that is known."""
        before = self.roster.get(folder.replica)
        if self.roster.track(folder, spec) is not None:
            self.watch_over(folder)
            if before is not None:
                self.let_go(before)
        self.watch.pulse.fire()

    def watch_over(self, folder: IncarnationFolder) -> None:
        """Hear of what happens to an incarnation. Jobs append to files in their control folder all the time."""
        self.watch.add(folder.path, closed=True)
        self.watch.add(folder.control)

    def drop(self, job: str) -> None:
        """Forget everything about a job."""
        dropped = self.roster.drop(job)
        for each in dropped:
            self.let_go(each)
        self._volumes.pop(job, None)
        if (verifying := self._verifying.pop(job, None)) is not None:
            verifying.cancel()
        self._send(each.node for each in dropped)

    async def look(self) -> None:
        """Look at everything now; send heartbeats where something changed."""
        async with self._looking:
            changed = await self.see()
        if not changed:
            return
        for each in changed:
            if each.seen.ended:
                self.let_go(each)
                self._settling.append(asyncio.create_task(self._settle(each)))
        self._settling = [task for task in self._settling if not task.done()]
        await self.changed(measured=False)
        self._send(each.node for each in changed)

    async def _settle(self, ended: T) -> None:
        """What a job printed and saved before it left, it may have done after anybody looked last."""
        await self._survive(self.finish(ended))
        if self.roster.get(ended.folder.replica) is ended:
            await self._survive(self.checkpoint(ended.folder.replica.job, within_s=_SETTLE_S))
        ended.settled = True
        self._send([ended.node])

    async def checkpoint(self, job: str, *, within_s: float) -> CheckpointRef | None:
        """The newest good checkpoint of a job, verified now; after ``within_s`` seconds, what is known by then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                return await self._verify(job)
        _log.warning("a checkpoint takes too long to be verified", job=job, waited_s=within_s)
        return self._known_checkpoint(job)

    async def _verify(self, job: str) -> CheckpointRef | None:
        if job not in self._volumes:
            self._volumes[job] = (Volume(self._state.checkpoints(job), job), asyncio.Lock())
        volume, reading = self._volumes[job]
        async with reading:
            return await self.turns.run(volume.refreshing())

    async def heartbeats(self) -> AsyncIterator[NodeHeartbeat]:
        """All heartbeats from now on, beginning with one of each node that answers."""
        if self._settling:  # what ended while nobody looked is told at once
            await asyncio.wait(self._settling)  # and not gathered: a consumer that leaves must not cancel them
        listener = Listener()
        for node in self._capacities:
            if self.answers(node):
                listener.put(self._heartbeat(node))
        self._listeners.append(listener)
        try:
            async for beat in listener.beats():
                yield beat
        finally:
            self._listeners.remove(listener)

    # --- the tasks ----------------------------------------------------------------------------------------------------

    async def _look_on(self) -> None:
        while True:
            beat = self.watch.pulse.beat()
            await self._survive(self.look())
            self._came_round["look"] = time.monotonic()
            await wait(beat, self.watch.poll_s)

    async def _beat_on(self) -> None:
        while True:
            began = time.monotonic()
            await self._survive(self._beat())
            self._came_round["beat"] = time.monotonic()
            await asyncio.sleep(max(self._heartbeat_s - (time.monotonic() - began), 0.0))

    async def _beat(self) -> None:
        await self._follow_others()
        async with self._looking:
            await self.measure()
        await self.changed(measured=True)
        self._send(self._capacities)

    async def _follow_others(self) -> None:
        """Another process may have an adapter on the same folder: what it starts and forgets is ours to tell as well."""
        for folder in await asyncio.to_thread(self.roster.untracked):
            self.track(folder)
        for job in await asyncio.to_thread(self.roster.retired):
            self.drop(job)

    async def _verify_on(self) -> None:
        """Checkpoints are verified beside the heartbeats: hashing gigabytes must not make a node look dead."""
        while True:
            running = jobs_of(self.roster.running())
            for job in [job for job, task in self._verifying.items() if task.done() or job not in running]:
                self._verifying.pop(job).cancel()
            for job in running:
                if job not in self._verifying:
                    self._verifying[job] = asyncio.create_task(self._verify_one(job))
            await asyncio.sleep(self._heartbeat_s)

    async def _verify_one(self, job: str) -> None:
        await self._survive(self._verify(job))

    async def _survive(self, act: Awaitable[object]) -> None:
        """A full disk, a folder that somebody removed or a node that is away must not end the background."""
        try:
            await act
        except (OSError, ClusterError) as error:
            _log.warning("background act failed", why=str(error))
        except Exception:  # noqa: BLE001 - a job may be the cause of what nobody has thought of
            _log.exception("background act failed")

    def _send(self, nodes: Iterable[str]) -> None:
        for node in sorted(set(nodes)):
            if self.answers(node):
                beat = self._heartbeat(node)
                for listener in self._listeners:
                    listener.put(beat)

    def _heartbeat(self, node: str) -> NodeHeartbeat:
        return heartbeat(
            node=node,
            pool=self._pool,
            at_ms=self._clock(),
            capacity=self._capacities[node],
            replicas=self.roster.on(node),
            checkpoint=self._known_checkpoint,
        )

    def _known_checkpoint(self, job: str) -> CheckpointRef | None:
        return self._volumes[job][0].newest if job in self._volumes else None

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (failure := task.exception()) is None:
            return
        _log.error("background task failed", why=repr(failure))
        for listener in self._listeners:
            listener.close(failure)
