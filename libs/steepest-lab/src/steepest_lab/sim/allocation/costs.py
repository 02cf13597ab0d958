"""Progress and overheads of running jobs, and when the next one ends.

It owns the two ways in which an event-driven run accounts for the cost of starts. It must never know a policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from steepest.errors import InputError
from steepest_lab.sim.allocation.job import RunningJob
from steepest_lab.sim.cluster_spec import SimNode
from steepest_lab.sim.rules import AtEveryEvent, AtRestart


class Costs(Protocol):
    """One way to account for the cost of starts."""

    def begun(self, fresh: Sequence[RunningJob], now_s: float) -> None:
        """Update jobs that got a new share."""
        ...

    def advance(self, running: Sequence[RunningJob], now_s: float, last_s: float) -> bool:
        """Advance the time; return whether any job made progress."""
        ...

    def next_end(self, running: Sequence[RunningJob], now_s: float) -> tuple[float, list[RunningJob]]:
        """The time of the next end if nothing happens before, and the jobs that end then."""
        ...


class RestartCosts:
    """A start costs time once, before the first iteration; a later start includes saving and loading a checkpoint.

    The end is known from the start: nothing but the policy changes it. The slowest node of a gang sets its pace, and its
    slowest storage that of the checkpoint; of a share that is only counted, these are the cluster's.
    """

    def __init__(self, rule: AtRestart, nodes: Sequence[SimNode]) -> None:
        self.rule = rule
        self.nodes = nodes

    def begun(self, fresh: Sequence[RunningJob], now_s: float) -> None:
        """Compute each job's pace, overhead and end."""
        for job in fresh:
            nodes = [self.nodes[node] for node, _ in job.place] or self.nodes
            job.rate_s = job.step_s_with(job.units) / min(node.speed for node in nodes)
            job.overhead_s = self.rule.launch_s
            if job.start_s is not None:
                size = job.sim.memory_mib or self.rule.checkpoint_mib
                job.overhead_s += 2 * size / min(node.storage_mib_s for node in nodes)
            job.end_s = now_s + job.overhead_s + job.left * job.rate_s

    def advance(self, running: Sequence[RunningJob], now_s: float, last_s: float) -> bool:
        """Advance the jobs; none makes progress during its overhead."""
        moved = False
        for job in running:
            job.attained_s = (job.attained_s + now_s) - last_s
            left = (job.end_s - now_s) / job.rate_s
            if left < job.left:
                job.left = job.predicted_left = left
                job.remaining_s = left * job.step_s
                moved = True
        return moved

    def next_end(self, running: Sequence[RunningJob], now_s: float) -> tuple[float, list[RunningJob]]:
        """The earliest end, and the jobs that end then."""
        del now_s
        earliest = min([job.end_s for job in running], default=math.inf)
        return earliest, [job for job in running if job.end_s == earliest]


class EventCosts:
    """Every interval between two events costs each running job its overhead, and the one in which it ends is free.

    Args:
        rule: The overheads.
        merge: Ends that differ by less than this share of the time are one.
        jobs: Of the workload; each gets its overhead.

    Raises:
        InputError: The table knows a job's model, but not with its number of GPUs.
    """

    def __init__(self, rule: AtEveryEvent, merge: float, jobs: Sequence[RunningJob]) -> None:
        self.merge = merge
        for job in jobs:
            row = rule.table.get(job.sim.model)
            job.overhead_s = rule.otherwise_s if row is None else _overhead(row, job)

    def begun(self, fresh: Sequence[RunningJob], now_s: float) -> None:
        """Set the jobs' pace; a start costs no more than any other event."""
        del now_s
        for job in fresh:
            job.rate_s = job.step_s if job.units == job.asked else job.step_s * job.asked / job.units

    def advance(self, running: Sequence[RunningJob], now_s: float, last_s: float) -> bool:
        """Advance the jobs by the interval minus their overhead."""
        interval, moved = now_s - last_s, False
        for job in running:
            job.attained_s = (job.attained_s + now_s) - last_s
            worked = interval - job.overhead_s
            if worked > 0:
                moved = True
                job.left = job.predicted_left = left = job.left - worked / job.rate_s
                job.remaining_s = left * job.step_s
        return moved

    def next_end(self, running: Sequence[RunningJob], now_s: float) -> tuple[float, list[RunningJob]]:
        """The earliest end, and all jobs whose ends are merged with it."""
        ends = [now_s + job.left * job.rate_s for job in running]
        if not ends:
            return math.inf, []
        earliest = min(ends)
        near = earliest * (1 + 4 * self.merge)
        if self.merge and len([end for end in ends if end <= near]) > 1:
            return self._merged(running, ends)
        return earliest, [job for job, end in zip(running, ends, strict=True) if end == earliest]

    def _merged(self, running: Sequence[RunningJob], ends: Sequence[float]) -> tuple[float, list[RunningJob]]:
        """The first group of ends; an end joins the earliest-made group whose own time is near enough."""
        groups: list[tuple[float, list[RunningJob]]] = []
        for job, end in zip(running, ends, strict=True):
            for time, members in groups:
                if abs(time - end) <= self.merge * max(time, end):
                    members.append(job)
                    break
            else:
                groups.append((end, [job]))
        return min(groups, key=lambda group: group[0])


def _overhead(row: Mapping[int, float], job: RunningJob) -> float:
    if job.asked not in row:
        counts = ", ".join(map(str, row))
        raise InputError(
            f"job {job.name}: the rules know what a start of {job.sim.model} costs with {counts} GPUs, not with {job.asked}",
            hint="Simulate it under the default rules.",
        )
    return row[job.asked]
