"""``steepest upgrade`` on the log of a pool that no process runs on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.conftest import Holding

from steepest.app import configurator
from steepest.app.settings.reading import read_settings
from steepest.cli.commands.upgrade import upgrade
from steepest.cli.pool.stored_pool import look
from steepest.events import cluster as c
from steepest.events import registry
from steepest.events.parameters import PoolParameters
from steepest.events.registry import FLAGS, READS, Flag
from steepest.view import cluster_view

NEW = {7: Flag("Nodes are asked.", since=READS + 1), 8: Flag("They answer.", since=READS + 2)}
PARAMETERS = PoolParameters(tick_ms=700)


@pytest.fixture
def old(holding: Holding) -> Path:
    """A state folder whose pool was configured before there were flags."""
    return holding(c.PoolConfigured(parameters=PARAMETERS)).root


def run(*arguments: object) -> Result:
    """The command's output and exit status."""
    return CliRunner().invoke(upgrade, [str(argument) for argument in arguments])


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """This version knows two flags."""
    for module in (registry, configurator, cluster_view):
        monkeypatch.setattr(module, "FLAGS", NEW)
    monkeypatch.setattr(cluster_view, "READS", READS + 2)


def test_a_version_without_flags_has_nothing_to_switch_on(old: Path) -> None:
    """And says so."""
    assert not FLAGS
    assert run("--state", old).stdout == "nothing to switch on: the pool uses all that this version knows\n"


@pytest.mark.usefixtures("newer")
def test_every_flag_is_put_in_force_once(old: Path) -> None:
    """With the version that it needs; parameters stay, and a second call finds nothing to do."""
    first = json.loads(run("--state", old, "--json").stdout)
    view = look(read_settings({"state_dir": old})).view
    second = json.loads(run("--state", old, "--json").stdout)

    assert first == {"flags": list(NEW), "reads": READS + 2, "applied": True}
    assert (view.state.flags, view.state.reads, view.parameters) == (tuple(NEW), READS + 2, PARAMETERS)
    assert second == {"flags": [], "reads": READS + 2, "applied": False}
    assert look(read_settings({"state_dir": old})).view.position == view.position


@pytest.mark.usefixtures("newer")
def test_a_dry_run_changes_nothing(old: Path) -> None:
    """It says what each flag changes."""
    before = look(read_settings({"state_dir": old})).view.position
    shown = run("--state", old, "--dry-run").stdout

    assert [line.partition(":")[0] for line in shown.splitlines()] == [f"flag {flag}" for flag in NEW]
    assert look(read_settings({"state_dir": old})).view.position == before
