"""What ``steepest explain`` adds to a job's story from its losses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner

from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.cli.main import main
from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.loss import JobWatched
from steepest.events.parameters import SpeConParameters
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import new_record
from steepest.runtime.recovery.log_identity import open_partitions


def watched(job: str, incarnation: int, left_out: int) -> JobWatched:
    """What the log-collector says of a job."""
    return JobWatched(
        job=job,
        pool="default",
        incarnation=incarnation,
        metric="loss",
        parameters=SpeConParameters(),
        left_out=left_out,
    )


async def write(folder: StateFolder, installation: Installation, *said: JobWatched) -> None:
    """A log of two jobs, and of what the log-collector says of them."""
    log = FileLog(folder.log, installation.layout.partitions())
    await open_partitions(log, installation.layout, SystemClock())
    pool = installation.layout.of_pool("default")
    for job in ("flood", "quiet"):
        submitted = c.JobSubmitted(job=job, request=job, spec=c.JobSpec(command=("train",)))
        await log.append([new_record(pool, "default", submitted, 1)])
    for one in said:
        await log.append([new_record(installation.layout.of_key("loss", one.job), one.job, one, 1)])
    await log.close()


def test_how_many_records_were_left_out_is_said(tmp_path: Path) -> None:
    """The newest count of each incarnation of that job, added up; nothing where nothing was left out."""
    folder = StateFolder(tmp_path / "state")
    installation = Installation(nodes=(NodeSpec("n1", Resources(1_000)),))
    folder.create(installation)
    said = [watched("flood", 1, 0), watched("flood", 1, 900), watched("flood", 2, 0), watched("flood", 2, 700)]
    asyncio.run(write(folder, installation, *said, watched("quiet", 1, 0)))

    def explain(*arguments: str) -> str:
        return CliRunner().invoke(main, ["explain", "--state", str(folder.root), *arguments]).stdout

    assert "1,600 of its loss records" in explain("flood")
    assert "left out" not in explain("quiet")
    assert json.loads(explain("flood", "--json"))["left_out"] == 1_600
