"""The log-collector: follows every incarnation from its start to its end, and says when a job will report no more.

It owns when reading begins and ends. What is read becomes events in :mod:`steepest.collector.feed`.

Incarnations of a job are read one after the other, so that no report of an older one comes after one of a newer. What ended
while nobody was here is still read to its end, for as long as the cluster keeps it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import structlog

from steepest.clock import Clock
from steepest.cluster.port import Cluster, ReplicaFiles
from steepest.collector.feed import Feed, Follow
from steepest.collector.folders import MetricFolder
from steepest.collector.metric_selection import DEFAULT_METRIC
from steepest.collector.source import Source
from steepest.errors import SteepestError
from steepest.events import cluster as c
from steepest.events.loss import JobUnwatched
from steepest.events.received import Received
from steepest.runtime.effector import Effector, Send
from steepest.training_logs.recognise import AUTO
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Phase

logger = structlog.get_logger(__name__)

SDK_FORMAT = "steepest-sdk"

KEEP_OVER_S = 600.0
"""How long places of a job that is over are kept: longer than the cluster keeps its files, which are read once only."""

Key = tuple[str, int]
"""A job and an incarnation."""


class Over(msgspec.Struct, frozen=True):
    """A job that is over."""

    job: str


class Missed(msgspec.Struct, frozen=True):
    """What may have been missed: every job that has or had an incarnation, and the nodes on which it may be kept."""

    jobs: Mapping[str, tuple[c.JobSpec, bool]]
    nodes: Sequence[str]


class LossCollector(Effector):
    """Sends the losses of every incarnation that runs on the cluster's nodes."""

    name = "log-collector"

    def __init__(self, cluster: Cluster, clock: Clock, pool: str, folder: Path) -> None:
        """Keep reading places under ``folder``."""
        self._cluster = cluster
        self._clock = clock
        self._pool = pool
        self._folder = folder
        self._work: asyncio.Queue[tuple[Follow, str] | Over | Missed] = asyncio.Queue()
        self._stops: dict[Key, asyncio.Event] = {}
        self._reading: dict[str, list[asyncio.Task[None]]] = {}
        self._over: dict[str, float] = {}
        self._configured = c.PoolConfigured()

    # --- following the log (nothing here waits) ------------------------------------------------------------------------

    def caught_up(self, view: ClusterView) -> None:
        """Follow everything that runs, and look for what ended meanwhile."""
        self._configured = _configured(view)
        for job in view.jobs:
            if job.alive:
                self._follow(job)
        begun = {job.name: (job.spec, job.phase is Phase.ENDED) for job in view.jobs if job.incarnation}
        nodes = [node.name for node in view.nodes]
        self._work.put_nowait(Missed(begun, nodes))

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Follow what is placed, read to its end what has stopped."""
        if not accepted:
            return
        match received.event:
            case c.PoolConfigured():
                self._configured = _configured(view)
            case c.JobPlaced(job=name):
                self._end(name, before=view.jobs[name].incarnation)
                self._follow(view.jobs[name])
            case c.ReplicaStopped(job=name, incarnation=incarnation) | c.JobStopped(job=name, incarnation=incarnation):
                self._end(name, before=incarnation + 1)
            case c.JobEnded(job=name) | c.JobRejected(job=name) if view.jobs[name].phase is Phase.ENDED:
                self._end(name)
                self._work.put_nowait(Over(name))

    def _follow(self, job: Job) -> None:
        if (job.name, job.incarnation) in self._stops or not job.nodes:
            return
        self._stops[job.name, job.incarnation] = asyncio.Event()
        follow = Follow(job=job.name, incarnation=job.incarnation, spec=job.spec)
        self._work.put_nowait((follow, job.nodes[0]))

    def _end(self, job: str, *, before: int | None = None) -> None:
        for (name, incarnation), stop in self._stops.items():
            if name == job and (before is None or incarnation < before):
                stop.set()

    # --- reading and sending ---------------------------------------------------------------------------------------------

    async def run(self, send: Send) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                match await self._work.get():
                    case (follow, node):
                        kept = await self._kept_on((node,))
                        self._begin(group, follow, kept.get((follow.job, follow.incarnation)), send)
                    case Over(job):
                        group.create_task(self._unwatch(job, send))
                    case Missed() as missed:
                        await self._make_up(group, missed, send)

    def _begin(self, group: asyncio.TaskGroup, follow: Follow, files: ReplicaFiles | None, send: Send) -> None:
        earlier = tuple(self._reading.setdefault(follow.job, []))
        task = group.create_task(self._read_after(earlier, follow, files, send))
        self._reading[follow.job].append(task)

    async def _make_up(self, group: asyncio.TaskGroup, missed: Missed, send: Send) -> None:
        """Read to its end what ended unseen, and let go of places that nobody will need."""
        kept = await self._kept_on(missed.nodes)
        for job, incarnation in sorted(kept):
            if job in missed.jobs and (job, incarnation) not in self._stops:
                stop = self._stops[job, incarnation] = asyncio.Event()
                stop.set()
                spec, _ = missed.jobs[job]
                follow = Follow(job=job, incarnation=incarnation, spec=spec)
                self._begin(group, follow, kept[job, incarnation], send)
        names = await asyncio.to_thread(_names, self._folder)
        for job in dict.fromkeys([*sorted(job for job, _ in kept), *names]):
            if job in missed.jobs and missed.jobs[job][1]:
                group.create_task(self._unwatch(job, send))
        wanted = {job for job, _ in kept} | {job for job, _ in self._stops}
        await asyncio.to_thread(_clear, self._folder, [name for name in names if name not in wanted])

    async def _unwatch(self, job: str, send: Send) -> None:
        """After the job's last report."""
        await asyncio.gather(*self._reading.pop(job, []), return_exceptions=True)
        await send(JobUnwatched(job=job), topic="loss", key=job)
        now = self._clock.monotonic()
        self._over[job] = now
        due = [name for name, since in self._over.items() if now - since >= KEEP_OVER_S]
        for name in due:
            del self._over[name]
        await asyncio.to_thread(_clear, self._folder, due)

    async def _read_after(
        self, earlier: Iterable[asyncio.Task[None]], follow: Follow, files: ReplicaFiles | None, send: Send
    ) -> None:
        """Read an incarnation once those before it are read. Whatever goes wrong, it is no other job's trouble."""
        await asyncio.gather(*earlier, return_exceptions=True)
        try:
            if files is None:
                logger.warning("no output to follow", job=follow.job, incarnation=follow.incarnation)
            else:
                await _guard(self._read(follow, files, send), follow)
        finally:
            self._stops.pop((follow.job, follow.incarnation), None)

    async def _read(self, follow: Follow, files: ReplicaFiles, send: Send) -> None:
        stop = self._stops[follow.job, follow.incarnation]
        metric = None if follow.spec.metric == DEFAULT_METRIC else follow.spec.metric
        place = self._folder / follow.job / str(follow.incarnation)
        make = partial(Source, stop=stop, clock=self._clock, below=files.below, metric=metric)
        reports = make(files.reports, place / "reports", log_format=SDK_FORMAT)
        output = make(files.output, place / "output", log_format=follow.spec.log_format or AUTO)
        feed = Feed(follow, self._pool, lambda: self._configured, self._clock, send)
        carrying = [feed.carry_reports(reports), feed.carry_output(output, reports)]
        if follow.spec.metrics_folder:
            folder = MetricFolder(Path(follow.spec.metrics_folder), metric, self._clock)
            found = (folder.tensorboard(stop), folder.mlflow_files(stop), folder.mlflow_database(stop))
            carrying += [feed.carry_folder(batches) for batches in found]
        await asyncio.gather(*(_guard(one, follow) for one in carrying))
        if feed.dropped:
            logger.warning("reports left out", job=follow.job, incarnation=follow.incarnation, count=feed.dropped)

    async def _kept_on(self, nodes: Iterable[str]) -> dict[Key, ReplicaFiles]:
        """What the cluster keeps on these nodes."""
        found: dict[Key, ReplicaFiles] = {}
        for node in nodes:
            try:
                on_node = await asyncio.to_thread(self._cluster.files, node)
            except (OSError, SteepestError) as error:
                logger.warning("cannot see what is kept on a node", node=node, why=str(error))
            else:
                found.update({(files.replica.job, files.incarnation): files for files in on_node})
        return found


async def _guard(reading: Awaitable[None], follow: Follow) -> None:
    """Whatever goes wrong with one source, it is no other source's trouble."""
    try:
        await reading
    except OSError as error:
        logger.warning("cannot be read any further", job=follow.job, incarnation=follow.incarnation, why=str(error))
    except Exception:
        logger.exception("cannot be read any further", job=follow.job, incarnation=follow.incarnation)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _clear(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)


def _configured(view: ClusterView) -> c.PoolConfigured:
    return c.PoolConfigured(flags=view.state.flags, parameters=view.parameters)
