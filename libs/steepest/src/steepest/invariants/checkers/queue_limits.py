"""Checker: the jobs of a queue or of a user never hold more together than its limits allow, nor are more admitted."""

from __future__ import annotations

from typing import NamedTuple

from steepest.events import cluster as c
from steepest.events.parameters import QueueLimits, QueueParameters, accounts
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker


class QueueShare(NamedTuple):
    """What a job holds of a resource, and the most since its plan was made; by which plan, and the limit there."""

    amount: int = 0
    peak: int = 0
    made: int = -1
    most: int | None = None


class _SubmittedJob(NamedTuple):
    """A job that is not over, with the rules in force where it was submitted."""

    request: str
    accounts: tuple[str, ...]
    rules: QueueParameters
    offset: int
    admitted: bool = False


class QueueLimitsKept(Checker):
    """No plan begins by which the jobs of a queue or user hold more of a resource than its limit where the plan is made.

    A job holds what its processes ask for that may run, and what the plan gives it whose first step has begun; the larger of
    the two. Its share is as old as the plan by which it became that large; a plan may take it back to what it had where the
    plan was made, though its processes have ended since. So of the shares of a queue or user, each one and the older ones
    are within the limit that was in force where that one was planned. A limit that is lowered later breaks nothing.

    Nor is a job admitted while as many earlier ones are not over as are allowed, both where it was submitted and where it is
    admitted.
    """

    name = "queue-limits"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._rules = QueueParameters()
        self._planned: dict[tuple[str, str], QueueLimits] = {}
        self._jobs: dict[str, _SubmittedJob] = {}
        self._shares: dict[tuple[str, str], dict[str, QueueShare]] = {}

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        jobs: tuple[str, ...] = (getattr(event, "job", ""),)
        match event:
            case c.PoolConfigured():
                self._rules = event.parameters.queueing
                jobs = tuple(self._jobs)
            case c.JobSubmitted() if event.job not in self._jobs:
                owned = accounts(event.spec.queue, event.user)
                self._jobs[event.job] = _SubmittedJob(event.request, owned, self._rules, received.offset)
            case c.JobAdmitted() if event.job in self._jobs and not self._jobs[event.job].admitted:
                self._admit(event.job, received.offset)
            case c.PlacementPlanned() | c.TransitionPlanned() if event.job in self._jobs:
                for account in self._jobs[event.job].accounts:
                    if found := self._rules.limits_on(account):
                        self._planned.setdefault((event.plan, account), found)
            case c.NodeGone():
                jobs = tuple(self._jobs)
        for job in jobs if self._rules.limits or self._planned else ():
            for account in self._jobs[job].accounts if job in self._jobs else ():
                self._look(job, account, received.offset)
        match event:
            case c.JobEnded(job=job):
                self._jobs.pop(job, None)
            case c.JobRejected(job=job, request=request) if job in self._jobs and self._jobs[job].request == request:
                del self._jobs[job]

    def _admit(self, name: str, offset: int) -> None:
        job = self._jobs[name]
        for account in job.accounts if self._rules.limits else ():
            both = [rules.limits_on(account) for rules in (job.rules, self._rules)]
            allowed = [one.jobs for one in both if one is not None and one.jobs is not None]
            before = [one for one in self._jobs.values() if one.admitted and one.offset < job.offset]
            unfinished = sum(account in one.accounts for one in before)
            if len(allowed) == len(both) and unfinished >= max(allowed):
                words = f"{account} has {unfinished + 1} jobs of {max(allowed)} with job {name}"
                self.breach(words, job.offset, offset)
        self._jobs[name] = job._replace(admitted=True)

    def _look(self, job: str, account: str, offset: int) -> None:
        """See what a job holds now, and where that is more, judge its share and the younger ones."""
        plans = self._folds.steps.in_flight(job)
        made, plan = max(((plan.made, plan.plan) for plan in plans if plan.begun is not None), default=(-1, ""))
        held = self._folds.reservations.of(job)
        for resource, now in (
            ("replicas", held.replicas),
            ("cpu_m", held.cpu_m),
            ("memory_mib", held.memory_mib),
            ("gpu_m", held.all_gpus_m),
        ):
            shares, total = self._shares.setdefault((account, resource), {}), 0
            mine = shares.pop(job, QueueShare())
            if now <= mine.peak:
                if now or plans:
                    shares[job] = mine._replace(amount=now, peak=mine.peak if plans else now)
                continue
            shares[job] = QueueShare(now, now, made, getattr(self._planned.get((plan, account)), resource, None))
            for other, share in sorted(shares.items(), key=lambda one: one[1].made):
                total += share.amount
                if share.made >= made and share.most is not None and total > share.most:
                    words = f"{account} holds {total} of {share.most} ({resource}) with job {other}"
                    self.breach(words, share.made, offset)
