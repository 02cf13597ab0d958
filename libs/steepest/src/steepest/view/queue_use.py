"""What the jobs of each queue hold together. It must never know limits.

A job holds all that a valid plan gives it from the plan's record on, also while the plan waits for room. One that is moved
or scaled holds the larger of what it has and what it gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steepest.events.common import Resources
from steepest.events.requests import JobSpec
from steepest.view.orders.changes import Changes
from steepest.view.state import CLEARING, Job, Phase, Plan


class QueueUse:
    """Sums by queue, kept as jobs change.

    Attributes:
        falls: The queues whose jobs hold less than before.
    """

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        """Begin without jobs, in a pool with these plans."""
        self.falls: Changes[str] = Changes()
        self._plans = plans
        self._jobs: dict[str, Resources] = {}
        self._queues: dict[str, Resources] = {}

    def of(self, queue: str) -> Resources:
        """What the jobs of a queue hold."""
        return self._queues.get(queue, Resources())

    def of_job(self, job: Job) -> Resources:
        """What a job holds."""
        return self._jobs.get(job.name, Resources())

    def update(self, job: Job) -> None:
        """A job may hold more or less than before."""
        if job.phase is not Phase.RUNNING and job.name not in self._jobs:
            return
        before = self.of_job(job)
        now = _by_plan(job, self._plans.get(job.plan or ""))
        if now == before:
            return
        queue = job.spec.queue
        self._jobs[job.name] = now
        if now == Resources():
            del self._jobs[job.name]
        if not before.fits(now):
            self.falls.note(queue)
        total = self._queues[queue] = self.of(queue) + now - before
        if total == Resources():
            del self._queues[queue]


def holdings(spec: JobSpec, sizes: Sequence[int] = ()) -> Resources:
    """What a job holds with this number of replicas of each role; empty: with all that it names."""
    held = Resources()
    for role, count in zip(spec.all_roles, sizes or spec.counts(), strict=True):
        held += role.requests.of_a_replica.times(count)
    return held


def _by_plan(job: Job, plan: Plan | None) -> Resources:
    if job.phase is not Phase.RUNNING:
        return Resources()
    if not job.spec.is_gang or plan is None or plan.kind in CLEARING:
        return holdings(job.spec, job.running_sizes)
    has = holdings(job.spec, plan.source_sizes if plan.sources else job.running_sizes)
    return has.larger(holdings(job.spec, plan.sizes)) if plan.targets else has
