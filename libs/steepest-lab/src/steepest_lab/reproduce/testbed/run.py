"""Runs an experiment on its nodes: each repetition from every start, by default and under the policy, one after the other.

The order rotates from one repetition to the next, so that changes of the machine over time affect all runs alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.events.parameters import PoolParameters
from steepest_lab.demo.workload import DemoWorkload, pinned
from steepest_lab.reproduce.experiments.experiment import Arm, Experiment
from steepest_lab.reproduce.experiments.measures import BeforeAfter
from steepest_lab.reproduce.experiments.placement import Start, first_nodes
from steepest_lab.reproduce.experiments.run import DEFAULT
from steepest_lab.reproduce.kept_runs import Records, run_once, timeline_of
from steepest_lab.reproduce.testbed.jobs import SCALE, Cost, scaled
from steepest_lab.reproduce.testbed.nodes import Testbed
from steepest_lab.sim.policies import LIVE


class RunResult(msgspec.Struct, frozen=True):
    """A run's completion times in the order of the submissions, its makespan, and its log; in seconds of the experiment."""

    completions: Sequence[float]
    makespan: float
    events: Records


class PairedRuns(msgspec.Struct, frozen=True):
    """The same jobs from one start by default, and under the policy with the setting of each arm."""

    before: RunResult
    arms: Sequence[RunResult]

    @property
    def pairs(self) -> Sequence[BeforeAfter]:
        """The pairs of results, one for each arm."""
        before = self.before
        return [BeforeAfter(before.completions, arm.completions, before.makespan, arm.makespan) for arm in self.arms]


class Repetition(msgspec.Struct, frozen=True):
    """The runs from each of the experiment's starts, in their order."""

    experiment: Experiment
    seed: int
    starts: Sequence[PairedRuns]


class RunTask(msgspec.Struct, frozen=True):
    """A run that is part of a repetition; ``arm``: which of the experiment's; None: by default."""

    experiment: Experiment
    seed: int
    start: Start
    arm: int | None

    @property
    def about(self) -> str:
        """The run in words."""
        experiment = self.experiment
        arm = "by default" if self.arm is None else f"under {experiment.arms[self.arm].policy}"
        setting = "" if self.arm is None else experiment.arms[self.arm].setting
        parts = (experiment.name, "" if self.start is Start.ONE_NODE else self.start.value, arm, setting)
        return ", ".join(part for part in parts if part)

    @property
    def folder(self) -> str:
        """The name of its recording's folder."""
        run = "default" if self.arm is None else f"{self.experiment.arms[self.arm].policy}-{self.arm}"
        start = "" if self.start is Start.ONE_NODE else f"-{self.start.value.split()[0]}"
        return f"{self.experiment.name}-{self.seed}{start}-{run}"


def runs_of(experiment: Experiment, seed: int) -> list[RunTask]:
    """The runs of a repetition, in the order in which they are made."""
    arms = [None, *range(len(experiment.arms))]
    runs = [RunTask(experiment, seed, start, arm) for start in experiment.starts for arm in arms]
    return [*runs[seed % len(runs) :], *runs[: seed % len(runs)]]


def repetition(
    experiment: Experiment,
    seed: int,
    costs: Mapping[str, Cost],
    nodes: Testbed,
    folder: Path,
    *,
    on_run: Callable[[RunTask, RunResult], None] = lambda *_: None,
    most_jobs: int | None = None,
) -> Repetition:
    """Make all runs that are not in the folder yet.

    Args:
        experiment: The experiment.
        seed: Draws jobs, arrivals and first nodes.
        costs: Of all its models.
        nodes: Where it runs.
        folder: For the recordings.
        on_run: Is called after each run.
        most_jobs: At most this many jobs, the first ones.

    Raises:
        ClusterError: A job failed.
        SteepestError: The folder cannot be used.
        KeyboardInterrupt: It was interrupted.
    """
    ran: dict[tuple[Start, int | None], RunResult] = {}
    for task in runs_of(experiment, seed):
        given = _workload(task, costs, nodes, most_jobs)
        result = ran[task.start, task.arm] = ran_of(run_once(given, _parameters(task), folder / task.folder))
        on_run(task, result)
    arms = range(len(experiment.arms))
    starts = [PairedRuns(ran[start, None], [ran[start, arm] for arm in arms]) for start in experiment.starts]
    return Repetition(experiment, seed, starts)


def _parameters(task: RunTask) -> PoolParameters:
    arm: Arm = task.experiment.arms[task.arm or 0]
    return LIVE[DEFAULT if task.arm is None else arm.policy].parameters(arm.parameters)


def _workload(task: RunTask, costs: Mapping[str, Cost], nodes: Testbed, most_jobs: int | None) -> DemoWorkload:
    """The jobs; on several nodes they begin where the start says, unless the policy places them itself."""
    experiment = task.experiment
    jobs = experiment.jobs(task.start, task.seed)
    jobs = msgspec.structs.replace(jobs, jobs=jobs.jobs[:most_jobs])
    given = scaled(jobs, costs, nodes, task.seed)
    if task.start is Start.ONE_NODE or not (experiment.pinned or task.arm is None):
        return given
    cluster = experiment.nodes()
    names = {theirs.name: ours.name for theirs, ours in zip(cluster.nodes, nodes.nodes, strict=True)}
    places = first_nodes(jobs, cluster, task.start, task.seed)
    return pinned(given, {job: names[node] for job, node in places.items()})


def ran_of(events: Records) -> RunResult:
    """The result of a run whose jobs have all ended."""
    jobs = list(timeline_of(events).jobs.values())
    first = min(job.submitted_ms for job in jobs)
    completions = [(job.completion_ms or 0) / 1000 * SCALE for job in jobs]
    return RunResult(completions, (max(job.ended_ms or 0 for job in jobs) - first) / 1000 * SCALE, events)
