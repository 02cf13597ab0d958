"""Runs an experiment on the node: each repetition by default and under the policy, one after the other.

The order rotates from one repetition to the next, so that changes of the machine over time affect all runs alike.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.demo.audience import NoAudience
from steepest.demo.play import Play
from steepest.demo.run_timeline import RunTimeline
from steepest.demo.workload import DemoWorkload
from steepest.docker_lab.engine_daemon import DockerEngine
from steepest.errors import ClusterError
from steepest.events.cluster import ClusterEvent
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.sim.reproduce.experiment import Experiment
from steepest.sim.reproduce.measures import BeforeAfter
from steepest.sim.workloads.arrivals import arrivals
from steepest.testbed.experiments import limited, unlimited
from steepest.testbed.jobs import SCALE, Cost, scaled
from steepest.testbed.node import CPU_M


class RunResult(msgspec.Struct, frozen=True):
    """A run's completion times in the order of the submissions, its makespan, and its log; in seconds of the experiment."""

    completions: Sequence[float]
    makespan: float
    events: Sequence[Received[ClusterEvent]]


class Repetition(msgspec.Struct, frozen=True):
    """The same jobs by default, and under the policy with the setting of each arm."""

    experiment: Experiment
    seed: int
    before: RunResult
    arms: Sequence[RunResult]

    @property
    def pairs(self) -> Sequence[BeforeAfter]:
        """The pairs of results, one for each arm."""
        before = self.before
        return [BeforeAfter(before.completions, arm.completions, before.makespan, arm.makespan) for arm in self.arms]


def repetition(
    experiment: Experiment, costs: Mapping[str, Cost], engine: DockerEngine, seed: int, folder: Path
) -> Repetition:
    """Make all runs; their recordings replace those of the same names in the folder.

    Raises:
        ClusterError: A job failed.
        SteepestError: The folder cannot be used.
        KeyboardInterrupt: It was interrupted.
    """
    given = scaled(arrivals(experiment.workload, seed), costs, engine, CPU_M, seed)
    runs: list[tuple[str, PoolParameters]] = [("default", unlimited(experiment.arms[0]))]
    runs += [(f"flowcon-{number}", limited(arm)) for number, arm in enumerate(experiment.arms)]
    ran: dict[str, RunResult] = {}
    for name, parameters in (*runs[seed % len(runs) :], *runs[: seed % len(runs)]):
        state = folder / f"{experiment.name}-{seed}-{name}"
        shutil.rmtree(state, ignore_errors=True)
        ran[name] = asyncio.run(_run(given, parameters, state))
    before, *arms = (ran[name] for name, _ in runs)
    return Repetition(experiment, seed, before, arms)


async def _run(given: DemoWorkload, parameters: PoolParameters, folder: Path) -> RunResult:
    play = Play(folder, given, parameters)
    story = await play.run(NoAudience())
    if play.interrupted.is_set():
        raise KeyboardInterrupt
    if play.failed:
        raise ClusterError(
            f"not every job of {folder.name} finished", code="job-failed", hint=f"steepest jobs --state {folder}"
        )
    return ran_of(story, await play.recorded())


def ran_of(story: RunTimeline, events: Sequence[Received[ClusterEvent]]) -> RunResult:
    """The result of a run whose jobs have all ended."""
    jobs = list(story.jobs.values())
    first = min(job.submitted_ms for job in jobs)
    completions = [(job.completion_ms or 0) / 1000 * SCALE for job in jobs]
    return RunResult(completions, (max(job.ended_ms or 0 for job in jobs) - first) / 1000 * SCALE, events)
