"""``steepest upgrade`` on the log of a pool that no process runs on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.conftest import Holding

from steepest.app.settings.reading import read_settings
from steepest.cli.commands.upgrade import upgrade
from steepest.cli.pool.stored_pool import look
from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.events.registry import FLAGS

READS_OF_FLAGS = max(flag.since for flag in FLAGS.values())
PARAMETERS = PoolParameters(tick_ms=700)


@pytest.fixture
def old(holding: Holding) -> Path:
    """A state folder whose pool was configured before there were flags."""
    return holding(c.PoolConfigured(parameters=PARAMETERS)).root


def run(*arguments: object) -> Result:
    """The command's output and exit status."""
    return CliRunner().invoke(upgrade, [str(argument) for argument in arguments])


def test_every_flag_is_put_in_force_once(old: Path) -> None:
    """With the version that it needs; parameters stay, and a second call finds nothing to do."""
    first = json.loads(run("--state", old, "--json").stdout)
    view = look(read_settings({"state_dir": old})).view
    second = json.loads(run("--state", old, "--json").stdout)

    assert first == {"flags": list(FLAGS), "reads": READS_OF_FLAGS, "applied": True}
    assert (view.state.flags, view.state.reads, view.parameters) == (tuple(FLAGS), READS_OF_FLAGS, PARAMETERS)
    assert second == {"flags": [], "reads": READS_OF_FLAGS, "applied": False}
    assert look(read_settings({"state_dir": old})).view.position == view.position


def test_a_dry_run_changes_nothing(old: Path) -> None:
    """It says what each flag changes."""
    before = look(read_settings({"state_dir": old})).view.position
    shown = run("--state", old, "--dry-run").stdout

    assert [line.partition(":")[0] for line in shown.splitlines()] == [f"flag {flag}" for flag in FLAGS]
    assert look(read_settings({"state_dir": old})).view.position == before
