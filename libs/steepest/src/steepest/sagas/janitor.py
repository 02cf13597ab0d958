"""Removes ended jobs, and processes that should not run, from the cluster.

It owns the tidying. It must never know plans: those are the migrator's.

A job that is over is kept for a while, so that a log-collector can read its output to the end. A process is *astray* if
its job is over or has a newer incarnation: a migrator that had been paused started it after the cluster had forgotten the
job. It is astray as well if the log knows neither its job nor its incarnation: the log has lost the records of its start.
Its start may have been reported while no janitor ran, so a node's measured use says it again: the job has a part in it.
A cluster starts an incarnation only once those before it have ended, so a job that runs by the log as an older one has
stopped. The node of that one does not say so again, so the janitor does. The report of the newer one may have come while
no janitor ran, so one that starts looks each running job up. So it does where a START was begun again: the process may be
one that an earlier START has started, which the log has lost, and its end may have been reported when the log did not know
of it. Where a plan is in flight, this is looked up once that is over. It is astray if its job runs nowhere by the log and no
plan is about it: the node was declared to be gone while the start was on its way there, and came back. And it is astray if a
START of its job is refused because it still runs: plans start what has stopped by the log. A START that takes effect late
may have been reported while no janitor ran as well, so one that starts also looks up each job that is over; and it may have
been reported while a plan was in flight, so a job that ends and has not finished is looked up too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator

import msgspec

from steepest.cluster.port import Cluster, ReplicaId, Stopped
from steepest.errors import RefusedError
from steepest.events import cluster as c
from steepest.logger import Logger
from steepest.runtime.effector import Send
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Phase

logger = Logger()

FORGET_AFTER_MS = 60_000
"""Counted time for which a job that is over is kept: a log-collector that restarts reads it to its end meanwhile."""

TIDY_WITHIN_S = 60.0
"""A call that takes longer hangs; it is given up, and made again after the next start."""


class Forget(msgspec.Struct, frozen=True):
    """A job to be forgotten; there may be nothing of it any more."""

    job: str


class Running(msgspec.Struct, frozen=True):
    """The running processes of a job, by the log.

    Attributes:
        replicas: Each with its node; none of a job that does not run.
        incarnation: Theirs.
        has_plan: Whether a plan is in flight, whose steps say how they end.
    """

    replicas: tuple[tuple[ReplicaId, str], ...] = ()
    incarnation: int = 0
    has_plan: bool = False


class Stray(msgspec.Struct, frozen=True):
    """A process that should not run.

    Attributes:
        replaced: What it has replaced, and runs by the log.
    """

    replica: ReplicaId
    incarnation: int
    replaced: Running = Running()


class Ended(msgspec.Struct, frozen=True):
    """Replicas that have ended by the log.

    Attributes:
        before: Only their incarnations before this one; None: all.
    """

    replicas: tuple[ReplicaId, ...]
    before: int | None = None


class Keep(msgspec.Struct, frozen=True):
    """A checkpoint that a process must not delete; empty: none in particular."""

    replica: ReplicaId
    incarnation: int
    checkpoint: str


class Janitor:
    """Tidies up behind the jobs of one pool."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._work: asyncio.Queue[Forget | Running | Stray | Ended | Keep] = asyncio.Queue()
        self._over: dict[str, int] = {}
        self._left: dict[Running | Stray | Ended | Keep, None] = {}
        self._starts: dict[str, tuple[int, int]] = {}  # of each job: an incarnation, and how often its START was begun
        self._behind_plans: dict[str, int] = {}  # jobs to look up once no plan is about them, and which incarnation

    def caught_up(self, view: ClusterView) -> None:
        """Begin with the view's jobs: those that ended while no janitor ran may still be on the cluster."""
        over = [job.name for job in view.jobs if job.phase is Phase.ENDED and job.incarnation]
        self._over = {name: self._over.get(name, view.counted_ms) for name in over}
        for plan in view.in_flight.values():
            if plan.attempt and plan.step is c.Step.START:
                self._starts[plan.job] = (plan.next_incarnation, 1)
        for job in view.jobs:
            if job.alive and job.good is not None:
                self._work.put_nowait(_keep(job))
            if job.alive:
                self._work.put_nowait(_running(job))
                if job.plan is not None:
                    self._behind_plans[job.name] = job.incarnation
            elif job.phase is Phase.ENDED:
                self._work.put_nowait(Ended(_replicas(job)))

    def observe(self, view: ClusterView, event: c.ClusterEvent, *, accepted: bool = True) -> None:
        """Notice ended jobs and stray processes; ``accepted``: whether the event counts."""
        match event:
            case c.JobEnded(job=name) | c.JobRejected(job=name) if view.jobs.is_over(name):
                self._starts.pop(name, None)
                if (job := view.jobs.get(name)) is not None and job.outcome is not c.Outcome.FINISHED:
                    self._work.put_nowait(Ended(_replicas(job)))
                self._note_over(view, name)
            case c.ReplicaStarted():
                self._note_started(view, event)
            case c.NodeUsage():
                for lost in _unknown(view, event):
                    self._work.put_nowait(lost)
            case c.StepBegun(job=name, step=c.Step.START, incarnation=incarnation) if accepted:
                before, times = self._starts.get(name, (0, 0))
                self._starts[name] = (incarnation, times + 1 if incarnation == before else 1)
            case c.FindingOpened() | c.FindingEnded() if accepted and (job := view.jobs[event.job]).alive:
                self._work.put_nowait(_keep(job))
            case c.JobPlaced() if accepted:
                self._note_placed(view, event)
            case c.StepFailed(job=name, step=c.Step.START, code="still-running"):
                self._note_still_running(view.jobs.get(name))
            case c.Tick():
                self._forget_due(view)
                self._look_behind_plans(view)
                for left in self._left:
                    self._work.put_nowait(left)
                self._left.clear()

    def _note_started(self, view: ClusterView, event: c.ReplicaStarted) -> None:
        job = view.jobs.get(event.job)
        if job is None or job.phase is Phase.ENDED or event.incarnation != job.incarnation:
            self._work.put_nowait(_stray(event, job))
        elif _has_left(job, event) or not (job.alive or job.plan):
            self._work.put_nowait(Stray(ReplicaId(event.job, event.replica), event.incarnation))
        self._note_over(view, event.job)

    def _note_still_running(self, job: Job | None) -> None:
        if job is not None and not job.alive:
            self._work.put_nowait(Ended(_replicas(job), before=job.incarnation))

    def _note_placed(self, view: ClusterView, event: c.JobPlaced) -> None:
        started, times = self._starts.pop(event.job, (0, 0))
        job = view.jobs.get(event.job)
        if job is not None and job.good is not None:
            self._work.put_nowait(_keep(job))
        if times > 1 and job is not None and job.alive and job.incarnation == started == event.incarnation:
            self._work.put_nowait(_running(job))
            if job.plan is not None:
                self._behind_plans[job.name] = job.incarnation

    def _look_behind_plans(self, view: ClusterView) -> None:
        for name, incarnation in list(self._behind_plans.items()):
            job = view.jobs.get(name)
            if job is not None and job.plan is not None and job.incarnation == incarnation:
                continue
            del self._behind_plans[name]
            if job is not None and job.alive and job.incarnation == incarnation:
                self._work.put_nowait(_running(job))

    def _note_over(self, view: ClusterView, name: str) -> None:
        if name in view.jobs and view.jobs[name].phase is Phase.ENDED:
            self._over.setdefault(name, view.counted_ms)

    def _forget_due(self, view: ClusterView) -> None:
        for name in [name for name, since in self._over.items() if view.counted_ms - since >= FORGET_AFTER_MS]:
            del self._over[name]
            self._work.put_nowait(Forget(name))

    async def run(self, send: Send) -> None:
        """Tidy up until cancelled."""
        while True:
            match await self._work.get():
                case Forget() as forget:
                    await self._try(self._cluster.forget(forget.job), forget)
                case Running() as running if not await self._try(self._look_up(running, send), running):
                    self._left[running] = None
                case Keep() as keep:
                    kept = self._cluster.keep(keep.replica, keep.incarnation, keep.checkpoint)
                    if not await self._try(kept, keep):
                        self._left[keep] = None
                case Stray() as stray if not await self._try(self._stop(stray, send), stray):
                    self._left[stray] = None
                case Ended() as ended if not await self._try(self._clear(ended), ended):
                    self._left[ended] = None

    async def _look_up(self, running: Running, send: Send) -> None:
        """Nothing is stopped here: a newer incarnation may be in the log since this was to be looked up."""
        for replica, node in running.replicas:
            found = await self._cluster.lookup(replica, verify=False)
            if found is not None and found.incarnation > running.incarnation:
                await self._report_ends(running, found.incarnation, send)
                return
            if running.has_plan or found is None or found.incarnation < running.incarnation or not found.has_ended:
                continue
            found = await self._cluster.lookup(replica, verify=True)  # now with its newest checkpoint
            if found is not None and found.incarnation == running.incarnation:
                await send(_report(running, replica, node, found))

    async def _stop(self, stray: Stray, send: Send) -> None:
        if await self._ended(stray.replica, stray.incarnation) is not None:
            logger.warning("a process that should not run is ended", stray=stray)
        await self._report_ends(stray.replaced, stray.incarnation, send)

    async def _clear(self, ended: Ended) -> None:
        for replica in ended.replicas:
            found = await self._cluster.lookup(replica, verify=False)
            if found is None or found.has_ended:
                continue
            if ended.before is None or found.incarnation < ended.before:
                logger.warning("a process that has ended by the log is ended", replica=replica, of=found.incarnation)
                await self._ended(replica, found.incarnation)

    async def _report_ends(self, replaced: Running, newer: int, send: Send) -> None:
        for replica, node in replaced.replicas:
            end = await self._ended(replica, replaced.incarnation)
            end = end or Stopped()
            why = f"incarnation {newer} was started after it, and the log has lost that"
            await send(_report(replaced, replica, node, end, why))

    async def _ended(self, replica: ReplicaId, incarnation: int) -> Stopped | None:
        """How an incarnation has ended, by a kill if it runs; None if the cluster does not know it.

        Raises:
            ClusterError: It may still run: another refusal (a right that is missing for now) says nothing about that.
        """
        try:
            return await self._cluster.stop(replica, incarnation, grace_s=0.0)
        except RefusedError as error:
            if error.code != "unknown-incarnation":
                raise
            return None

    async def _try(self, tidying: Awaitable[None], of: object) -> bool:
        """Whether it was done. Tidying up must not end the effector: what fails is logged, and done later."""
        try:
            async with asyncio.timeout(TIDY_WITHIN_S):
                await tidying
        except Exception as error:  # noqa: BLE001 - as above
            logger.warning("could not tidy up", of=of, why=repr(error))
            return False
        return True


def _stray(started: c.ReplicaStarted, job: Job | None) -> Stray:
    stray = Stray(ReplicaId(started.job, started.replica), started.incarnation)
    if job is None or not job.alive or started.incarnation < job.incarnation:
        return stray
    return msgspec.structs.replace(stray, replaced=_running(job))


def _unknown(view: ClusterView, usage: c.NodeUsage) -> Iterator[Ended]:
    """Jobs that use CPU and that the log does not know, with those of their replicas that the use names."""
    for job in usage.jobs:
        if job not in view.jobs:
            named = sorted({0, *(one.replica for one in usage.progress if one.job == job)})
            yield Ended(tuple(ReplicaId(job, index) for index in named))


def _keep(job: Job) -> Keep:
    return Keep(ReplicaId(job.name, job.saver), job.incarnation, "" if job.good is None else job.good.name)


def _replicas(job: Job) -> tuple[ReplicaId, ...]:
    return tuple(ReplicaId(job.name, index) for index in range(job.spec.world))


def _running(job: Job) -> Running:
    places = [(0, job.started_on)]
    if job.spec.is_gang:
        places = [(index, replica.node) for index, replica in enumerate(job.replicas) if not replica.ended]
    replicas = tuple((ReplicaId(job.name, index), node) for index, node in places)
    return Running(replicas, job.incarnation, has_plan=job.plan is not None)


def _report(running: Running, replica: ReplicaId, node: str, end: Stopped, reason: str = "") -> c.ReplicaStopped:
    return c.ReplicaStopped(
        job=replica.job,
        replica=replica.index,
        incarnation=running.incarnation,
        node=node,
        exit_status=end.exit_status,
        step=end.step,
        checkpoint=end.checkpoint,
        reason=reason or end.reason,
    )


def _has_left(job: Job, event: c.ReplicaStarted) -> bool:
    """Whether a replica was stopped as a surplus one; a late report of its start is no harm, as it is stopped already."""
    return event.replica < len(job.replicas) and job.replicas[event.replica].left and job.replicas[event.replica].ended
