"""Runs an experiment on the node: each repetition by default and under the policy, one after the other.

The order of the two alternates, so that what changes on the machine in the meantime falls on both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from steepest.demo.audience import Nobody
from steepest.demo.play import Play
from steepest.demo.story import Story
from steepest.demo.workload import Workload
from steepest.errors import ClusterError
from steepest.sim.reproduce.experiment import Experiment
from steepest.sim.reproduce.measures import Pair
from steepest.sim.workloads.arrivals import arrivals
from steepest.testbed.experiments import parameters
from steepest.testbed.jobs import SCALE, Cost, scaled
from steepest.testbed.node import CPU_M
from steepest.testing.docker_engine import DockerEngine


class Times(msgspec.Struct, frozen=True):
    """A run's completion times in the order of the submissions, and its makespan: in seconds of the experiment."""

    completions: tuple[float, ...]
    makespan: float


def pair(experiment: Experiment, costs: Mapping[str, Cost], engine: DockerEngine, seed: int, folder: Path) -> Pair:
    """One repetition; its recordings stay in the folder.

    Raises:
        ClusterError: A job failed, or it was interrupted.
        SteepestError: The folder cannot be used.
    """
    given = scaled(arrivals(experiment.workload, seed), costs, engine, CPU_M, seed)
    times = {}
    for limited in (False, True) if seed % 2 == 0 else (True, False):
        place = folder / f"{experiment.name}-{seed}-{'limited' if limited else 'default'}"
        times[limited] = asyncio.run(_run(experiment, given, place, limited=limited))
    before, after = times[False], times[True]
    return Pair(before.completions, after.completions, before.makespan, after.makespan)


async def _run(experiment: Experiment, given: Workload, folder: Path, *, limited: bool) -> Times:
    play = Play(folder, given, parameters(experiment.arms[0], limited=limited))
    story = await play.run(Nobody())
    if play.interrupted.is_set() or play.failed:
        raise ClusterError(
            f"not every job of {folder.name} finished", code="job-failed", mend=f"steepest jobs --state {folder}"
        )
    return times_of(story)


def times_of(story: Story) -> Times:
    """What a story whose jobs have all ended comes to."""
    jobs = list(story.jobs.values())
    ends = [job.ended_ms or 0 for job in jobs]
    first = min(job.submitted_ms for job in jobs)
    completions = tuple((job.completion_ms or 0) / 1000 * SCALE for job in jobs)
    return Times(completions, (max(ends) - first) / 1000 * SCALE)
