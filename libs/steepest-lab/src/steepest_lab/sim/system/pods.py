"""Gangs as the default scheduler of Kubernetes knows them: not at all.

Each replica is a pod, a job of its own in the pool: placed when there is room for it alone, and it holds its place while the
rest of its gang waits for theirs. Pods of a gang still do each step together, so that a gang in parts makes none. Two gangs
in parts that hold what the other lacks wait without end.

A pod that finds no room is tried again after a back-off, so that a newer pod may be before it. The order of those that wait
is drawn here, as their priority, which the queue policy ``priority`` goes by and ``fifo`` does not.

It owns which pods a job has, and what becomes of the job by what becomes of them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest_lab.sim.system.schedule import Schedule
from steepest_lab.sim.workload import SimJob
from steepest_lab.simulated.lockstep import Gangs, Lockstep

MOST_URGENT = 1_000_000


class GangPod(msgspec.Struct, frozen=True):
    """One replica of a job.

    Attributes:
        rank: Its place among the job's replicas; the parameter servers are first.
        turn: When it is tried among those that wait: the higher, the earlier.
    """

    job: SimJob
    rank: int
    turn: int

    @property
    def serves(self) -> bool:
        """Whether it is a parameter server."""
        return self.rank < self.job.servers


class Pods:
    """The pods of all gangs of a workload."""

    def __init__(self, jobs: Sequence[SimJob], seed: int) -> None:
        """No pod is placed yet; ``seed`` draws the order in which those that wait are tried again."""
        rng = random.Random(f"{seed}/pods")  # noqa: S311 - no secret depends on it
        self.by_name: dict[str, GangPod] = {}
        self.of: dict[str, list[str]] = {}
        self._gangs: dict[str, Lockstep] = {}
        for number, job in enumerate(jobs):
            if job.is_gang:
                names = [f"pod-{number}-{rank}" for rank in range(job.servers + job.replicas)]
                self.of[job.name] = names
                self.by_name |= {
                    name: GangPod(job, rank, int(rng.random() * MOST_URGENT)) for rank, name in enumerate(names)
                }

    def pods_of(self, job: SimJob) -> Mapping[str, GangPod]:
        """The pods of a job by name; none of a job of one replica."""
        return {name: self.by_name[name] for name in self.of.get(job.name, ())}

    def gang(self, name: str, gangs: Gangs) -> Lockstep | None:
        """The gang of a pod."""
        pod = self.by_name.get(name)
        if pod is None:
            return None
        job = pod.job
        return self._gangs.setdefault(job.name, Lockstep(job.servers + job.replicas, gangs))


class PodSchedule(Schedule):
    """The schedule of jobs whose pods the log knows.

    Attributes:
        jobs: For each pod, its job's name.
        whole: For each job, how many pods it has.
        placed: The pods that were placed, by job.
        over: The pods that have ended, by job.
    """

    jobs: Mapping[str, str] = {}
    whole: Mapping[str, int] = {}
    placed: dict[str, dict[str, None]] = msgspec.field(default_factory=dict)
    over: dict[str, dict[str, None]] = msgspec.field(default_factory=dict)

    def add(self, received: Received[Any]) -> None:
        """Take in a record: a job starts with its last pod, and ends with it."""
        event = received.event
        job = self.jobs.get(getattr(event, "job", ""))
        if job is None:
            Schedule.add(self, received)
            return
        match event:
            case c.JobPlaced():
                placed = self.placed.setdefault(job, {})
                placed[event.job] = None
                self.first_nodes.setdefault(job, event.node)
                if len(placed) == self.whole[job]:
                    self.starts_ms.setdefault(job, received.at_ms)
            case c.JobEnded():
                over = self.over.setdefault(job, {})
                over[event.job] = None
                if event.outcome is not c.Outcome.FINISHED:
                    self.outcomes[job] = event.outcome.value
                elif len(over) == self.whole[job]:
                    self.ends_ms[job] = received.at_ms
                    self.outcomes[job] = event.outcome.value
            case c.JobRejected():
                self.outcomes[job] = "rejected"
            case c.JobSubmitted():
                pass
            case _:
                return
        self.newest_ms = received.at_ms


def pod_schedule(pods: Pods) -> PodSchedule:
    """An empty schedule of these pods."""
    return PodSchedule(
        jobs={name: pod.job.name for name, pod in pods.by_name.items()},
        whole={job: len(names) for job, names in pods.of.items()},
    )
