"""The greedy allocation of ``optimus`` and ``slaq``: a first unit for every job, then each further one where it gains most.

They decide in rounds: a job that arrives in between waits for the next round, and resources that become free stay idle
until then.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

import msgspec

from steepest_lab.baselines.policy import Active, ActiveJob

SLACK_S = 1e-6


class RoundsParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes: ``round_s``, seconds between decisions; 0: decide at every event."""

    round_s: float


class RoundsState(Active):
    """Attributes: ``decided``, the number of the last round with a decision."""

    decided: int = -1


class Rounds:
    """Schedules decisions at whole multiples of a round."""

    parameters: RoundsParameters
    state: RoundsState

    def is_due(self, now_s: float) -> bool:
        """Whether this is the start of a round without a decision yet."""
        length = self.parameters.round_s
        if not length:
            return True
        number = math.floor((now_s + SLACK_S) / length)
        if now_s - number * length > SLACK_S or number == self.state.decided:
            return False
        self.state.decided = number
        return True

    def again_s(self, now_s: float, running: Sequence[ActiveJob]) -> float:
        """At the next round, if there is any job."""
        del running
        length = self.parameters.round_s
        if not length or not self.state.jobs:
            return math.inf
        return (math.floor((now_s + SLACK_S) / length) + 1) * length


def share_out(
    jobs: Sequence[ActiveJob], capacity: int, gain: Callable[[ActiveJob, int, int], float]
) -> list[tuple[ActiveJob, int]]:
    """The units of each job that gets any, in the order of ``jobs``.

    Every job gets its first quantum while units last. Then each further quantum goes to the job with the greatest
    ``gain(job, before, after)``, in the policy's own unit; ties go to the first job. It ends when no gain is above 0.
    """
    units: list[int] = []
    for job in jobs:
        first = min(job.quantum, job.most)
        units.append(first if first <= capacity else 0)
        capacity -= units[-1]
    heap: list[tuple[float, int, int]] = []

    def offer(place: int) -> None:
        job, has = jobs[place], units[place]
        then = min(has + job.quantum, job.most)
        if has and has < then <= has + capacity:
            worth = gain(job, has, then)
            if worth > 0:
                heapq.heappush(heap, (-worth, place, then))

    for place in range(len(jobs)):
        offer(place)
    while heap and capacity:
        _, place, then = heapq.heappop(heap)
        if then - units[place] <= capacity:
            capacity -= then - units[place]
            units[place] = then
            offer(place)
    return [(job, has) for job, has in zip(jobs, units, strict=True) if has]
