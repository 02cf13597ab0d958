"""Removes from the cluster what is not needed any more: jobs that are over, and processes that should not run.

It owns the tidying. It must never know plans: those are the migrator's.

A job that is over is kept for a while, so that a log-collector can read its output to the end. A process is *astray* if
its job is over or has a newer incarnation: a migrator that had been paused started it after the cluster had forgotten the
job. It is astray as well if the log knows neither its job nor its incarnation: the log has lost the records of its start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import msgspec

from steepest.cluster.port import Cluster, ReplicaId
from steepest.errors import RefusedError
from steepest.events import cluster as c
from steepest.logger import Logger
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Phase

logger = Logger()

FORGET_AFTER_MS = 60_000
"""Counted time for which a job that is over is kept: a log-collector that restarts reads it to its end meanwhile."""

TIDY_WITHIN_S = 60.0
"""A call that takes longer hangs; it is given up, and made again after the next start."""


class Forget(msgspec.Struct, frozen=True):
    """A job to be forgotten; there may be nothing of it any more."""

    job: str


class Stray(msgspec.Struct, frozen=True):
    """A process that should not run."""

    replica: ReplicaId
    incarnation: int


class Janitor:
    """Tidies up behind the jobs of one pool."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._work: asyncio.Queue[Forget | Stray] = asyncio.Queue()
        self._over: dict[str, int] = {}

    def caught_up(self, view: ClusterView) -> None:
        """What ended while no janitor ran may be there still."""
        over = [job.name for job in view.jobs if job.phase is Phase.ENDED and job.incarnation]
        self._over = {name: self._over.get(name, view.counted_ms) for name in over}

    def observe(self, view: ClusterView, event: c.ClusterEvent) -> None:
        """Notice what is over, and what is astray."""
        match event:
            case c.JobEnded(job=name):
                self._note_over(view, name)
            case c.ReplicaStarted(job=name):
                job = view.jobs.get(name)
                if job is None or job.phase is Phase.ENDED or event.incarnation != job.incarnation:
                    self._work.put_nowait(Stray(ReplicaId(name, event.replica), event.incarnation))
                self._note_over(view, name)
            case c.Tick():
                self._forget_due(view)

    def _note_over(self, view: ClusterView, name: str) -> None:
        if name in view.jobs and view.jobs[name].phase is Phase.ENDED:
            self._over.setdefault(name, view.counted_ms)

    def _forget_due(self, view: ClusterView) -> None:
        for name in [name for name, since in self._over.items() if view.counted_ms - since >= FORGET_AFTER_MS]:
            del self._over[name]
            self._work.put_nowait(Forget(name))

    async def run(self) -> None:
        """Tidy up until cancelled."""
        while True:
            match await self._work.get():
                case Forget() as forget:
                    await self._try(self._cluster.forget(forget.job), forget)
                case Stray() as stray:
                    await self._try(self._stop(stray), stray)

    async def _stop(self, stray: Stray) -> None:
        try:
            await self._cluster.stop(stray.replica, stray.incarnation, grace_s=0.0)
        except RefusedError:
            return  # it is gone, and that is all that was wanted
        logger.warning("a process that should not run is ended", stray=stray)

    async def _try(self, tidying: Awaitable[None], of: object) -> None:
        """Tidying up must not end the effector: what fails is logged, and done after the next start."""
        try:
            async with asyncio.timeout(TIDY_WITHIN_S):
                await tidying
        except Exception as error:  # noqa: BLE001 - as above
            logger.warning("could not tidy up", of=of, why=repr(error))
