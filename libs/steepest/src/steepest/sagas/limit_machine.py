"""Decides which CPU limits to set: those of the newest plans, and those that may not be in force.

A limit is a value that is set and not a step that is taken, so nothing fences it: setting it twice is setting it once, the
call names the incarnation, and the newest plan holds. A resizer that starts sets every limit of its log again, because one
may have been lost. A limit that may or may not have been set is set again after a hold; one that the engine refuses for
sure is the planner's business. An outcome that comes too late shows that an older limit was set after a newer one: the newer
one is set again. Pure: it leaves what is due to a shell.
"""

from __future__ import annotations

import msgspec

from steepest.cluster.port import ReplicaId
from steepest.errors import ClusterError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job

OF_LIMITS = frozenset({c.LimitsPlanned, c.LimitsApplied, c.LimitsRefused})
"""Events that change which limits are due; few records of a log are among them."""


class LimitTask(msgspec.Struct, frozen=True):
    """A limit to set for an incarnation.

    Attributes:
        indices: Its replicas that run, each of which is to have it.
        answered: Whether the log holds the engine's answer already.
        trace: The ``traceparent`` of the plan, and of the answer.
    """

    plan: str
    node: str
    job: str
    incarnation: int
    cpu_m: int | None
    answered: bool
    indices: tuple[int, ...] = (0,)
    trace: str = ""

    @property
    def replicas(self) -> tuple[ReplicaId, ...]:
        """The replicas that are limited."""
        return tuple(ReplicaId(self.job, index) for index in self.indices)


class LimitMachine:
    """Follows the limits of one pool.

    Attributes:
        due: What the shell is to set, in order; it empties the list.
    """

    def __init__(self) -> None:
        self.due: list[LimitTask] = []
        self._unclear: dict[str, None] = {}

    def caught_up(self, view: ClusterView) -> None:
        """Set every limit again."""
        for job in view.jobs:
            if job.limit is not None:
                self._want(job)

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Note the limits that the record changes."""
        event = received.event
        if type(event) in OF_LIMITS:
            self._note(view, event, accepted=accepted)
        elif self._unclear and isinstance(event, c.Tick):
            self._ask_again(view)

    def answer(self, task: LimitTask, error: ClusterError | None) -> c.LimitsApplied | c.LimitsRefused | None:
        """The outcome to append: that of a limit which was set, or of one that failed; None where the log holds it."""
        if task.answered:
            if error is not None and not error.definite:
                self._unclear[task.job] = None
            return None
        return _applied(task) if error is None else _refused(task, error)

    def _note(self, view: ClusterView, event: c.ClusterEvent, *, accepted: bool) -> None:
        match event:
            case c.LimitsPlanned() if accepted:
                for limit in event.limits:
                    job = view.jobs.get(limit.job)
                    if job is not None and job.limit is not None and not job.limit.answered:
                        self._want(job)
            case c.LimitsApplied() if accepted:
                self._unclear.pop(event.job, None)
            case c.LimitsApplied():
                if (job := view.touched) is not None and _differs(job, event):
                    self._want(job)
            case c.LimitsRefused(definite=False) if accepted:
                self._unclear[event.job] = None

    def _want(self, job: Job) -> None:
        limit = job.limit
        assert limit is not None  # noqa: S101 - callers have looked
        self.due.append(
            LimitTask(
                plan=limit.plan,
                node=job.nodes[0],
                job=job.name,
                incarnation=job.incarnation,
                cpu_m=limit.cpu_m,
                answered=limit.answered,
                indices=tuple(index for index, one in enumerate(job.replicas) if one.alive) if job.replicas else (0,),
                trace=limit.trace,
            )
        )

    def _ask_again(self, view: ClusterView) -> None:
        for name in list(self._unclear):
            job = view.jobs.get(name)
            if job is None or job.limit is None:
                del self._unclear[name]
            elif job.limit.not_before_counted_ms <= view.counted_ms:
                del self._unclear[name]
                self._want(job)


def _applied(task: LimitTask) -> c.LimitsApplied:
    return c.LimitsApplied(plan=task.plan, node=task.node, job=task.job, incarnation=task.incarnation, cpu_m=task.cpu_m)


def _refused(task: LimitTask, error: ClusterError) -> c.LimitsRefused:
    return c.LimitsRefused(
        plan=task.plan,
        node=task.node,
        job=task.job,
        incarnation=task.incarnation,
        code=error.code,
        definite=error.definite,
        message=str(error)[:2000],
    )


def _differs(job: Job, outcome: c.LimitsApplied) -> bool:
    """Whether an outcome that does not count shows that a running job has another limit than the planned one."""
    limit = job.limit
    return limit is not None and outcome.incarnation == job.incarnation and outcome.cpu_m != limit.cpu_m
