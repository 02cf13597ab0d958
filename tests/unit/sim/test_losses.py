"""Curves, families, noise, and what a job reports."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise

import pytest

from steepest.errors import InputError
from steepest.events.common import Resources
from steepest_lab.sim.losses.curve import Exponential, Inverse, Points, Power, TwoPhase
from steepest_lab.sim.losses.families import FAMILIES, TASKS, family_of, task_of
from steepest_lab.sim.losses.noise import normal, stream_of
from steepest_lab.sim.losses.training import JobLosses
from steepest_lab.sim.workload import SimJob


def job(name: str = "job", **fields: object) -> SimJob:
    """A job of 100 iterations."""
    known = {"submit_s": 0.0, "requests": Resources(gpus=1), "work_s": 100.0, "iterations": 100}
    return SimJob(name=name, **(known | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("curve", "start", "middle", "end"),
    [
        (Inverse(floor=1.0, drop=2.0, rate=3.0), 3.0, 1.8, 1.5),
        (Power(floor=1.0, drop=2.0, rate=3.0, exponent=0.5), 3.0, 2.264911064, 2.0),
        (Exponential(floor=1.0, drop=2.0, rate=2.0), 3.0, 1.735758882, 1.270670566),
        (TwoPhase(floor=1.0, fast=2.0, fast_rate=2.0, slow=1.0, slow_rate=0.0), 4.0, 2.735758882, 2.270670566),
        (Points((0.2, 0.6, 0.8), (3.0, 1.0, 0.5)), 3.0, 1.5, 0.5),
    ],
)
def test_shapes(curve: Inverse, start: float, middle: float, end: float) -> None:
    """The formulas, at the start, the middle and the end of a run."""
    assert [curve.expected(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([start, middle, end])


def test_families_are_trainings() -> None:
    """Each falls from its start to its end, stays above 0, and says where it is from and how well it fits."""
    fitted = [family for family in FAMILIES.values() if family.task != "thesis"]

    for family in FAMILIES.values():
        losses = [family.curve.expected(number / 100) for number in range(101)]
        assert all(after <= before for before, after in pairwise(losses)), family.name
        assert 0 < losses[-1] < 0.9 * losses[0], family.name
        assert 0 < family.noise < 0.25, family.name
        assert family.source
    assert len(fitted) >= 10
    for family in fitted:
        assert family.r2 is not None
        assert 0.5 <= family.r2 <= 1
        assert family.task in TASKS
    assert {*TASKS} == {family.task for family in fitted}


@pytest.mark.parametrize(
    ("model", "task"),
    [
        ("vgg16", "vision"),
        ("shufflenet_v2_x1_0", "vision"),
        ("ResNet-50", "vision"),
        ("bert", "language"),
        ("gpt2", "language"),
        ("LM", "language"),
        ("deepspeech2", "speech"),
        ("a2c", None),
        ("", None),
    ],
)
def test_models_of_the_traces_have_families_of_their_task(model: str, task: str | None) -> None:
    """A model that is known by its name learns as its kind does; any other as one of all."""
    assert task_of(model) == task
    for seed in range(20):
        assert task in {None, family_of(model, seed).task}


def test_a_model_keeps_its_family_under_a_seed_and_has_others_under_others() -> None:
    """The choice depends on the model and the seed, and on nothing else."""
    chosen = [family_of("resnet18", seed).name for seed in range(50)]

    assert chosen == [family_of("resnet18", seed).name for seed in range(50)]
    assert len({*chosen}) > 1


def test_noise_is_normal_and_steps_know_nothing_of_each_other() -> None:
    """Over 20,000 steps: mean 0, variance 1, the share within one deviation, and no correlation of neighbours."""
    stream = stream_of(1, "job")
    drawn = [normal(stream, step) for step in range(20_000)]
    mean = sum(drawn) / len(drawn)
    variance = sum(x * x for x in drawn) / len(drawn)

    assert abs(mean) < 0.03
    assert abs(variance - 1) < 0.04
    assert abs(sum(abs(x) < 1 for x in drawn) / len(drawn) - 0.6827) < 0.015
    assert abs(sum(x * y for x, y in pairwise(drawn)) / len(drawn)) < 0.03


def test_neighbouring_jobs_and_seeds_have_streams_of_their_own() -> None:
    """Jobs that report at the same steps do not move together."""
    mine = [normal(stream_of(1, "job-1"), step) for step in range(5_000)]
    for seed, name in ((1, "job-2"), (2, "job-1")):
        other = [normal(stream_of(seed, name), step) for step in range(5_000)]
        assert abs(sum(x * y for x, y in zip(mine, other, strict=True)) / 5_000) < 0.06


def test_what_a_job_reports_follows_its_family() -> None:
    """The reports lie around the expected loss, as far as the family's noise says, and never below 0."""
    training = JobLosses(job(family="algoperf/wmt", iterations=10_000), 7)
    curve, noise = training.family.curve, training.family.noise
    ratios = [training.loss(step) / curve.expected(step / 10_000) for step in range(10_000)]

    assert min(ratios) > 0
    assert abs(sum(ratios) / 10_000 - 1) < 3 * noise / 100
    assert sum(abs(ratio - 1) < noise for ratio in ratios) / 10_000 == pytest.approx(0.683, abs=0.02)


def test_a_report_depends_on_its_step_alone() -> None:
    """Reports may be lost, repeated, re-ordered, or generated again after a move."""
    one, other = JobLosses(job(), 1), JobLosses(job(), 1)
    straight = [one.loss(step) for step in range(101)]

    assert [other.loss(step) for step in reversed(range(101))] == straight[::-1]
    assert JobLosses(job(), 2).loss(50) != straight[50]
    assert JobLosses(job("another", model="bert"), 1).loss(50) != JobLosses(job(model="bert"), 1).loss(50)


def test_jobs_without_a_model_differ() -> None:
    """Philly names no models: its jobs are not all alike for that."""
    assert len({JobLosses(job(f"job-{number}"), 1).family.name for number in range(50)}) > 5


def test_a_family_that_does_not_exist() -> None:
    """The job and its field are named."""
    with pytest.raises(InputError, match="job a, family: there is no loss family 'none'"):
        JobLosses(job("a", family="none"), 0)


def test_losses_are_the_same_in_every_process() -> None:
    """Neither hash seed nor process changes a bit of them."""
    code = (
        "from steepest_lab.sim.losses.training import JobLosses; from steepest_lab.sim.workloads.read import open_workload\n"
        "jobs = open_workload('thesis:mixed-20', seed=4).jobs\n"
        "print([(j.name, j.submit_s, j.model, JobLosses(j, 3).loss(5)) for j in jobs],"
        " [JobLosses(j, 3).family.name for j in jobs])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }

    assert len(said) == 1
