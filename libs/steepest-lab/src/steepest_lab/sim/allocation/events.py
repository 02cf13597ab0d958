"""The event loop: the policy decides at each arrival, end, and time that it requested.

It owns the order at one instant: ends, then arrivals, then the progress of all jobs, then the decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from steepest_lab.baselines.policy import AllocationPolicy
from steepest_lab.sim.allocation.costs import Costs
from steepest_lab.sim.allocation.job import RunningJob
from steepest_lab.sim.allocation.shares import Shares

STALLED = 10_000
"""Consecutive events without progress after which a run is ended: its starts cost more time than its policy grants."""


class RunTotals(msgspec.Struct):
    """Figures of a run, apart from the results of its jobs.

    Attributes:
        used: Units in use, integrated over time in seconds.
        stalled: Whether the run was ended because no job made progress.
    """

    used: float = 0.0
    events: int = 0
    stalled: bool = False


def run_events(
    jobs: Sequence[RunningJob], capacity: int, policy: AllocationPolicy, shares: Shares, costs: Costs
) -> RunTotals:
    """Run jobs, sorted by submission, until all have ended or no event is left."""
    course = RunTotals()
    running: list[RunningJob] = []
    ending: list[RunningJob] = []
    now = last = 0.0
    again = end = math.inf
    arrivals, in_use, idle = 0, 0, 0
    submissions = [job.submit_s for job in jobs] + [math.inf]
    while True:
        now = min(submissions[arrivals], end, again)
        if now == math.inf:
            return course
        course.used += in_use * (now - last)
        course.events += 1
        ended: list[RunningJob] = []
        if end <= now:
            ended = ending
            _end(ended, now, running, shares)
        first = arrivals
        while submissions[arrivals] <= now:
            arrivals += 1
        moved = costs.advance(running, now, last)
        idle = 0 if moved or ended or arrivals > first else idle + 1
        if idle > STALLED:
            course.stalled = True
            return course
        for job in running:
            job.report()
        order = policy.order(now, jobs[first:arrivals], ended, capacity)
        running, fresh = shares.serve(order, running, course.events)
        costs.begun(fresh, now)
        for job in fresh:
            if job.start_s is None:
                job.start_s = now
        again = policy.again_s(now, running)
        end, ending = costs.next_end(running, now)
        in_use = sum([job.units for job in running])
        last = now


def _end(ended: Sequence[RunningJob], now: float, running: list[RunningJob], shares: Shares) -> None:
    for job in ended:
        job.finished_s = now
        running.remove(job)
        shares.release(job)
