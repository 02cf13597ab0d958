"""The loop of rounds: all jobs train for a round, then the policy decides for the active jobs.

It owns the order within a round. Jobs that arrive during a round wait for its end, and freed units stay idle until then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from steepest_lab.baselines.policy import AllocationPolicy
from steepest_lab.sim.allocation.application import Application, counts, progress_of
from steepest_lab.sim.allocation.events import RunTotals
from steepest_lab.sim.allocation.job import RunningJob
from steepest_lab.sim.allocation.shares import Shares


class RoundTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes: ``seconds`` from decision to decision; ``countdown_s``, how long new GPUs make no progress."""

    seconds: int
    countdown_s: float


def run_rounds(
    jobs: Sequence[RunningJob],
    applications: Mapping[int, Application],
    capacity: int,
    policy: AllocationPolicy,
    shares: Shares,
    *,
    every: RoundTiming,
) -> RunTotals:
    """Run jobs, sorted by submission, until all are complete.

    Args:
        jobs: Of the workload.
        applications: Each job's training, by its number.
        capacity: GPUs of the cluster.
        policy: Decides which jobs run.
        shares: Places them on nodes.
        every: The length of a round, and the countdown.

    Raises:
        InputError: A job's placement is beyond its tables.
    """
    round_s = every.seconds
    course = RunTotals()
    running: list[RunningJob] = []
    active = arrivals = now = 0
    while active or arrivals < len(jobs):
        if not active:
            now = max(now, round_s * (math.ceil(jobs[arrivals].submit_s / round_s) - 1))
        course.events += 1
        ended = []
        for job in running:
            application = applications[job.number]
            complete = application.advance(now, round_s)
            job.attained_s += round_s
            course.used += job.units * ((complete - now) if complete is not None else round_s)
            if complete is None:
                progress_of(job, application)
                job.report()
            else:
                job.finished_s = float(complete)
                ended.append(job)
        now += round_s
        for job in ended:
            running.remove(job)
            shares.release(job)
        first = arrivals
        while arrivals < len(jobs) and jobs[arrivals].submit_s <= now:
            arrivals += 1
        active += arrivals - first - len(ended)
        order = policy.order(now, jobs[first:arrivals], ended, capacity)
        running, fresh = shares.serve(order, running, course.events)
        for job in fresh:
            applications[job.number].place(counts(job.place), every.countdown_s)
            if job.start_s is None:
                job.start_s = float(now)
        policy.again_s(now, running)
    return course
