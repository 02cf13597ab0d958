"""A slow reference for Muri's simulator: the rules of its ``run_sim.py``, step by step and without shortcuts.

Jobs are (submission in s, GPUs, iterations, milliseconds of an iteration, model). The answer is each job's end.

A running time is a sum of differences, and can end one rounding short of the limit at the very instant computed for
reaching it: the program would look at that instant for ever. So a microsecond is forgiven, and each look is later than
the one before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MODELS = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "bert": (10, 10, 10, 10, 10, 10),
    "gpt2": (10, 10, 10, 10, 10, 10),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
SLACK_S = 1e-6
Asked = tuple[float, int, int, float, str]


@dataclass(eq=False)
class Job:
    """One job on its way."""

    submit: float
    gpus: int
    left: float
    seconds: float
    cost: float
    running: bool = False
    had: float = 0.0
    queue: int = 0
    end: float = math.nan


def _jobs(asked: list[Asked]) -> list[Job]:
    made = []
    for submit, gpus, iterations, ms, model in sorted(asked, key=lambda job: job[0]):
        cost = MODELS[model][int(math.log2(gpus))] if model in MODELS else 10
        made.append(Job(submit, gpus, float(iterations), ms * 1.015 / 1000, cost))
    return made


def _worked(job: Job, passed: float) -> None:
    job.left -= max(passed - job.cost, 0) / job.seconds


def shortest(asked: list[Asked], nodes: int, *, by_gpus: bool) -> list[float]:
    """SRTF, or SRSF, with first-fit on nodes of 8 GPUs."""
    jobs = _jobs(asked)
    coming = list(jobs)
    active: list[Job] = []
    ends: list[tuple[float, list[Job]]] = []
    now = 0.0
    while coming or active:
        arrival = coming[0].submit if coming else math.inf
        end = ends[0][0] if ends else math.inf
        before, now = now, min(arrival, end)
        if end == now:
            for job in ends[0][1]:
                job.end = now
                active.remove(job)
        for job in active:
            if job.running:
                _worked(job, now - before)
        while coming and coming[0].submit == now:
            active.append(coming.pop(0))
        active.sort(key=lambda job: job.left * job.seconds * (job.gpus if by_gpus else 1))
        free = [8] * nodes
        for job in active:
            job.running = _first_fit(job.gpus, free)
        ends = []
        for job in active:
            if job.running:
                at = now + job.left * job.seconds
                for time, members in ends:
                    if abs(time - at) <= 1e-9 * max(time, at):
                        members.append(job)
                        break
                else:
                    ends.append((at, [job]))
        ends.sort(key=lambda entry: entry[0])
    return [job.end for job in jobs]


def _first_fit(gpus: int, free: list[int]) -> bool:
    if gpus <= 8:
        for node, has in enumerate(free):
            if has >= gpus:
                free[node] -= gpus
                return True
        return False
    idle = [node for node, has in enumerate(free) if has == 8]
    if len(idle) < gpus // 8:
        return False
    for node in idle[: gpus // 8]:
        free[node] = 0
    return True


def tiresias(asked: list[Asked], total: int) -> list[float]:
    """Two-dimensional LAS with three queues; GPUs are only counted."""
    jobs = _jobs(asked)
    coming = list(jobs)
    active: list[Job] = []
    queues: list[list[Job]] = [[], [], []]
    limits = (3250, 7200)
    now, end, jump = 0.0, math.inf, math.inf
    ending: list[Job] = []
    while coming or active:
        before, now = now, min(coming[0].submit if coming else math.inf, end, jump)
        if end == now:
            for job in ending:
                job.end = now
                active.remove(job)
                queues[job.queue].remove(job)
        for job in active:
            if job.running:
                _worked(job, now - before)
                job.had = (job.had + now) - before
                if job.queue < 2 and (job.had + SLACK_S) * job.gpus >= limits[job.queue]:
                    queues[job.queue].remove(job)
                    job.queue += 1
                    queues[job.queue].append(job)
        while coming and coming[0].submit == now:
            active.append(coming[0])
            queues[0].append(coming.pop(0))
        free = total
        for queue in queues:
            for job in queue:
                job.running = job.gpus <= free
                free -= job.gpus if job.running else 0
        for queue in queues:
            queue.sort(key=lambda job: not job.running)
        runs = [job for queue in queues for job in queue if job.running]
        end = min([now + job.left * job.seconds for job in runs], default=math.inf)
        ending = [job for job in runs if now + job.left * job.seconds == end]
        jump = min(
            [now + math.ceil(limits[job.queue] / job.gpus) - job.had for job in runs if job.queue < 2], default=math.inf
        )
        assert jump > now, f"time stands still at {now!r} s"
    return [job.end for job in jobs]
