"""``tiresias``: two-dimensional least attained service in discrete queues (Tiresias, NSDI 2019, §3.2).

A job's attained service is its running seconds times its GPUs. Jobs enter the first of some queues and drop one queue down
when their service reaches that queue's limit; queues are served first to last, and within one in the order of arrival. So
jobs with similar service do not preempt each other. The simulator published with the paper has three queues with limits of
3,250 and 7,200 GPU-seconds, which are the defaults. In it, running jobs come before waiting ones of the same queue. A job
that has waited ``promote`` times as long as it has run returns to the first queue, and its service is counted from zero
(otherwise it would be demoted again immediately); as in that simulator, this is off by default.

Because of rounding, a sum of times can be slightly below a limit at the very time that was computed for reaching it; the
simulation would then repeat that time without end. The comparison therefore has a tolerance of a microsecond.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from steepest_lab.baselines.policy import ActiveJob, ServiceOrder

SLACK_S = 1e-6


class TiresiasParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of Tiresias.

    Attributes:
        limits: Service (units times seconds) at which a job leaves each queue except the last.
        running_first: Whether a queue's running jobs come before its waiting ones.
        whole_seconds: Whether the running time at which a limit is checked is rounded up to whole seconds.
        promote: A waiting job returns to the first queue after this many times its running time; None: never.
    """

    limits: tuple[float, ...] = (3250.0, 7200.0)
    running_first: bool = True
    whole_seconds: bool = False
    promote: float | None = None


class TiresiasState(msgspec.Struct):
    """The queues and the data for their order.

    Attributes:
        queues: The jobs of each queue, first queue first.
        level: A job's number to the index of its queue.
        waits_since: A waiting job's number to the start of its wait; only with promotion.
        counts_from: A promoted job's number to the running seconds that no longer count.
    """

    queues: list[list[ActiveJob]]
    level: dict[int, int] = {}
    waits_since: dict[int, float] = {}
    counts_from: dict[int, float] = {}


class Tiresias:
    """Two-dimensional least attained service, in queues (Tiresias, NSDI 2019)."""

    name: ClassVar[str] = "tiresias"
    reads_losses: ClassVar[bool] = False

    def __init__(self, parameters: TiresiasParameters | None = None, state: TiresiasState | None = None) -> None:
        self.parameters = parameters or TiresiasParameters()
        self.state = state or TiresiasState(queues=[[] for _ in range(len(self.parameters.limits) + 1)])

    def order(
        self, now_s: float, arrived: Sequence[ActiveJob], ended: Sequence[ActiveJob], capacity: int
    ) -> ServiceOrder:
        """Update the queues; return their jobs, queue after queue."""
        del capacity
        state = self.state
        if self.parameters.running_first:
            state.queues = [
                [job for job in queue if job.units] + [job for job in queue if not job.units]
                if len(queue) > 1
                else queue
                for queue in state.queues
            ]
        for job in ended:
            state.queues[state.level.pop(job.number)].remove(job)
            state.counts_from.pop(job.number, None)
        for job in arrived:
            state.queues[0].append(job)
            state.level[job.number] = 0
        self._demote()
        if self.parameters.promote is not None:
            self._promote(now_s, self.parameters.promote)
        return ServiceOrder(jobs=[job for queue in state.queues for job in queue])

    def again_s(self, now_s: float, running: Sequence[ActiveJob]) -> float:
        """The next time at which a running job reaches its queue's limit, or a waiting one has waited long enough."""
        limits, level = self.parameters.limits, self.state.level
        last, up = len(limits), self.parameters.whole_seconds
        earliest = math.inf
        for job in running:
            queue = level[job.number]
            if queue < last:
                needed = limits[queue] / job.asked
                at = now_s + (math.ceil(needed) if up else needed) - self._had(job)
                earliest = min(earliest, at)
        if self.parameters.promote is not None:
            earliest = min(earliest, self._next_promotion(now_s, running, self.parameters.promote))
        return max(earliest, now_s + SLACK_S)

    def _had(self, job: ActiveJob) -> float:
        """The running seconds that count."""
        before = self.state.counts_from
        return job.attained_s - before.get(job.number, 0.0) if before else job.attained_s

    def _demote(self) -> None:
        """Move every running job that has reached its queue's limit to the end of the next queue, at most one queue down.

        Jobs that are demoted together are appended in the order of their submission.
        """
        state = self.state
        dropped: list[tuple[int, list[ActiveJob]]] = []
        for number, limit in enumerate(self.parameters.limits):
            queue = state.queues[number]
            over = [job for job in queue if job.units and (self._had(job) + SLACK_S) * job.asked >= limit]
            if over:
                state.queues[number] = [job for job in queue if job not in over]
                dropped.append((number + 1, over))
        for number, jobs in dropped:
            jobs.sort(key=lambda job: job.number)
            state.queues[number].extend(jobs)
            for job in jobs:
                state.level[job.number] = number

    def _promote(self, now_s: float, times: float) -> None:
        state = self.state
        for queue in state.queues[1:]:
            for job in [job for job in queue if not job.units]:
                since = state.waits_since.setdefault(job.number, now_s)
                if now_s - since + SLACK_S >= times * self._had(job):
                    queue.remove(job)
                    state.queues[0].append(job)
                    state.level[job.number] = 0
                    state.counts_from[job.number] = job.attained_s
                    del state.waits_since[job.number]

    def _next_promotion(self, now_s: float, running: Sequence[ActiveJob], times: float) -> float:
        state = self.state
        for job in running:
            state.waits_since.pop(job.number, None)
        waiting = [job for queue in state.queues[1:] for job in queue if not job.units]
        return min(
            (state.waits_since.setdefault(job.number, now_s) + times * self._had(job) for job in waiting),
            default=math.inf,
        )
