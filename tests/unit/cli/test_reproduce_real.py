"""``steepest reproduce --real`` where it cannot run: what is missing is named before anything starts, with what gets it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from steepest.cli.main import main
from steepest.sim.reproduce.measures import MEASURES
from steepest.sim.workloads.arrivals import PATTERNS
from steepest.testbed.experiments import PAPER
from steepest.testbed.jobs import KINDS


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
    """SpeCon has no real experiment, and jobs of an experiment share one engine."""
    spec = CliRunner().invoke(main, ["reproduce", "specon", "--real", "--out", str(tmp_path)])

    assert spec.exit_code == 2
    assert "--real is for flowcon" in spec.stderr
    assert called(tmp_path, "--jobs", "2").exit_code == 2


def test_every_figure_can_be_measured_and_every_model_trained() -> None:
    """The experiments are those of the thesis, with trainings for all models that may be drawn."""
    assert [one.pattern for one in PAPER.experiments] == ["flowcon-3", "flowcon-5"]
    for experiment in PAPER.experiments:
        assert {*PATTERNS[experiment.pattern].models} <= {*KINDS}
        assert len({arm.setting for arm in experiment.arms}) == len(experiment.arms)
        for arm in experiment.arms:
            assert {one.measure for one in arm.published} <= {*MEASURES}
    assert all(text.endswith(".") for text in PAPER.assumptions)
