"""A state folder whose pool no process runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import new_record
from steepest.runtime.recovery.log_identity import open_partitions

Holding = Callable[..., StateFolder]


def installed(root: Path, *events: c.ClusterEvent) -> StateFolder:
    """An installation of one node, whose pool's log is open and has these events."""
    folder = StateFolder(root)
    installation = Installation(nodes=(NodeSpec("n1", Resources(1_000)),))
    folder.create(installation)
    pool = installation.layout.of_pool("default")

    async def write() -> None:
        log = FileLog(folder.log, installation.layout.partitions())
        await open_partitions(log, installation.layout, SystemClock())
        await log.append([new_record(pool, "default", event, 1) for event in events])
        await log.close()

    asyncio.run(write())
    return folder


@pytest.fixture
def holding(tmp_path: Path) -> Holding:
    """Make an installation on which a system once ran, with these events in the pool's log."""
    return lambda *events: installed(tmp_path / "state", c.PoolConfigured(), *events)


@pytest.fixture
def opened(tmp_path: Path) -> StateFolder:
    """An installation whose first system has opened its log, and done nothing else yet."""
    return installed(tmp_path / "state")
