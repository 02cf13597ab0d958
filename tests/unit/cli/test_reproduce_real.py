"""``steepest reproduce --real`` where it cannot run: what is missing is named before anything starts, with what gets it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from steepest.cli.main import main
from steepest_lab.commands.reproduce import PARTS
from steepest_lab.reproduce.experiments.experiment import Paper
from steepest_lab.reproduce.experiments.measures import MEASURES
from steepest_lab.reproduce.papers import REAL
from steepest_lab.reproduce.testbed.jobs import KINDS
from steepest_lab.reproduce.testbed.reproduce import only, tasks
from steepest_lab.reproduce.testbed.run import runs_of
from steepest_lab.sim.workloads.arrivals import PATTERNS


def called(out: Path, *options: str) -> Result:
    """The command, on FlowCon."""
    return CliRunner().invoke(main, ["reproduce", "flowcon", "--real", "--out", str(out), *options])


def test_the_client_is_an_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And is named with it."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "docker" else find(name))

    assert called(tmp_path).exit_code == 2
    assert "steepest[docker]" in called(tmp_path).stderr


def test_an_engine_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is none, ``make engine`` gets it."""
    monkeypatch.setattr(shutil, "which", lambda _name, **_: None)

    assert called(tmp_path).exit_code == 2
    assert "dockerd" in called(tmp_path).stderr
    assert "make engine" in called(tmp_path).stderr


def test_root_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An engine of one's own cannot be started by anybody."""
    monkeypatch.setattr(shutil, "which", lambda _name, **_: "/usr/sbin/dockerd")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert called(tmp_path).exit_code == 2
    assert "as root" in called(tmp_path).stderr


def test_images_are_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``make images`` makes them; nothing was written by then."""
    monkeypatch.setattr(shutil, "which", lambda _name, **_: "/usr/sbin/dockerd")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("STEEPEST_DOCKER_HOME", str(tmp_path / "none"))

    result = called(tmp_path / "out")
    assert result.exit_code == 2
    assert "make images" in result.stderr
    assert not (tmp_path / "out").exists()


def test_options_that_do_not_go_with_it(tmp_path: Path) -> None:
    """Real runs share one machine, so they are made one after the other."""
    result = called(tmp_path, "--jobs", "2")

    assert result.exit_code == 2
    assert "leave --jobs out" in result.stderr


@pytest.mark.parametrize("paper", REAL.values(), ids=lambda paper: paper.name)
def test_every_figure_can_be_measured_and_every_model_trained(paper: Paper) -> None:
    """The experiments are those of the thesis, with trainings for all models that may be drawn."""
    for experiment in paper.experiments:
        assert {*PATTERNS[experiment.pattern].models} <= {*KINDS}
        assert len({arm.setting for arm in experiment.arms}) == len(experiment.arms)
        for arm in experiment.arms:
            assert {one.measure for one in arm.published} <= {*MEASURES}
    assert all(text.endswith(".") for text in paper.assumptions)


@pytest.mark.parametrize("paper", REAL.values(), ids=lambda paper: paper.name)
def test_each_experiment_is_a_part(paper: Paper) -> None:
    """Some run without the others, and the report says which."""
    names = [one.name for one in paper.experiments]
    part = only(paper, names[1:2])

    assert list(PARTS[paper.name]) == names
    assert [one.name for one in part.experiments] == names[1:2]
    assert part.assumptions == (f"Of {len(names)} experiments, 1 ran: {names[1]}.", *paper.assumptions)
    assert only(paper, ()) is paper


def test_runs_are_paired_and_take_turns() -> None:
    """Every run once in each repetition, and in another order in the next one."""
    paper = REAL["specon"]
    first, second = (runs_of(paper.experiments[0], seed) for seed in (0, 1))

    assert [(run.start.value, run.arm) for run in first] == [
        ("even start", None),
        ("even start", 0),
        ("uneven start", None),
        ("uneven start", 0),
    ]
    assert [(run.start, run.arm) for run in second] == [(run.start, run.arm) for run in [*first[1:], first[0]]]
    assert len(tasks(paper, 3)) == len({run.folder for run in tasks(paper, 3)}) == 2 * 3 * 4
