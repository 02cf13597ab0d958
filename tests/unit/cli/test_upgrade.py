"""``steepest upgrade`` on the log of a pool that no process runs on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from steepest.cli.pool import look
from steepest.cli.upgrade import upgrade
from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.registry import FLAGS, READS
from steepest.log.file import FileLog
from steepest.runtime.decode import new_record
from steepest.runtime.identity import open_partitions
from steepest.state_folder import Installation, NodeSpec, StateFolder

PARAMETERS = PoolParameters(tick_ms=700)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A state folder whose pool was configured before there were flags."""
    folder = StateFolder(tmp_path / "state")
    installation = Installation(nodes=(NodeSpec("n1", Resources(1_000)),))
    folder.create(installation)

    async def write() -> None:
        log = FileLog(folder.log, installation.layout.partitions())
        await open_partitions(log, installation.layout, SystemClock())
        configured = c.PoolConfigured(parameters=PARAMETERS)
        await log.append([new_record(installation.layout.of_pool("default"), "default", configured, 1)])
        await log.close()

    asyncio.run(write())
    return folder.root


def run(*arguments: object) -> Result:
    """The command's output and exit status."""
    return CliRunner().invoke(upgrade, [str(argument) for argument in arguments])


def test_every_flag_is_put_in_force_once(old: Path) -> None:
    """With the version that it needs; parameters stay, and a second call finds nothing to do."""
    first = json.loads(run("--state", old, "--json").stdout)
    view = look(old).view
    second = json.loads(run("--state", old, "--json").stdout)

    assert first == {"flags": list(FLAGS), "reads": READS, "applied": True}
    assert (view.state.flags, view.state.reads, view.parameters) == (tuple(FLAGS), READS, PARAMETERS)
    assert second == {"flags": [], "reads": READS, "applied": False}
    assert look(old).view.position == view.position


def test_a_dry_run_changes_nothing(old: Path) -> None:
    """It says what each flag changes."""
    before = look(old).view.position
    shown = run("--state", old, "--dry-run").stdout

    assert [line.partition(":")[0] for line in shown.splitlines()] == [f"flag {flag}" for flag in FLAGS]
    assert look(old).view.position == before
