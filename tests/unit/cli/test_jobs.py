"""``steepest jobs`` on the log of a pool that no process runs on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from click.testing import CliRunner

from steepest.cli.jobs import jobs
from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.log.file import FileLog
from steepest.runtime.decode import new_record
from steepest.runtime.identity import open_partitions
from steepest.state_folder import Installation, NodeSpec, StateFolder


def test_a_job_without_a_command_is_listed(tmp_path: Path) -> None:
    """A log may hold one, whoever wrote it; it is shown as any other."""
    folder = StateFolder(tmp_path / "state")
    installation = Installation(nodes=(NodeSpec("n1", Resources(1_000)),))
    folder.create(installation)

    async def write() -> None:
        log = FileLog(folder.log, installation.layout.partitions())
        await open_partitions(log, installation.layout, SystemClock())
        submitted = c.JobSubmitted(job="odd", request="r", spec=c.JobSpec(command=()))
        await log.append([new_record(installation.layout.of_pool("default"), "default", submitted, 1)])
        await log.close()

    asyncio.run(write())
    for form in ([], ["--json"]):
        done = CliRunner().invoke(jobs, ["--state", str(folder.root), *form], catch_exceptions=False)
        assert done.exit_code == 0
        assert "odd" in done.stdout
