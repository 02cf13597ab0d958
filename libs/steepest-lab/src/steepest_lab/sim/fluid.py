"""A bound for completion times: shortest remaining time first as a fluid, with all sizes known as jobs come.

All nodes' CPU is one machine, of which each job uses at most its demand. Nothing is measured, moved, launched or limited. On
one machine of which each job can use all, no order has a lower mean (Schrage, 1968). With demands it is the usual
yardstick, and no proven bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class FluidJob(msgspec.Struct, frozen=True):
    """A job: when it comes, in seconds, its work in core-seconds, and the cores that it can use."""

    at_s: float
    work: float
    demand: float


def fluid_srpt(jobs: Sequence[FluidJob], cores: float) -> list[float]:
    """Completion times in seconds, each from its job's arrival.

    Args:
        jobs: With work and demands above 0.
        cores: Of the machine.
    """
    coming = sorted(range(len(jobs)), key=lambda number: (jobs[number].at_s, number), reverse=True)
    left: dict[int, float] = {}
    took, now_s = [0.0] * len(jobs), 0.0
    while coming or left:
        if not left:
            now_s = max(now_s, jobs[coming[-1]].at_s)
        while coming and jobs[coming[-1]].at_s <= now_s:
            number = coming.pop()
            left[number] = jobs[number].work
        free, rates = cores, {}
        for number in sorted(left, key=lambda number: (left[number], number)):
            rates[number] = min(jobs[number].demand, free)
            free -= rates[number]
        step_s = min(left[number] / rate for number, rate in rates.items() if rate > 0)
        if coming:
            step_s = min(step_s, jobs[coming[-1]].at_s - now_s)
        now_s += step_s
        for number, rate in rates.items():
            left[number] -= rate * step_s
            if left[number] <= ENDED * jobs[number].work:
                took[number] = now_s - jobs[number].at_s
                del left[number]
    return took


ENDED = 1e-9
"""A job ends when so little of its work is left: sums of floats."""
