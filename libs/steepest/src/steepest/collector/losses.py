"""The log-collector: follows what every incarnation prints and reports, and sends its losses.

A job that reports through the SDK is read from its reports; what it prints counts only as long as it has reported nothing.
Losses that are no finite numbers are told apart, because they decide nothing and people should know.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import structlog

from steepest.clock import Clock
from steepest.cluster.port import Cluster, ReplicaFiles
from steepest.collector.folders import Batch, MetricFolder
from steepest.collector.source import Source
from steepest.events import cluster as c
from steepest.events.loss import JobUnwatched, JobWatched, LossDiverged, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import Received
from steepest.runtime.effector import Effector, Send
from steepest.training_logs.records import LossRecord, is_training_loss
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job

logger = structlog.get_logger(__name__)

DEFAULT_METRIC = "loss"
SDK_FORMAT = "steepest-sdk"


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """An incarnation to follow, with all that must be known of its job."""

    job: str
    incarnation: int
    node: str
    spec: c.JobSpec
    parameters: SpeConParameters


class LossCollector(Effector):
    """Sends the losses of every incarnation that runs on the cluster's nodes."""

    name = "log-collector"

    def __init__(self, cluster: Cluster, clock: Clock, pool: str, folder: Path) -> None:
        """Keep reading places under ``folder``."""
        self._cluster = cluster
        self._clock = clock
        self._pool = pool
        self._folder = folder
        self._work: asyncio.Queue[Follow | str] = asyncio.Queue()
        self._stops: dict[tuple[str, int], asyncio.Event] = {}
        self._followed: dict[str, list[asyncio.Task[None]]] = {}

    # --- following the log (nothing here waits) ------------------------------------------------------------------------

    def caught_up(self, view: ClusterView) -> None:
        """Follow everything that runs, and read to its end what was being read."""
        for job in view.jobs:
            if job.alive:
                self._follow(view, job)
            elif job.incarnation and self._kept(job.name, job.incarnation, "reports").parent.exists():
                self._follow(view, job)
                self._end(job.name, job.incarnation)

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, counts: bool) -> None:
        """Follow what is placed, read to its end what has stopped."""
        if not counts:
            return
        match received.event:
            case c.JobPlaced(job=name):
                self._follow(view, view.jobs[name])
            case c.ReplicaStopped(job=name, incarnation=incarnation) | c.JobStopped(job=name, incarnation=incarnation):
                self._end(name, incarnation)
            case c.JobEnded(job=name):
                for job, incarnation in list(self._stops):
                    if job == name:
                        self._end(job, incarnation)
                self._work.put_nowait(name)

    def _follow(self, view: ClusterView, job: Job) -> None:
        if (job.name, job.incarnation) in self._stops or not job.nodes:
            return
        self._stops[job.name, job.incarnation] = asyncio.Event()
        self._work.put_nowait(
            Follow(
                job=job.name,
                incarnation=job.incarnation,
                node=job.nodes[0],
                spec=job.spec,
                parameters=view.parameters.specon,
            )
        )

    def _end(self, job: str, incarnation: int) -> None:
        if (stop := self._stops.get((job, incarnation))) is not None:
            stop.set()

    # --- reading and sending ---------------------------------------------------------------------------------------------

    async def run(self, send: Send) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                match await self._work.get():
                    case Follow() as follow:
                        task = group.create_task(self._read(follow, send))
                        self._followed.setdefault(follow.job, []).append(task)
                    case str(job):
                        group.create_task(self._unwatch(job, send))

    async def _unwatch(self, job: str, send: Send) -> None:
        """After the job's last report."""
        if tasks := self._followed.pop(job, []):
            await asyncio.gather(*tasks, return_exceptions=True)
        await send(JobUnwatched(job=job), topic="loss", key=job)

    async def _read(self, follow: Follow, send: Send) -> None:
        stop = self._stops[follow.job, follow.incarnation]
        files = _files_of(self._cluster.files(follow.node), follow)
        if files is None:
            logger.warning("no output to follow", job=follow.job, incarnation=follow.incarnation, node=follow.node)
            return
        feed = Feed(follow, self._pool, self._clock, send)
        metric = None if follow.spec.metric == DEFAULT_METRIC else follow.spec.metric
        reports, output = (
            Source(path, self._kept(follow.job, follow.incarnation, name), self._clock, log_format=form, metric=metric)
            for name, path, form in (
                ("reports", files.reports, SDK_FORMAT),
                ("output", files.output, follow.spec.log_format),
            )
        )
        carrying = [
            feed.carry("reports", reports, stop, preferred=True),
            feed.carry("output", output, stop, preferred=False),
        ]
        if follow.spec.metrics_folder:
            folder = MetricFolder(Path(follow.spec.metrics_folder), metric, self._clock)
            found = (folder.tensorboard(stop), folder.mlflow_files(stop), folder.mlflow_database(stop))
            carrying += [feed.carry_folder(batches) for batches in found]
        await asyncio.gather(*carrying)
        reports.forget()
        output.forget()
        self._stops.pop((follow.job, follow.incarnation), None)

    def _kept(self, job: str, incarnation: int, source: str) -> Path:
        return self._folder / job / str(incarnation) / source


class Feed:
    """What the sources of one incarnation have in common: which of them counts, and whether it is watched yet."""

    def __init__(self, follow: Follow, pool: str, clock: Clock, send: Send) -> None:
        self._follow = follow
        self._pool = pool
        self._clock = clock
        self._send = send
        self._reports = False
        self._watched = ""

    async def carry(self, name: str, source: Source, stop: asyncio.Event, *, preferred: bool) -> None:
        """Send a source's records until all is read."""
        stream = f"{self._follow.job}.{self._follow.incarnation}.{name}"
        async for records in source.batches(stop):
            self._reports = self._reports or (preferred and bool(records))
            if not records or (self._reports and not preferred):
                continue
            await self._report(stream, records, [source.sequence(record) for record in records])

    async def carry_folder(self, batches: AsyncIterator[Batch]) -> None:
        """Send what is found in the job's metric folder; its sources go on from one incarnation to the next."""
        async for batch in batches:
            await self._report(f"{self._follow.job}.{batch.source}", batch.records, batch.numbers)

    async def _report(self, stream: str, records: Sequence[LossRecord], numbers: Sequence[int]) -> None:
        for record in records:
            await self._watch(record)
        await self._send(
            *(self._event(record) for record in records),
            topic="loss",
            key=self._follow.job,
            source=stream,
            numbers=numbers,
        )

    async def _watch(self, record: LossRecord) -> None:
        """Say what is judged before the first report, and again if the judged metric has another name."""
        asked = self._follow.spec.metric
        judged = record.split == "train" and (is_training_loss(record) if asked == DEFAULT_METRIC else True)
        metric = record.metric if judged else asked
        if self._watched and (not judged or self._watched == metric):
            return
        self._watched = metric
        watched = JobWatched(
            job=self._follow.job,
            pool=self._pool,
            incarnation=self._follow.incarnation,
            metric=metric,
            parameters=self._follow.parameters,
        )
        await self._send(watched, topic="loss", key=self._follow.job)

    def _event(self, record: LossRecord) -> LossReported | LossDiverged:
        job, incarnation = self._follow.job, self._follow.incarnation
        if not math.isfinite(record.value):
            word = "nan" if math.isnan(record.value) else ("inf" if record.value > 0 else "-inf")
            return LossDiverged(
                job=job, incarnation=incarnation, step=record.step, metric=record.metric[:2000], value=word
            )
        return LossReported(
            job=job,
            incarnation=incarnation,
            step=record.step,
            epoch=record.epoch,
            metric=record.metric[:2000],
            value=record.value,
            split=record.split,
        )


def _files_of(files: Sequence[ReplicaFiles], follow: Follow) -> ReplicaFiles | None:
    return next((one for one in files if one.replica.job == follow.job and one.incarnation == follow.incarnation), None)
