"""The log-collector: follows every incarnation from its start to its end, and announces when a job will report no more.

It owns when reading starts and ends. :mod:`steepest.collector.feed` turns the records into events.

Incarnations of a job are read one after the other, so that no report of an older one follows one of a newer. An incarnation
that ended while no collector ran is still read to its end, if the cluster still has its files.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Awaitable, Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from steepest.clock import Clock
from steepest.cluster.port import Cluster, MetricsPlace, ReplicaFiles
from steepest.collector.feed import Feed, Follow
from steepest.collector.folders import MetricFolder
from steepest.collector.metric_selection import DEFAULT_METRIC
from steepest.collector.progress import CHIEF, ProgressBoard
from steepest.collector.source import Source
from steepest.collector.turns import Turns
from steepest.errors import SteepestError
from steepest.events import cluster as c
from steepest.events.loss import JobUnwatched
from steepest.events.received import Received
from steepest.logger import Logger
from steepest.runtime.effector import Effector, Send
from steepest.training_logs.reader import AUTO
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Phase

logger = Logger()

SDK_FORMAT = "steepest-sdk"

KEEP_ENDED_S = 600.0
"""How long the cursors of an ended job are kept: longer than the cluster keeps its files, so that none is read twice."""

Key = tuple[str, int]
"""A job and an incarnation."""


class EndedJob(msgspec.Struct, frozen=True):
    """A job that has ended."""

    job: str


class CatchUp(msgspec.Struct, frozen=True):
    """What may have been missed: each job that had an incarnation (spec, whether it ended)."""

    jobs: Mapping[str, tuple[c.JobSpec, bool]]


class LossCollector(Effector):
    """Sends the losses of all incarnations on the cluster's nodes."""

    name = "log-collector"

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        pool: str,
        folder: Path,
        board: ProgressBoard | None = None,
        *,
        node: str | None = None,
    ) -> None:
        """Store the reading cursors under ``folder``.

        Args:
            cluster: The pool's nodes.
            clock: The time.
            pool: The pool's name.
            folder: Where the cursors are; all log-collectors of a pool share it.
            board: Where to note how far the jobs are.
            node: The only node whose jobs are read: where each node has a log-collector; None: all are.
        """
        self._cluster = cluster
        self._node = node
        self._board = board or ProgressBoard()
        self._clock = clock
        self._pool = pool
        self._folder = folder
        self._work: asyncio.Queue[tuple[Follow, str] | EndedJob | CatchUp] = asyncio.Queue()
        self._stops: dict[str, dict[int, asyncio.Event]] = {}  # by job and incarnation
        self._reading: dict[str, list[asyncio.Task[None]]] = {}
        self._ended_at: dict[str, float] = {}
        self._configured = c.PoolConfigured()
        self._turns = Turns(clock)

    # --- following the log (nothing here waits) ------------------------------------------------------------------------

    def caught_up(self, view: ClusterView) -> None:
        """Follow all running jobs, and catch up on those that ended in the meantime."""
        self._configured = _configured(view)
        for job in view.jobs:
            if job.alive:
                self._follow(job)
        begun = {job.name: (job.spec, job.phase is Phase.ENDED) for job in view.jobs if job.incarnation}
        self._work.put_nowait(CatchUp(begun))

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Follow a job that is placed; read one that has stopped to its end."""
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
                if self._is_ours(view.jobs[name].started_on):
                    self._work.put_nowait(EndedJob(name))
                else:
                    self._leave(name)

    def _is_ours(self, node: str | None) -> bool:
        """Whether a job on this node is read here, and its end is said here if this is its last node."""
        return self._node is None or node == self._node

    def _leave(self, job: str) -> None:
        """Forget a job that ended on another node, once what it did here is read."""
        self._reading.pop(job, None)
        self._board.forget(job)

    def _follow(self, job: Job) -> None:
        if job.incarnation in self._stops.get(job.name, ()) or not job.nodes or not self._is_ours(job.nodes[0]):
            return
        self._stops.setdefault(job.name, {})[job.incarnation] = asyncio.Event()
        follow = Follow(job=job.name, incarnation=job.incarnation, spec=job.spec)
        self._work.put_nowait((follow, job.nodes[0]))

    def _end(self, job: str, *, before: int | None = None) -> None:
        for incarnation, stop in self._stops.get(job, {}).items():
            if before is None or incarnation < before:
                stop.set()

    # --- reading and sending ---------------------------------------------------------------------------------------------

    async def run(self, send: Send) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                match await self._work.get():
                    case (follow, node):
                        kept = await self._kept(node, follow.job)
                        self._begin(group, follow, kept.get((follow.job, follow.incarnation)), send)
                    case EndedJob(job):
                        group.create_task(self._unwatch(job, send))
                    case CatchUp() as missed:
                        await self._catch_up(group, missed, send)

    def _begin(self, group: asyncio.TaskGroup, follow: Follow, files: ReplicaFiles | None, send: Send) -> None:
        earlier = tuple(self._reading.setdefault(follow.job, []))
        task = group.create_task(self._read_after(earlier, follow, files, send))
        self._reading[follow.job].append(task)

    async def _catch_up(self, group: asyncio.TaskGroup, missed: CatchUp, send: Send) -> None:
        """Read incarnations that ended while no collector ran, and remove cursors that are no longer needed."""
        everywhere = await self._kept()
        kept = everywhere if self._node is None else await self._kept(self._node)
        for job, incarnation in sorted(kept):
            if job in missed.jobs and incarnation not in self._stops.get(job, ()):
                stop = self._stops.setdefault(job, {})[incarnation] = asyncio.Event()
                stop.set()
                spec, _ = missed.jobs[job]
                follow = Follow(job=job, incarnation=incarnation, spec=spec)
                self._begin(group, follow, kept[job, incarnation], send)
        names = await asyncio.to_thread(_names, self._folder)
        last = dict(sorted(everywhere))
        ours = [job for job, incarnation in sorted(kept) if last.get(job) == incarnation]  # None: placed meanwhile
        for job in dict.fromkeys([*ours, *(names if self._node is None else ())]):
            if job in missed.jobs and missed.jobs[job][1]:
                group.create_task(self._unwatch(job, send))
        wanted = {job for job, _ in everywhere} | self._stops.keys()
        await asyncio.to_thread(_clear, self._folder, [name for name in names if name not in wanted])

    async def _unwatch(self, job: str, send: Send) -> None:
        """Announce the end of a job's reports, after the last one."""
        await asyncio.gather(*self._reading.pop(job, []), return_exceptions=True)
        self._board.forget(job)
        await send(JobUnwatched(job=job), topic="loss", key=job)
        now = self._clock.monotonic()
        self._ended_at.pop(job, None)
        self._ended_at[job] = now  # the newest is the last one
        due = list(itertools.takewhile(lambda name: now - self._ended_at[name] >= KEEP_ENDED_S, self._ended_at))
        for name in due:
            del self._ended_at[name]
        await asyncio.to_thread(_clear, self._folder, due)

    async def _read_after(
        self, earlier: Iterable[asyncio.Task[None]], follow: Follow, files: ReplicaFiles | None, send: Send
    ) -> None:
        """Read an incarnation after the earlier ones. An error does not affect other jobs."""
        await asyncio.gather(*earlier, return_exceptions=True)
        try:
            if files is None:
                logger.warning("no output to follow", job=follow.job, incarnation=follow.incarnation)
            else:
                await _guard(self._read(follow, files, send), follow)
        finally:
            if (of_job := self._stops.get(follow.job)) is not None:
                of_job.pop(follow.incarnation, None)
                if not of_job:
                    del self._stops[follow.job]

    async def _read(self, follow: Follow, files: ReplicaFiles, send: Send) -> None:
        stop = self._stops[follow.job][follow.incarnation]
        metric = None if follow.spec.metric == DEFAULT_METRIC else follow.spec.metric
        cursors = self._folder / follow.job / str(follow.incarnation)
        make = partial(Source, stop=stop, clock=self._clock, below=files.below, metric=metric, turns=self._turns)
        read = self._board.begin(follow.job, follow.incarnation)
        reports = make(files.reports, cursors / "reports", log_format=SDK_FORMAT)
        output = make(
            files.output,
            cursors / "output",
            log_format=follow.spec.log_format or AUTO,
            pattern=follow.spec.pattern,
            epochs=follow.spec.epochs,
            hear=read.hear,
        )
        feed = Feed(follow, self._pool, lambda: self._configured, self._clock, send, progress=read)
        carrying = [feed.carry_reports(reports), feed.carry_output(output, reports)]
        if (place := await self._metrics_of(follow)) is not None:
            folder = MetricFolder(place, metric, self._clock)
            found = (folder.tensorboard(stop), folder.mlflow_files(stop), folder.mlflow_database(stop))
            carrying += [feed.carry_folder(batches) for batches in found]
        await asyncio.gather(*(_guard(one, follow) for one in carrying))
        await feed.finish()
        if feed.dropped:
            logger.warning("reports dropped", job=follow.job, incarnation=follow.incarnation, count=feed.dropped)

    async def _metrics_of(self, follow: Follow) -> MetricsPlace | None:
        if not follow.spec.metrics_folder:
            return None
        try:
            return await asyncio.to_thread(self._cluster.metrics_folder, follow.job, follow.spec.metrics_folder)
        except SteepestError as error:
            logger.warning("metrics folder not read", job=follow.job, why=str(error))
            return None

    async def _kept(self, node: str | None = None, job: str | None = None) -> dict[Key, ReplicaFiles]:
        """The files that the cluster has of each job's first replica; on one node and of one job, where these are named."""
        try:
            found = await asyncio.to_thread(self._cluster.files, node, job=job)
        except (OSError, SteepestError) as error:
            logger.warning("cannot list files", node=node, job=job, why=str(error))
            return {}
        except Exception:
            logger.exception("cannot list files", node=node, job=job)
            return {}
        return {(each.replica.job, each.incarnation): each for each in found if each.replica.index == CHIEF}


async def _guard(reading: Awaitable[None], follow: Follow) -> None:
    """Log an error of one source instead of raising it, so that it does not affect the others."""
    try:
        await reading
    except OSError as error:
        logger.warning("stopped reading a source", job=follow.job, incarnation=follow.incarnation, why=str(error))
    except Exception:
        logger.exception("stopped reading a source", job=follow.job, incarnation=follow.incarnation)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _clear(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)


def _configured(view: ClusterView) -> c.PoolConfigured:
    return c.PoolConfigured(parameters=view.parameters)
