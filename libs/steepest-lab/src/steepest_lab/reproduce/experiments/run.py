"""All runs of a paper, in parallel, and the rows of their results.

A repetition is a function of its experiment and its number, which is its seed: its figures do not depend on where
it is run, nor on other runs at the same time.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

import msgspec

from steepest_lab.reproduce.experiments.course import Course
from steepest_lab.reproduce.experiments.experiment import Arm, Experiment, Paper, Published
from steepest_lab.reproduce.experiments.measures import DEFAULTS, MEASURES, BeforeAfter, pair_of
from steepest_lab.reproduce.experiments.placement import Start, first_nodes
from steepest_lab.reproduce.experiments.plots import drawn
from steepest_lab.reproduce.verdict import Agreement, Unit, verdict
from steepest_lab.sim.estimate import Estimate, estimate
from steepest_lab.sim.policies import LIVE
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.run import side_by_side
from steepest_lab.sim.system.pool import Watch
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workloads.arrivals import PATTERNS

DEFAULT = "spread"
"""The live policy that neither moves nor limits."""


class Part(enum.StrEnum):
    """The part of a report to which a row belongs."""

    DEFAULT = "default run"  # lengths were chosen by it: it is no result
    EFFECT = "effect"
    SENSITIVITY = "sensitivity"
    OVERHEAD = "overhead"  # in real seconds, with nothing published to compare it with


class ExperimentFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of an experiment, published and ours.

    Attributes:
        experiment: Its name.
        setting: Empty where it has one only.
        unit: Of all figures of the row.
        published: None: there is none.
        chart: That was read off a chart.
        ours: Mean over the repetitions.
        low: Of the 95 % confidence interval of that mean; without bound (JSON: null) after a single repetition.
        high: Likewise.
        deviation: Standard deviation of a single repetition.
        verdict: Of an effect that was published; None: there is nothing to judge.
    """

    part: Part
    experiment: str
    setting: str
    start: Start
    metric: str
    unit: Unit
    jobs: int
    published: float | None
    chart: bool
    ours: float
    low: float
    high: float
    deviation: float
    verdict: Agreement | None


class Reproduction(msgspec.Struct, frozen=True):
    """All rows of a paper, and a picture of each experiment's first repetition."""

    paper: Paper
    repetitions: int
    rows: Sequence[ExperimentFigure]
    pictures: Sequence[tuple[str, str]]


class SeededRun(msgspec.Struct, frozen=True):
    """A repetition of an experiment; ``picture``: its picture instead of its figures."""

    experiment: Experiment
    seed: int
    picture: bool = False


Figures = Sequence[Sequence[Sequence[float]]]
"""Of one repetition: for each start, first the default run's figures and then those of each arm, in their order."""


def tasks(paper: Paper, repetitions: int) -> Sequence[SeededRun]:
    """All tasks, the pictures first: they take longest."""
    pictures = [SeededRun(one, 0, picture=True) for one in paper.experiments]
    return [*pictures, *(SeededRun(one, seed) for one in _all(paper) for seed in range(repetitions))]


def done(todo: Sequence[SeededRun], workers: int | None) -> Iterator[Figures | str]:
    """The result of each task, in their order."""
    return side_by_side(_do, todo, workers)


def reproduction(paper: Paper, repetitions: int, results: Sequence[Figures | str]) -> Reproduction:
    """The reproduction from the results of all tasks."""
    count = len(paper.experiments)
    pictures = [(one.name, str(picture)) for one, picture in zip(paper.experiments, results, strict=False)]
    rows: list[ExperimentFigure] = []
    for number, experiment in enumerate(_all(paper)):
        first = count + number * repetitions
        figures = [one for one in results[first : first + repetitions] if not isinstance(one, str)]
        rows += _rows(experiment, figures, sensitivity=number >= count)
    return Reproduction(paper, repetitions, rows, pictures)


def figures_of(experiment: Experiment, pairs: Sequence[BeforeAfter]) -> Sequence[Sequence[float]]:
    """One start's figures from the pairs of its arms."""
    default = [DEFAULTS[one.measure].of(pairs[0]) for one in experiment.default]
    arms = zip(experiment.arms, pairs, strict=True)
    return [default, *([MEASURES[one.measure].of(pair) for one in arm.published] for arm, pair in arms)]


def _all(paper: Paper) -> Sequence[Experiment]:
    return [*paper.experiments, *paper.sensitivity]


def _rows(experiment: Experiment, figures: Sequence[Figures], *, sensitivity: bool) -> Iterator[ExperimentFigure]:
    groups = [(Part.DEFAULT, "", experiment.default)]
    part = Part.SENSITIVITY if sensitivity else Part.EFFECT
    groups += [(part, arm.setting, arm.published) for arm in experiment.arms]
    for at, (part, setting, published) in enumerate(groups):
        for place, one in enumerate(published):
            for begun, start in enumerate(experiment.starts):
                ours = estimate([repetition[begun][at][place] for repetition in figures])
                yield _row(experiment, one, ours, part=part, setting=setting, start=start)


def _row(
    experiment: Experiment, published: Published, ours: Estimate, *, part: Part, setting: str, start: Start
) -> ExperimentFigure:
    measure = (DEFAULTS if part is Part.DEFAULT else MEASURES)[published.measure]
    jobs = PATTERNS[experiment.pattern].jobs
    judged = part is Part.EFFECT and published.value is not None
    return ExperimentFigure(
        part=part,
        experiment=experiment.name,
        setting=setting,
        start=start,
        metric=measure.title,
        unit=measure.unit,
        jobs=jobs,
        published=published.value,
        chart=published.chart,
        ours=ours.mean,
        low=ours.low,
        high=ours.high,
        deviation=ours.deviation,
        verdict=verdict(ours, published.value or 0.0, measure.unit, jobs, published.slack) if judged else None,
    )


def _do(task: SeededRun) -> Figures | str:
    return _picture(task.experiment, task.seed) if task.picture else _figures(task.experiment, task.seed)


def _figures(experiment: Experiment, seed: int) -> Figures:
    found: list[Sequence[Sequence[float]]] = []
    for start in experiment.starts:
        before = ran(experiment, None, start, seed)
        pairs = [pair_of(before, ran(experiment, arm, start, seed)) for arm in experiment.arms]
        found.append(figures_of(experiment, pairs))
    return found


def _picture(experiment: Experiment, seed: int) -> str:
    """Of the last start, which is the uneven one where there are two."""
    arm, start = experiment.arms[experiment.drawn], experiment.starts[-1]
    capacities_m = {node.name: node.capacity.cpu_m for node in experiment.nodes().nodes}
    limits = arm.parameters.flowcon.on or "flowcon" in arm.policy
    before, after = Course(capacities_m, lists=limits), Course(capacities_m, lists=limits)
    default = ran(experiment, None, start, seed, before.notice)
    other = ran(experiment, arm, start, seed, after.notice)
    completions = [(one.name, one.jct_s, two.jct_s) for one, two in zip(default.jobs, other.jobs, strict=True)]
    words = [experiment.about, arm.setting, "" if start is Start.ONE_NODE else start.value, "first repetition"]
    return drawn(before, after, completions, "; ".join(word for word in words if word))


def ran(
    experiment: Experiment, arm: Arm | None, start: Start, seed: int, watch: Watch | None = None
) -> SimulationResult:
    """One run: by default (without an arm), or under the policy."""
    workload, cluster = experiment.jobs(start, seed), experiment.nodes()
    policy = arm.policy if arm else DEFAULT
    parameters = (arm or experiment.arms[0]).parameters
    return simulate_system(
        workload,
        cluster,
        policy,
        LIVE[policy].parameters(parameters),
        seed,
        first_nodes=first_nodes(workload, cluster, start, seed) if arm is None or experiment.pinned else None,
        watch=watch,
    )
