"""Plays a workload on the embedded system, from the first submission to the end of the last job.

It owns the order of a run: submit, follow the log, stop. However it ends, no job is left running. It must never know how a
run is shown: that is the business of its audience.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from steepest.aio import leaves
from steepest.app.compose import Composition, embedded
from steepest.app.settings.tree import NotifySettings, Settings
from steepest.app.state_folder import Installation
from steepest.clock import SystemClock
from steepest.cluster.port import Cluster, ReplicaId
from steepest.errors import ClusterError, UndecodableError
from steepest.events.cluster import ClusterEvent, JobCancelRequested, JobSubmitted, Outcome
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.events.requests import Hold
from steepest.log.base import Log, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.read_models.run_timeline import RunTimeline
from steepest.runtime.decode import received
from steepest.runtime.effector import Send
from steepest.runtime.outbox import Outbox
from steepest.view.state import Phase
from steepest_lab.demo.workload import DemoWorkload

HEARTBEAT_MS = 500

_LOOK_S = 0.1

GRACE_S = 5.0
"""For a job that is stopped because the run broke off; one that saves needs a fraction of it."""


class Audience(Protocol):
    """Who watches a run."""

    def tell(self, timeline: RunTimeline, received: Received[ClusterEvent]) -> None:
        """One of the events that are shown has just been folded."""

    async def watch(self, timeline: RunTimeline) -> None:
        """Show the timeline as it grows, until cancelled."""


class Play:
    """One run.

    Attributes:
        timeline: The run as far as it has come; afterwards, all of it.
        interrupted: Set by SIGINT and SIGTERM: every job is cancelled, and the run is over when all have ended.
    """

    def __init__(
        self,
        folder: Path,
        workload: DemoWorkload,
        parameters: PoolParameters,
        notify: NotifySettings = NotifySettings(),  # noqa: B008 - it cannot be changed
    ) -> None:
        self.timeline = RunTimeline()
        self.interrupted = asyncio.Event()
        self._settings = Settings(state_dir=str(folder), notify=notify)
        self._folder = self._settings.folder
        self._installation = Installation(
            nodes=workload.nodes,
            heartbeat_ms=HEARTBEAT_MS,
            image=workload.image,
            soft_limits=workload.soft_limits,
            storage=workload.storage,
            link_mbit=workload.link_mbit,
            system_checkpoints=False,  # simulated nodes have no keepers, and both are compared
            host_network=any(node.engine for node in workload.nodes),
        )
        self._workload = workload
        self._parameters = parameters
        self._clock = SystemClock()
        self._submitted: list[str] = []
        self._all_submitted = False

    @property
    def recording(self) -> Path:
        """The folder of its recording."""
        return self._folder.log

    @property
    def failed(self) -> int:
        """Jobs that failed so far."""
        return self.timeline.ended(Outcome.FAILED)

    def prepared(self) -> Settings:
        """The settings of its system, whose folder and log are there from here on.

        Raises:
            SteepestError: The folder cannot be used.
        """
        self._folder.create(self._installation)
        return self._settings

    async def run(self, audience: Audience) -> RunTimeline:
        """Play it to its end.

        Raises:
            SteepestError: The folder cannot be used, or its log is not for this program.
            asyncio.CancelledError: It was interrupted twice.
        """
        self.prepared()
        with self._interruptible():
            async with embedded(self._settings, {self._installation.pool: self._parameters}) as system:
                try:
                    await self._play(system, audience)
                except ExceptionGroup as failures:
                    raise next(leaves(failures)) from failures  # the first one ended the run
                finally:
                    await self._leave_nothing(system.clusters[self._installation.pool])
        return self.timeline

    async def recorded(self) -> Sequence[Received[ClusterEvent]]:
        """The pool's events as the recording has them, once the run is over.

        Raises:
            RecordingError: It cannot be read.
        """
        log = FileLog.open(self.recording, read_only=True)
        events: list[Received[ClusterEvent]] = []
        try:
            at = self._installation.layout.of_pool(self._installation.pool)
            end = await log.end(at)
            async for event in follow(log, at):
                events.append(event)
                if event.offset + 1 >= end:
                    break
        finally:
            await log.close()
        return events

    async def _play(self, system: Composition, audience: Audience) -> None:
        stop = asyncio.Event()
        layout, pool = self._installation.layout, self._installation.pool
        send = Outbox(system.log, layout, pool, self._clock)
        async with asyncio.TaskGroup() as group:
            group.create_task(system.runtime.run(stop))
            others = [group.create_task(one) for one in (audience.watch(self.timeline), self._drive(send))]
            async for event in follow(system.log, layout.of_pool(pool)):
                if self.timeline.fold(event):
                    audience.tell(self.timeline, event)
                if self._is_over():
                    break
            for task in others:
                task.cancel()
            stop.set()

    def _is_over(self) -> bool:
        return self._all_submitted and self.timeline.ended() == len(self._submitted)

    async def _drive(self, send: Send) -> None:
        """Submit every job in its time. Once interrupted, or if all that is left is suspended, ask for the end of all.

        The pool is configured first: before that it takes no gangs.
        """
        await self._until(lambda: self.timeline.view.is_configured)
        began, over = self._clock.monotonic(), 0
        for arrival in self._workload.arrivals:
            if arrival.after > over:
                over = arrival.after
                await self._until(lambda least=over: self.timeline.ended() >= least)  # type: ignore[misc]
                began = self._clock.monotonic()
            if await self._interrupted_before(began + arrival.at_s):
                break
            await send(JobSubmitted(job=arrival.job, request=f"demo-{arrival.job}", spec=arrival.spec))
            self._submitted.append(arrival.job)
        self._all_submitted = True
        await self._until(self._is_left_suspended)
        for job in self._submitted:
            await send(JobCancelRequested(job=job, request=f"over-{job}"))

    def _is_left_suspended(self) -> bool:
        """Whether all jobs are over but those that a finding has suspended, which no user will resume."""
        jobs = [self.timeline.view.jobs[job] for job in self._submitted if job in self.timeline.view.jobs]
        left = [job for job in jobs if job.phase is not Phase.ENDED]
        is_left = [job.phase is Phase.SUSPENDED and job.hold is Hold.FINDING for job in left]
        return bool(left) and all(is_left) and len(jobs) == len(self._submitted)

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds, or the run is interrupted."""
        while not (holds() or self.interrupted.is_set()):
            await self._clock.sleep(_LOOK_S)

    async def _interrupted_before(self, moment: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, moment - self._clock.monotonic())):
                await self.interrupted.wait()
        return self.interrupted.is_set()

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Signals end the run: the first one through the log, a second one immediately, in case the log takes nothing."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def interrupt() -> None:
            if self.interrupted.is_set() and task is not None:
                task.cancel()
            self.interrupted.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupt)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    async def _leave_nothing(self, cluster: Cluster) -> None:
        """Stop what still runs because the run broke off; after a whole run that is nothing."""
        left = [job.name for job in self.timeline.view.jobs if job.phase is not Phase.ENDED]
        await asyncio.gather(*(_stop(cluster, job) for job in left))


async def _stop(cluster: Cluster, job: str) -> None:
    with contextlib.suppress(ClusterError):  # it never started, or cannot be reached: there is nothing else to try
        status = await cluster.lookup(ReplicaId(job), verify=False)
        if status is not None:
            await cluster.stop(ReplicaId(job), status.incarnation, grace_s=GRACE_S)


async def follow(log: Log, at: TopicPartition) -> AsyncIterator[Received[ClusterEvent]]:
    """The events of a partition from its first one on, and those to come; what cannot be read is skipped."""
    reader = log.reader({at: 0})
    try:
        while True:
            for record in await reader.poll():
                with contextlib.suppress(UndecodableError):  # the runtime has made it a dead letter
                    yield received(record)
    finally:
        await reader.close()
