"""The log-collector's losses without files: the real feed over what trainings in memory have reported.

It owns the reading. As a collector that was killed and has lost its cursors, a new one reads every report from the first on,
under the same numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from tests.harness.system.fake_nodes import FakeNodes, History, Moment

from steepest.clock import Clock
from steepest.collector.feed import Feed, Follow
from steepest.collector.source import Source
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.loss import JobUnwatched
from steepest.events.received import Received
from steepest.runtime.effector import Effector, Send
from steepest.training_logs.records import LossRecord
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Phase
from steepest_lab.simulated.training import Training


class Reported(History):
    """The history of some nodes, and the losses of every training.

    Attributes:
        losses: In order.
        lies: What is added to the steps, and the factor of the losses, of jobs whose reports are false.
        crowds: When a node was given more than it has, and what ran there then.
    """

    def __init__(self, capacities: Mapping[str, Resources], folder: Path | None, clock: Clock) -> None:
        super().__init__(capacities, folder, clock)
        self.losses: dict[Training, list[LossRecord]] = {}
        self.lies: dict[str, tuple[int, float]] = {}
        self.crowds: list[tuple[int, Moment, tuple[Training, ...]]] = []
        self._now_ms = clock.now_ms

    def begins(self, training: Training) -> None:
        """See ``Witness``."""
        before = len(self.overfull)
        super().begins(training)
        if len(self.overfull) > before:
            there = tuple(other for other in self.running if other.node == training.node)
            self.crowds.append((self._now_ms(), self.overfull[-1], there))

    def reports(self, training: Training, step: int, loss: float | None) -> None:
        """See ``Witness``."""
        if loss is None:
            return
        further, larger = self.lies.get(training.replica.job, (0, 1.0))
        step, loss = max(0, step + further), loss * larger
        kept = self.losses.setdefault(training, [])
        place = len(kept) + 1
        kept.append(
            LossRecord(
                line=place,
                position=place,
                index=0,
                step=step,
                step_counted=False,
                epoch=None,
                metric="loss",
                value=loss,
                split="train",
                format="steepest-sdk",
            )
        )
        self.pulse()


class TrainingReports:
    """The part of a :class:`~steepest.collector.source.Source` that a feed uses, over one training."""

    has_brought_any = False

    def __init__(self, training: Training, witness: Reported, clock: Clock) -> None:
        self._training = training
        self._witness = witness
        self._clock = clock

    async def batches(self) -> AsyncIterator[Sequence[LossRecord]]:
        """The reports, until the training has ended and all are read."""
        read = 0
        while True:
            changed, running = self._witness.changed, self._training.running
            kept = self._witness.losses.get(self._training, ())
            if len(kept) > read:
                batch, read = kept[read:], len(kept)
                yield batch
            elif not running:
                return
            else:
                await changed.wait()

    def stream(self, name: str) -> str:
        """See ``Source.stream``."""
        return name

    def time_of(self, _: LossRecord) -> int:
        """See ``Source.time_of``."""
        return self._clock.now_ms()


class ReportReader(Effector):
    """Sends the losses of all incarnations that report any."""

    name = "log-collector"

    def __init__(self, nodes: FakeNodes, witness: Reported, clock: Clock, pool: str) -> None:
        self._nodes = nodes
        self._witness = witness
        self._clock = clock
        self._pool = pool
        self._configured = c.PoolConfigured()
        self._work: asyncio.Queue[tuple[Follow, Training] | str] = asyncio.Queue()
        self._followed: dict[tuple[str, int], None] = {}

    def caught_up(self, view: ClusterView) -> None:
        """Follow what runs."""
        self._configure(view)
        for job in view.jobs:
            if job.alive:
                self._follow(view, job.name)
            elif job.phase is Phase.ENDED and job.incarnation:
                self._work.put_nowait(job.name)

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Follow what is placed; say when a job will report no more."""
        if not accepted:
            return
        match received.event:
            case c.PoolConfigured():
                self._configure(view)
            case c.JobPlaced(job=name):
                self._follow(view, name)
            case c.JobEnded(job=name) | c.JobRejected(job=name) if view.jobs[name].phase is Phase.ENDED:
                self._work.put_nowait(name)

    def _configure(self, view: ClusterView) -> None:
        self._configured = c.PoolConfigured(parameters=view.parameters)

    def _follow(self, view: ClusterView, name: str) -> None:
        job = view.jobs[name]
        known = self._nodes.jobs.get(name)
        newest = known.newest() if known else ()
        chief = next((one for one in newest if one.replica.index == 0), None)
        if chief is None or chief.incarnation != job.incarnation or (name, job.incarnation) in self._followed:
            return
        if chief.model.loss is not None:
            self._followed[name, job.incarnation] = None
            self._work.put_nowait((Follow(job=name, incarnation=job.incarnation, spec=job.spec), chief))

    async def run(self, send: Send) -> None:
        """Send until cancelled."""
        reading: dict[str, list[asyncio.Task[None]]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                match await self._work.get():
                    case (follow, training):
                        earlier = tuple(reading.setdefault(follow.job, []))
                        task = group.create_task(self._read(earlier, follow, training, send))
                        reading[follow.job].append(task)
                    case str() as job:
                        group.create_task(self._unwatch(reading.pop(job, []), job, send))

    async def _read(
        self, earlier: Sequence[asyncio.Task[None]], follow: Follow, training: Training, send: Send
    ) -> None:
        await asyncio.gather(*earlier)
        feed = Feed(follow, self._pool, lambda: self._configured, self._clock, send)
        await feed.carry_reports(cast("Source", TrainingReports(training, self._witness, self._clock)))
        await feed.finish()

    async def _unwatch(self, reading: Sequence[asyncio.Task[None]], job: str, send: Send) -> None:
        if reading:
            await asyncio.gather(*reading)
            await send(JobUnwatched(job=job), topic="loss", key=job)
