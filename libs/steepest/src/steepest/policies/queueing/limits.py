"""Whether a queue's limits leave room for a job, regardless of what the nodes have.

It owns this judgement. What the running jobs of a queue hold is kept by the view; what plans under way will take is added.
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest.events.parameters import QueueLimits
from steepest.events.requests import JobSpec
from steepest.policies.pending import Pending
from steepest.view.cluster_view import ClusterView
from steepest.view.queue_use import Holdings


class LimitsOfQueues:
    """The limits of a view's queues, looked at with the plans of one decider under way."""

    def __init__(self, view: ClusterView, pending: Pending) -> None:
        self._view = view
        self._pending = pending

    def of(self, queue: str) -> QueueLimits | None:
        """The limits of a queue, if it has any."""
        return next((limits for limits in self._view.parameters.queueing.limits if limits.queue == queue), None)

    def allow(self, spec: JobSpec, sizes: tuple[int, ...] = ()) -> bool:
        """Whether a job's queue may have so many replicas of each of its roles more; ``sizes`` empty: all that it names."""
        limits = self.of(spec.queue)
        return limits is None or self.within(limits, spec, sizes) is None

    def within(self, limits: QueueLimits, spec: JobSpec, sizes: Sequence[int] = ()) -> str | None:
        """Which resource a job would exceed the limits of, in words; None where it exceeds none."""
        then = self._view.jobs.use.of(spec.queue) + self._coming(spec.queue) + wanted(spec, sizes)
        for name, amount, most in (
            ("replicas", then.replicas, limits.replicas),
            ("CPU", then.cpu_m, limits.cpu_m),
            ("GPUs", then.gpu_m, limits.gpu_m),
        ):
            if most is not None and amount > most:
                return name
        return None

    def _coming(self, queue: str) -> Holdings:
        held = Holdings()
        for plan in self._pending.plans.values():
            job = self._view.jobs.get(plan.job)
            if plan.source is None and job is not None and job.spec.queue == queue:
                for places in plan.targets:
                    held += Holdings(places.replicas, places.requests.cpu_m, places.requests.all_gpus_m)
        return held


def wanted(spec: JobSpec, sizes: Sequence[int] = ()) -> Holdings:
    """What a job holds with so many replicas of each role; empty: with all that it names."""
    roles = spec.all_roles
    held = Holdings()
    for role, count in zip(roles, sizes or [role.replicas for role in roles], strict=True):
        held += Holdings(count, role.requests.cpu_m * count, role.requests.all_gpus_m * count)
    return held
