"""The resizer: gives each job the CPU limit that FlowCon's newest plan has for it, and reports what the engine answered.

A limit is a value that is set and not a step that is taken, so nothing fences it: setting it twice is setting it once,
the call names the incarnation, and the newest plan holds. Whoever starts sets every limit anew that its log holds,
because a cap may have been lost while nobody looked. What nobody knows to have worked is set again after a hold; what
the engine refuses for sure is the planner's business. An outcome that comes too late tells that somebody has set an
older limit after a newer one: the newer one is set again.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from steepest.cluster.port import Cluster, ReplicaId
from steepest.errors import ClusterError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job

logger = structlog.get_logger(__name__)

LIMIT_S = 15.0
"""How long a node may take to set a limit."""


class Wish(msgspec.Struct, frozen=True):
    """A limit that an incarnation is to have.

    Attributes:
        told: Whether the log holds the engine's answer already.
    """

    plan: str
    node: str
    job: str
    incarnation: int
    cpu_m: int | None
    told: bool


class Resizer(Effector):
    """Sets CPU limits, of one job one after the other, of several side by side."""

    name = "resizer"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._wishes: dict[str, Wish] = {}
        self._unclear: dict[str, None] = {}
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._busy: dict[str, None] = {}

    # --- following the log (nothing here waits) ------------------------------------------------------------------------

    def caught_up(self, view: ClusterView) -> None:
        """Set every limit anew."""
        for job in view.jobs:
            if job.limit is not None:
                self._want(job)

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Notice what is to be set."""
        match received.event:
            case c.LimitsPlanned() as event if accepted:
                for limit in event.limits:
                    job = view.jobs.get(limit.job)
                    if job is not None and job.limit is not None and not job.limit.answered:
                        self._want(job)
            case c.LimitsApplied() as event if accepted:
                self._unclear.pop(event.job, None)
            case c.LimitsApplied() as event:
                if (job := view.touched) is not None and _differs(job, event):
                    self._want(job)
            case c.LimitsRefused() as event if accepted and not event.definite:
                self._unclear[event.job] = None
            case c.Tick():
                self._ask_again(view)

    def _want(self, job: Job) -> None:
        limit = job.limit
        assert limit is not None  # noqa: S101 - callers have looked
        self._wishes[job.name] = Wish(
            plan=limit.plan,
            node=job.nodes[0],
            job=job.name,
            incarnation=job.incarnation,
            cpu_m=limit.cpu_m,
            told=limit.answered,
        )
        self._due.put_nowait(job.name)

    def _ask_again(self, view: ClusterView) -> None:
        for name in list(self._unclear):
            job = view.jobs.get(name)
            if job is None or job.limit is None:
                del self._unclear[name]
            elif job.limit.not_before_counted_ms <= view.counted_ms:
                del self._unclear[name]
                self._want(job)

    # --- doing ---------------------------------------------------------------------------------------------------------

    async def run(self, send: Send) -> None:
        """Set what is wanted."""
        async with asyncio.TaskGroup() as group:
            while True:
                job = await self._due.get()
                if job not in self._busy and job in self._wishes:
                    self._busy[job] = None
                    group.create_task(self._serve(job, send))

    async def _serve(self, job: str, send: Send) -> None:
        """Set the newest wish for a job, until there is none."""
        try:
            while (wish := self._wishes.pop(job, None)) is not None:
                outcome = await self._set(wish)
                if not wish.told:
                    await send(outcome)
                elif isinstance(outcome, c.LimitsRefused) and not outcome.definite:
                    self._unclear[job] = None
        finally:
            del self._busy[job]

    async def _set(self, wish: Wish) -> c.LimitsApplied | c.LimitsRefused:
        try:
            async with asyncio.timeout(LIMIT_S):
                await self._cluster.limit(ReplicaId(wish.job), wish.incarnation, wish.cpu_m)
        except ClusterError as error:
            return _refused(wish, error.code, str(error), definite=error.definite)
        except TimeoutError:
            return _refused(wish, "timeout", "the cluster did not answer in time", definite=False)
        except Exception as error:
            logger.exception("a limit failed in a way that no adapter should", wish=wish)
            return _refused(wish, "bug", f"{type(error).__name__}: {error}", definite=False)
        return c.LimitsApplied(
            plan=wish.plan, node=wish.node, job=wish.job, incarnation=wish.incarnation, cpu_m=wish.cpu_m
        )


def _refused(wish: Wish, code: str, message: str, *, definite: bool) -> c.LimitsRefused:
    logger.warning("a limit was not set", job=wish.job, cpu_m=wish.cpu_m, code=code, why=message)
    return c.LimitsRefused(
        plan=wish.plan,
        node=wish.node,
        job=wish.job,
        incarnation=wish.incarnation,
        code=code,
        definite=definite,
        message=message[:2000],
    )


def _differs(job: Job, told: c.LimitsApplied) -> bool:
    """Whether an outcome that does not count says that a running job has another limit than it is to have."""
    limit = job.limit
    return limit is not None and told.incarnation == job.incarnation and told.cpu_m != limit.cpu_m
