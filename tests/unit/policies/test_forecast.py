"""The time left of jobs that share a node: it foresees that others end, and that the policy lets jobs wait."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.policies.forecast import remaining
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import time_left
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.policies import POOL
from steepest_lab.sim.system import simulate
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import SimJob, Workload
from steepest_lab.simulated.node import SimulatedNode

WORK_S = (105, 126, 45, 60, 48, 90, 30, 57, 51, 39)
CORES_M = 1_800
EVERY_MS = 2_000


class Watcher:
    """What was said of each job's time left, and when it ended."""

    def __init__(self, every_ms: int) -> None:
        self.every_ms = every_ms
        self.view = ClusterView()
        self.began: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.said: dict[str, list[tuple[int, int | None, int | None]]] = {}

    def __call__(self, received: Received[c.ClusterEvent]) -> None:
        """Take in a record; at some ticks, note what is said."""
        self.view.fold(received)
        event, now_ms = received.event, received.at_ms
        if isinstance(event, c.JobPlaced):
            self.began.setdefault(event.job, now_ms)
        if isinstance(event, c.JobEnded):
            self.ended[event.job] = now_ms
        if not isinstance(event, c.Tick) or now_ms % self.every_ms:
            return
        for job in self.view.jobs:
            if job.alive:
                said, by_pace = remaining(self.view, job, now_ms), time_left(job)
                self.said.setdefault(job.name, []).append(
                    (now_ms, said.p50 if said else None, by_pace.p50 if by_pace else None)
                )

    def errors(self, job: str) -> tuple[float, float]:
        """The median error between a quarter and three quarters of a run: as said, and by the job's pace alone."""
        began, ended = self.began[job], self.ended[job]
        quarter = (ended - began) / 4
        within = [one for one in self.said[job] if began + quarter <= one[0] <= ended - quarter]
        both = [(at_ms, said, pace) for at_ms, said, pace in within if said is not None and pace is not None]
        assert len(both) > 0.9 * len(within), f"{job}: mostly unknown"
        off = [
            (abs(said - (ended - at)) / (ended - at), abs(pace - (ended - at)) / (ended - at))
            for at, said, pace in both
        ]
        return median(one for one, _ in off), median(one for _, one in off)


def watched(policy: str, times: int = 1) -> Watcher:
    """Ten trainings of ``times`` their usual work that begin one second after the other on one node."""
    jobs = [
        SimJob(
            name=f"j{number}",
            submit_s=1.0 + number,
            requests=Resources(cpu_m=50, memory_mib=10),
            work_s=float(times * work_s),
            iterations=60,
            demand_cpu_m=1_000,
            family="thesis/rnn-pytorch",
            says="epochs" if number % 3 else "steps",
        )
        for number, work_s in enumerate(WORK_S)
    ]
    nodes = [SimNode(name="ws", capacity=Resources(cpu_m=CORES_M, memory_mib=10**6))]
    watcher = Watcher(EVERY_MS * times**2)
    simulate_system(
        Workload(source="ten", format="ten", jobs=jobs),
        ClusterSpec(source="ten", nodes=nodes),
        policy,
        POOL[policy].parameters(PoolParameters()),
        1,
        watch=watcher,
    )
    return watcher


@pytest.mark.parametrize(("policy", "usual", "most"), [("spread", 0.05, 0.1), ("steepest", 0.25, 0.7)])
def test_time_left_of_jobs_beside_each_other(policy: str, usual: float, most: float) -> None:
    """The median job is within ``usual``, each within ``most``; by their own paces alone, jobs are off by far more.

    Under ``steepest``, the jobs that run first are those that still learn, and which these are is seen only as they do.
    """
    watcher = watched(policy)
    errors = {job: watcher.errors(job) for job in watcher.ended}
    assert len(errors) == len(WORK_S)
    assert median(said for said, _ in errors.values()) <= usual, errors
    assert max(said for said, _ in errors.values()) <= most, errors
    assert median(said for said, _ in errors.values()) < median(pace for _, pace in errors.values()) / 3, errors


def test_time_left_where_limits_are_hard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of jobs of minutes, on a node that holds them to their limits, as the kernel's groups do: six of ten within 10 %."""

    def hard(*args: Any, **options: Any) -> SimulatedNode:
        return SimulatedNode(*args, **{**options, "caps_yield": False})

    monkeypatch.setattr(simulate, "SimulatedNode", hard)
    watcher = watched("steepest", times=5)
    errors = [watcher.errors(job)[0] for job in watcher.ended]

    assert len(errors) == len(WORK_S)
    assert sum(error <= 0.1 for error in errors) >= 0.6 * len(errors), errors
