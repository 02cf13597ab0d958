"""Runs all repetitions of a paper's experiments on the node, and makes rows and pictures of them.

It owns the order of the runs; figures are computed and judged as in virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from steepest.sim.reproduce.experiment import Experiment, Paper
from steepest.sim.reproduce.run import Figures, Reproduction, figures_of, reproduction
from steepest.sim.workloads.arrivals import arrivals
from steepest.testbed.jobs import costs
from steepest.testbed.node import node
from steepest.testbed.picture import picture
from steepest.testbed.run import Repetition, repetition


def repetitions(experiments: Sequence[Experiment], count: int, folder: Path) -> Iterator[Repetition]:
    """Yield each repetition as soon as it is over, with seeds from 0; the engine runs until the last one.

    Args:
        experiments: The experiments, in order.
        count: Repetitions of each.
        folder: For the recordings; it is created.

    Raises:
        SteepestError: The engine does not start, a training fails, or the folder cannot be used.
        KeyboardInterrupt: It was interrupted.
    """
    jobs = [job for one in experiments for seed in range(count) for job in arrivals(one.workload, seed).jobs]
    with node() as engine:
        measured = costs(engine, list(dict.fromkeys(job.model for job in jobs)))
        for experiment in experiments:
            for seed in range(count):
                yield repetition(experiment, measured, engine, seed, folder)


def reproduced(paper: Paper, count: int, done: Sequence[Repetition]) -> Reproduction:
    """The results of all repetitions, with a picture of each experiment's first one."""
    pictures = [_picture(one) for one in done if one.seed == 0]
    return reproduction(paper, count, [*pictures, *(_figures(one) for one in done)])


def _figures(one: Repetition) -> Figures:
    return [figures_of(one.experiment, one.pairs)]


def _picture(one: Repetition) -> str:
    drawn = one.experiment.drawn
    title = f"{one.experiment.about}; {one.experiment.arms[drawn].setting}; first repetition"
    return picture(one.before.events, one.arms[drawn].events, one.pairs[drawn], title)
