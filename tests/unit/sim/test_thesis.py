"""The reconstructed models and arrivals of the thesis come to its published figures under the default scheduler."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from steepest.errors import InputError
from steepest_lab.reproduce.experiments.experiment import Experiment
from steepest_lab.reproduce.experiments.placement import Start, first_nodes
from steepest_lab.reproduce.papers import SIMULATED
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.losses.overlaps import DEFAULT_ENDS_S, FLOWCON_ENDS_S, contention, lengths_s, spells_s
from steepest_lab.sim.losses.thesis import ASSUMPTIONS, CONTENTION, FLOWCON, MODELS, SPECON, THREE_DEMANDS_M
from steepest_lab.sim.workloads.arrivals import PATTERNS, arrivals
from steepest_lab.simulated.shares import slowdown

from .fluid import completions

EXPERIMENTS = {one.name: one for paper in SIMULATED.values() for one in (*paper.experiments, *paper.sensitivity)}

FITTED = [(one, start) for one in EXPERIMENTS.values() if one.default for start in one.starts]


def default_run(experiment: Experiment, start: Start, seed: int) -> tuple[float, float, list[float]]:
    """Mean completion time, makespan, and each job's completion time."""
    workload, cluster = experiment.jobs(start, seed), experiment.nodes()
    jobs, places = workload.jobs, first_nodes(workload, cluster, start, seed)
    names = [node.name for node in cluster.nodes]
    capacities = [node.usable * node.capacity.cpu_m for node in cluster.nodes]
    times = completions(jobs, capacities, [names.index(places[job.name]) for job in jobs], experiment.contention)
    makespan = max(job.submit_s + time for job, time in zip(jobs, times, strict=True))
    return statistics.fmean(times), makespan, times


@pytest.mark.parametrize(("experiment", "start"), FITTED, ids=lambda one: getattr(one, "name", one))
def test_default_runs(experiment: Experiment, start: Start) -> None:
    """Mean and makespan are within 3 % or 1.5 standard deviations of the draw of models and times: theirs is one of them."""
    runs = [default_run(experiment, start, seed) for seed in range(12)]
    published = {one.measure: one.value for one in experiment.default}
    for name, drawn in (("mean", [one[0] for one in runs]), ("makespan", [one[1] for one in runs])):
        if (value := published.get(name)) is not None:
            slack = max(0.03 * value, 1.5 * statistics.stdev(drawn))
            assert abs(value - statistics.fmean(drawn)) < slack, (value, drawn)


def test_flowcons_three_jobs() -> None:
    """They end when the thesis says, to a second, with lengths that follow from it under the contention that follows."""
    _, _, times = default_run(EXPERIMENTS["flowcon-3"], Start.ONE_NODE, 0)
    ends = [at + time for at, time in zip((0, 40, 80), times, strict=True)]

    assert ends == pytest.approx(DEFAULT_ENDS_S, abs=1)


def test_lengths_without_contention_by_hand() -> None:
    """A third of a node for 84.7 s, half of it for 155.8 s, and all of it alone, each over what a job can use."""
    third, half = 84.7 * 8 / 3, 155.8 * 4
    by_hand = [153.5 + (half + third) / 6.6, (half + third) / 7.2, third / 7.2]

    assert spells_s(DEFAULT_ENDS_S) == pytest.approx([153.5, 155.8, 84.7])
    assert lengths_s(THREE_DEMANDS_M, 0.0) == pytest.approx(by_hand, abs=0.06)


def test_contention_does_both_runs_equal_work() -> None:
    """By hand: what FlowCon saves of the overlap, at the pace of three limited jobs, it adds alone and takes from two."""
    found = contention(THREE_DEMANDS_M)
    one = 6_600 / 8_000
    two, three = (1 / slowdown(found.estimate, 8_000, THREE_DEMANDS_M[:count], [None] * count) for count in (2, 3))
    limited = 1 / slowdown(found.estimate, 8_000, THREE_DEMANDS_M, [2_000, 2_000, None])
    default, flowcon = spells_s(DEFAULT_ENDS_S), spells_s(FLOWCON_ENDS_S)
    done = [spells[0] * one + spells[1] * two for spells in (default, flowcon)]

    assert done[0] + default[2] * three == pytest.approx(done[1] + flowcon[2] * limited)
    assert round(found.estimate, 2) == CONTENTION


def test_contention_is_hardly_known() -> None:
    """One pair of runs: the interval begins at none, and ends at twice the estimate."""
    found = contention(THREE_DEMANDS_M)

    assert found.low == 0.0
    assert found.high == pytest.approx(found.estimate + 1.96 * found.deviation)
    assert found.high > 2 * found.estimate


@pytest.mark.parametrize("name", MODELS)
def test_the_reduction_in_the_first_fifth(name: str) -> None:
    """Of all that a run's loss falls: what the thesis gives for three models, and about nine tenths of the others'."""
    loss = MODELS[name].curve.expected
    printed = {"vae": 0.65, "bi": 0.98, "gru": 0.90}.get(name.split("-", maxsplit=1)[0])
    share = (loss(0) - loss(0.2)) / (loss(0) - loss(1))

    assert share == pytest.approx(printed) if printed else 0.85 < share < 0.98


def test_the_models_of_the_experiments() -> None:
    """Five in two frameworks; all but LSTM-CFC, which uses 19 % of a node, can use most of one."""
    assert len(SPECON) == 10
    assert {"vae-flowcon", "mnist-pytorch", "mnist-tensorflow"} < {*FLOWCON}
    for name, model in MODELS.items():
        assert model.demand_cpu_m == 1_520 if name == "lstm-cfc" else 4_000 < model.demand_cpu_m <= 8_000
        assert 1 <= model.work_s / model.reports <= 5
    assert all(text.endswith(".") for text in ASSUMPTIONS)


@pytest.mark.parametrize("name", PATTERNS)
def test_arrivals(name: str) -> None:
    """As many jobs as it says, within the window, of its models; a seed draws the same ones, another seed others."""
    pattern = PATTERNS[name]
    workload = arrivals(name, 5)
    times = [job.submit_s for job in workload.jobs]

    assert len(workload.jobs) == pattern.jobs
    assert times == sorted(times)
    assert max(times) <= max(pattern.window_s, *pattern.at_s, 0)
    assert {job.model for job in workload.jobs} <= {*pattern.models}
    assert len({job.name for job in workload.jobs}) == pattern.jobs
    assert workload == arrivals(f"thesis:{name}", 5)
    drawn = not pattern.at_s or len(pattern.models) not in (1, pattern.jobs)
    assert (arrivals(name, 6) != workload) == drawn
    assert workload.source == f"thesis:{name}"


def test_all_times_of_a_window_are_drawn() -> None:
    """Both ends of it included."""
    drawn = {job.submit_s for seed in range(2_000) for job in arrivals("flowcon-5", seed).jobs}

    assert drawn == {float(second) for second in range(201)}


def test_the_three_jobs_of_flowcon() -> None:
    """At their published times."""
    assert [(job.submit_s, job.model) for job in arrivals("flowcon-3", 9).jobs] == [
        (0.0, "vae-flowcon"),
        (40.0, "mnist-pytorch"),
        (80.0, "mnist-tensorflow"),
    ]


def test_jobs_reserve_little_and_can_use_much() -> None:
    """Twenty of them fit one worker, and two of them fill it."""
    (node,) = open_cluster("1x8cpu").nodes
    jobs = arrivals("mixed-20", 0).jobs

    assert sum(job.requests.cpu_m for job in jobs) <= node.capacity.cpu_m
    assert sum(job.requests.memory_mib for job in jobs) <= node.capacity.memory_mib
    assert min(job.demand_cpu_m for job in jobs) * 2 > node.capacity.cpu_m


def test_arrivals_that_are_none() -> None:
    """The known names are listed."""
    with pytest.raises(InputError, match="thesis:none") as caught:
        arrivals("thesis:none", 0)

    assert "thesis:fixed-20" in caught.value.hint


def test_the_docs_list_every_pattern() -> None:
    """With the cluster that it was run on."""
    docs = (Path(__file__).parents[3] / "docs" / "workloads.md").read_text()
    for name, pattern in PATTERNS.items():
        assert f"| `thesis:{name}` | {pattern.about}" in docs
        assert f"`{pattern.cluster}`" in docs
