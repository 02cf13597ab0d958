"""All runs of a paper, side by side, and the rows that they come to.

A repetition is a function of its experiment and its number, which is its seed: its figures are the same wherever and
beside whatever it is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from steepest.sim.clusters import open_cluster
from steepest.sim.policies import LIVE
from steepest.sim.reproduce.course import Course
from steepest.sim.reproduce.experiment import Arm, Experiment, Paper
from steepest.sim.reproduce.measures import MEASURES, pair_of
from steepest.sim.reproduce.placement import Lots, first_nodes
from steepest.sim.reproduce.plots import drawn
from steepest.sim.reproduce.verdict import Unit, Verdict, estimate, verdict
from steepest.sim.result import SimulationResult
from steepest.sim.run import side_by_side
from steepest.sim.system.pool import Watch
from steepest.sim.system.simulate import simulate_system
from steepest.sim.workloads.read import open_workload

DEFAULT = "spread"
"""The live policy that neither moves nor limits."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of an experiment, published and ours.

    Attributes:
        experiment: With the setting, where it has several.
        unit: Of all figures of the row.
        published: None: there is none.
        ours: Mean over the repetitions.
        low: Of the 95 % confidence interval of that mean.
        high: Likewise.
        deviation: Standard deviation of a single repetition.
    """

    experiment: str
    metric: str
    unit: Unit
    published: float | None
    ours: float
    low: float
    high: float
    deviation: float
    verdict: Verdict


class Reproduction(msgspec.Struct, frozen=True):
    """All rows of a paper, and a picture of each experiment's first repetition."""

    paper: Paper
    repetitions: int
    rows: Sequence[Row]
    pictures: Sequence[tuple[str, str]]


class Task(msgspec.Struct, frozen=True):
    """A repetition of an experiment; ``picture``: its picture instead of its figures."""

    experiment: Experiment
    seed: int
    picture: bool = False


Figures = Sequence[Sequence[float]]
"""Of one repetition: for each arm its published measures, in their order."""


def tasks(paper: Paper, repetitions: int) -> Sequence[Task]:
    """All that there is to do, the pictures first: they take longest."""
    pictures = [Task(one, 0, picture=True) for one in paper.experiments]
    return [*pictures, *(Task(one, seed) for one in paper.experiments for seed in range(repetitions))]


def done(todo: Sequence[Task], workers: int | None) -> Iterator[Figures | str]:
    """What each task comes to, in their order."""
    return side_by_side(_do, todo, workers)


def reproduction(paper: Paper, repetitions: int, results: Sequence[Figures | str]) -> Reproduction:
    """What the results of all tasks come to."""
    count = len(paper.experiments)
    pictures = [(one.name, str(picture)) for one, picture in zip(paper.experiments, results, strict=False)]
    rows: list[Row] = []
    for number, experiment in enumerate(paper.experiments):
        first = count + number * repetitions
        rows += _rows(experiment, results[first : first + repetitions])
    return Reproduction(paper, repetitions, rows, pictures)


def _rows(experiment: Experiment, figures: Sequence[Figures | str]) -> Iterator[Row]:
    jobs = len(open_workload(experiment.workload, seed=0).jobs)
    for number, arm in enumerate(experiment.arms):
        for place, (name, published) in enumerate(arm.published):
            measure = MEASURES[name]
            ours = estimate([float(one[number][place]) for one in figures])
            yield Row(
                experiment=f"{experiment.name} ({arm.setting})" if arm.setting else experiment.name,
                metric=measure.title,
                unit=measure.unit,
                published=published,
                ours=ours.mean,
                low=ours.low,
                high=ours.high,
                deviation=ours.deviation,
                verdict=verdict(ours, published, measure.unit, jobs),
            )


def _do(task: Task) -> Figures | str:
    return _picture(task.experiment, task.seed) if task.picture else _figures(task.experiment, task.seed)


def _figures(experiment: Experiment, seed: int) -> Figures:
    before = _run(experiment, None, seed)
    figures: list[list[float]] = []
    for arm in experiment.arms:
        pair = pair_of(before, _run(experiment, arm, seed))
        figures.append([MEASURES[name].of(pair) for name, _ in arm.published])
    return figures


def _picture(experiment: Experiment, seed: int) -> str:
    arm = experiment.arms[experiment.drawn]
    capacities_m = {node.name: node.capacity.cpu_m for node in open_cluster(experiment.nodes).nodes}
    limits = arm.parameters.flowcon.on or "flowcon" in arm.policy
    before, after = Course(capacities_m, lists=limits), Course(capacities_m, lists=limits)
    default = _run(experiment, None, seed, before.notice)
    other = _run(experiment, arm, seed, after.notice)
    completions = [(one.name, one.jct_s, two.jct_s) for one, two in zip(default.jobs, other.jobs, strict=True)]
    title = f"{experiment.about}{'; ' + arm.setting if arm.setting else ''}; first repetition"
    return drawn(before, after, completions, title)


def _run(experiment: Experiment, arm: Arm | None, seed: int, watch: Watch | None = None) -> SimulationResult:
    """By default (without an arm), or under the policy."""
    workload, cluster = open_workload(experiment.workload, seed=seed), open_cluster(experiment.nodes)
    policy = arm.policy if arm else DEFAULT
    parameters = (arm or experiment.arms[0]).parameters
    by_lot = experiment.lots is Lots.BOTH or (experiment.lots is Lots.DEFAULT and arm is None)
    return simulate_system(
        workload,
        cluster,
        policy,
        LIVE[policy].parameters(parameters),
        seed,
        first_nodes=first_nodes(workload, cluster, seed) if by_lot else None,
        watch=watch,
    )
