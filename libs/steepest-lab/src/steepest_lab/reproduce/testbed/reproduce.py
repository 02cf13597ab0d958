"""Runs all repetitions of a paper's experiments on their nodes, and makes rows and pictures of them.

It owns the order of the experiments; figures are computed and judged as in virtual time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from steepest_lab.reproduce.experiments.experiment import Paper
from steepest_lab.reproduce.experiments.run import Figures, Reproduction, figures_of, reproduction
from steepest_lab.reproduce.papers import ON_ENGINES, nodes_for
from steepest_lab.reproduce.testbed import nodes, save_resume
from steepest_lab.reproduce.testbed.costs import costs, kept_costs
from steepest_lab.reproduce.testbed.picture import picture
from steepest_lab.reproduce.testbed.run import Repetition, RunResult, RunTask, repetition, runs_of
from steepest_lab.reproduce.testbed.save_resume import Pause
from steepest_lab.sim.workloads.arrivals import arrivals

OnRun = Callable[[RunTask, RunResult], None]
"""Is called after each run."""


def tasks(paper: Paper, count: int) -> list[RunTask]:
    """Every run of ``count`` repetitions."""
    return [task for one in paper.experiments for seed in range(count) for task in runs_of(one, seed)]


def only(paper: Paper, names: Sequence[str]) -> Paper:
    """The paper with these of its experiments, and a report that says so; without names, all of it."""
    if not names:
        return paper
    chosen = tuple(one for one in paper.experiments if one.name in names)
    said = f"Of {len(paper.experiments)} experiments, {len(chosen)} ran: {', '.join(one.name for one in chosen)}."
    return msgspec.structs.replace(paper, experiments=chosen, assumptions=(said, *paper.assumptions))


def repetitions(paper: Paper, count: int, folder: Path, on_run: OnRun) -> Iterator[Repetition]:
    """Yield each repetition as soon as it is over, with seeds from 0; a run that the folder has is not repeated.

    Nodes stay for all experiments that follow each other on as many.

    Args:
        paper: The paper.
        count: Repetitions of each experiment.
        folder: For the recordings, and what steps cost when the first of them was made; it is created.
        on_run: Is called after each run.

    Raises:
        SteepestError: A node does not start, a training fails, or the folder cannot be used.
        KeyboardInterrupt: It was interrupted.
    """
    for _, alike in itertools.groupby(paper.experiments, lambda one: len(one.nodes().nodes)):
        experiments = list(alike)
        drawn = [arrivals(one.workload, seed) for one in experiments for seed in range(count)]
        with nodes_for(paper, experiments[0]) as testbed:
            models = dict.fromkeys(job.model for jobs in drawn for job in jobs.jobs)
            measured = kept_costs(testbed, models, folder / f"costs-{len(testbed.nodes)}.json")
            for experiment in experiments:
                for seed in range(count):
                    yield repetition(experiment, seed, measured, testbed, folder, on_run=on_run)


def interruptions(paper: Paper, count: int) -> list[Pause]:
    """The costs of saving and resuming, in ``count`` repetitions; empty for a paper that moves no job.

    Raises:
        ClusterError: A training failed, or did not save or resume in time.
    """
    if paper.name in ON_ENGINES:
        return []
    measured = costs(nodes.emulated(1), save_resume.MODELS)
    return [pause for seed in range(count) for pause in save_resume.pauses(measured, seed)]


def reproduced(paper: Paper, count: int, done: Sequence[Repetition], pauses: Sequence[Pause] = ()) -> Reproduction:
    """The results of all repetitions, with a picture of each experiment's first one."""
    pictures = [_picture(one) for one in done if one.seed == 0]
    found = reproduction(paper, count, [*pictures, *(_figures(one) for one in done)])
    return msgspec.structs.replace(found, rows=[*found.rows, *save_resume.rows(pauses)])


def _figures(one: Repetition) -> Figures:
    return [figures_of(one.experiment, start.pairs) for start in one.starts]


def _picture(one: Repetition) -> str:
    """Of the last start, which is the uneven one where there are two."""
    drawn, runs, start = one.experiment.drawn, one.starts[-1], one.experiment.starts[-1]
    arm = one.experiment.arms[drawn]
    words = [one.experiment.about, arm.setting, start.value if len(one.starts) > 1 else "", "first repetition"]
    title = "; ".join(word for word in words if word)
    return picture(
        runs.before.events, runs.arms[drawn].events, runs.pairs[drawn], title, lists=arm.policy.startswith("flowcon")
    )
