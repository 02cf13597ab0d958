"""The default scheduler's run in a few lines: every job on its first worker, each worker's CPU shared fairly.

It is what the lengths of the thesis' models were chosen with, and as plain as it can be, so that the published figures
are compared with nothing of the simulator's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest_lab.sim.workload import SimJob


def completions(
    jobs: Sequence[SimJob], capacities_m: Sequence[float], workers: Sequence[int], contention: float
) -> list[float]:
    """The completion time of each job, in seconds from its submission.

    ``capacities_m`` are the workers' millicores, ``workers`` each job's place among them. A job's share is the largest that
    all can have who want more, and its speed is its share of what it could use, less what contention costs.
    """
    left: list[dict[int, float]] = [{} for _ in capacities_m]
    ends: dict[int, float] = {}
    waiting = list(range(len(jobs)))
    now = 0.0
    while waiting or any(left):
        speeds = [_speeds(jobs, here, capacity, contention) for here, capacity in zip(left, capacities_m, strict=True)]
        events = [now + here[one] / speed[one] for here, speed in zip(left, speeds, strict=True) for one in here]
        if waiting:
            events.append(jobs[waiting[0]].submit_s)
        passed, now = min(events) - now, min(events)
        for here, speed in zip(left, speeds, strict=True):
            for one in list(here):
                here[one] -= speed[one] * passed
                if here[one] < 1e-6:
                    del here[one]
                    ends[one] = now
        if waiting and jobs[waiting[0]].submit_s <= now:
            arrived = waiting.pop(0)
            left[workers[arrived]][arrived] = jobs[arrived].work_s
    return [ends[one] - job.submit_s for one, job in enumerate(jobs)]


def _speeds(jobs: Sequence[SimJob], here: dict[int, float], capacity_m: float, contention: float) -> dict[int, float]:
    speeds: dict[int, float] = {}
    wanted = sum(jobs[one].demand_cpu_m for one in here)
    slower = 1 + contention * max(0.0, wanted / capacity_m - 1)
    by_demand = sorted(here, key=lambda one: jobs[one].demand_cpu_m)
    for taken, one in enumerate(by_demand):
        share = min(jobs[one].demand_cpu_m, capacity_m / (len(by_demand) - taken))
        capacity_m -= share
        speeds[one] = share / jobs[one].demand_cpu_m / slower
    return speeds
