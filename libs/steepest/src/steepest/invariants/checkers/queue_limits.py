"""Checker: the jobs of a queue never hold more together than its limits allow."""

from __future__ import annotations

from typing import NamedTuple

from steepest.events import cluster as c
from steepest.events.parameters import QueueLimits
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker


class QueueShare(NamedTuple):
    """What a job holds of a resource, and the most since its plan was made; by which plan, and the limit there."""

    amount: int = 0
    peak: int = 0
    made: int = -1
    most: int | None = None


class QueueLimitsKept(Checker):
    """No plan begins by which the jobs of a queue hold more of a resource than its limit where the plan is made.

    A job holds what its processes ask for that may run, and what the plan gives it whose first step has begun; the larger of
    the two. Its share is as old as the plan by which it became that large; a plan may take it back to what it had where the
    plan was made, though its processes have ended since. So
    of the shares of a queue, each one and the older ones are within the limit that was in force where that one was planned.
    A limit that is lowered later breaks nothing.
    """

    name = "queue-limits"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._limits: dict[str, QueueLimits] = {}
        self._planned: dict[str, QueueLimits] = {}
        self._queues: dict[str, str] = {}
        self._shares: dict[tuple[str, str], dict[str, QueueShare]] = {}

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        jobs: tuple[str, ...] = (getattr(event, "job", ""),)
        match event:
            case c.PoolConfigured():
                self._limits = {one.queue: one for one in event.parameters.queueing.limits}
                jobs = tuple(self._queues)
            case c.JobSubmitted():
                self._queues.setdefault(event.job, event.spec.queue)
            case c.PlacementPlanned() | c.TransitionPlanned() if found := self._limits.get(
                self._queues.get(event.job, "")
            ):
                self._planned.setdefault(event.plan, found)
            case c.NodeGone():
                jobs = tuple(self._queues)
        for job in jobs if self._limits or self._planned else ():
            if job in self._queues:
                self._look(job, received.offset)
        if isinstance(event, c.JobEnded):
            self._queues.pop(event.job, None)

    def _look(self, job: str, offset: int) -> None:
        """See what a job holds now, and where that is more, judge its share and the younger ones."""
        plans = self._folds.steps.in_flight(job)
        made, plan = max(((plan.made, plan.plan) for plan in plans if plan.begun is not None), default=(-1, ""))
        held, queue = self._folds.reservations.of(job), self._queues[job]
        for resource, now in (("replicas", held.replicas), ("cpu_m", held.cpu_m), ("gpu_m", held.all_gpus_m)):
            shares, total = self._shares.setdefault((queue, resource), {}), 0
            mine = shares.pop(job, QueueShare())
            if now <= mine.peak:
                if now or plans:
                    shares[job] = mine._replace(amount=now, peak=mine.peak if plans else now)
                continue
            shares[job] = QueueShare(now, now, made, getattr(self._planned.get(plan), resource, None))
            for other, share in sorted(shares.items(), key=lambda one: one[1].made):
                total += share.amount
                if share.made >= made and share.most is not None and total > share.most:
                    words = f"queue {queue} holds {total} of {share.most} ({resource}) with job {other}"
                    self.breach(words, share.made, offset)
