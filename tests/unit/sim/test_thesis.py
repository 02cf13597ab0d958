"""The reconstructed models and arrivals of the thesis come to its published figures under the default scheduler."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from steepest.errors import InputError
from steepest.sim.clusters import open_cluster
from steepest.sim.losses.thesis import ASSUMPTIONS, FLOWCON, MODELS, SPECON
from steepest.sim.reproduce.placement import first_nodes
from steepest.sim.workloads.arrivals import PATTERNS, arrivals

from .fluid import completions


def run(name: str, seed: int) -> tuple[float, float, list[float]]:
    """Mean completion time, makespan, and each job's completion time."""
    workload, cluster = arrivals(name, seed), open_cluster(PATTERNS[name].cluster)
    jobs, places = workload.jobs, first_nodes(workload, cluster, seed)
    names = [node.name for node in cluster.nodes]
    capacities = [node.capacity.cpu_m for node in cluster.nodes]
    times = completions(jobs, capacities, [names.index(places[job.name]) for job in jobs])
    makespan = max(job.submit_s + time for job, time in zip(jobs, times, strict=True))
    return statistics.fmean(times), makespan, times


@pytest.mark.slow
def test_twenty_vae_at_fixed_times() -> None:
    """275.2 s on average and a makespan of 1,260 s, over the draws of first nodes; nothing else is drawn."""
    runs = [run("fixed-20", seed) for seed in range(200)]

    assert statistics.fmean(one[0] for one in runs) == pytest.approx(275.2, rel=0.03)
    assert statistics.fmean(one[1] for one in runs) == pytest.approx(1_260, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mean", "makespan"),
    [
        ("mixed-20", None, 1_421),
        ("mixed-30", 799.5, 1_640),
        ("mixed-50", 596.3, 2_070),
        ("flowcon-10", None, 1_384.9),
        ("flowcon-15", None, 1_980.1),
    ],
)
def test_mixed_jobs(name: str, mean: float | None, makespan: float) -> None:
    """The published run is one of those that the draw of models and times gives: within 1.5 standard deviations."""
    runs = [run(name, seed) for seed in range(60)]
    for published, drawn in ((mean, [one[0] for one in runs]), (makespan, [one[1] for one in runs])):
        if published is not None:
            assert abs(published - statistics.fmean(drawn)) < 1.5 * statistics.stdev(drawn), (published, drawn)


def test_flowcons_three_jobs() -> None:
    """Makespan 394.0 s; the late, short job takes 84.7 s."""
    _, makespan, times = run("flowcon-3", 0)

    assert makespan == pytest.approx(394.0, rel=0.02)
    assert times[2] == pytest.approx(84.7, rel=0.02)


@pytest.mark.parametrize("name", MODELS)
def test_most_of_the_reduction_is_in_the_first_fifth(name: str) -> None:
    """Of all that a run's loss falls, at least 80 %."""
    loss = MODELS[name].curve.expected

    assert (loss(0) - loss(0.2)) / (loss(0) - loss(1)) > 0.8


def test_the_models_of_the_experiments() -> None:
    """Five in two frameworks, none of which a worker of 8 cores cannot give what it can use."""
    assert len(SPECON) == 10
    assert {"vae-pytorch", "mnist-pytorch", "mnist-tensorflow"} < {*FLOWCON}
    for model in MODELS.values():
        assert 0.5 * 8_000 < model.demand_cpu_m <= 8_000
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
        (0.0, "vae-pytorch"),
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
    """The known names are told."""
    with pytest.raises(InputError, match="thesis:none") as caught:
        arrivals("thesis:none", 0)

    assert "thesis:fixed-20" in caught.value.hint


def test_the_docs_list_every_pattern() -> None:
    """With the cluster that it was run on."""
    docs = (Path(__file__).parents[3] / "docs" / "workloads.md").read_text()
    for name, pattern in PATTERNS.items():
        assert f"| `thesis:{name}` | {pattern.about}" in docs
        assert f"`{pattern.cluster}`" in docs
