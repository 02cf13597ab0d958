"""``up`` over a log in files removes old records by itself, as its settings say."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.harness.waiting import until

from steepest.app.compose import embedded
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.events.common import Resources
from steepest.log.base import NewRecord
from steepest.log.files.file_log import FileLog
from steepest.log.files.recording import begin_of
from steepest.runtime.layout import DEAD_LETTERS

OLD = [NewRecord(to=DEAD_LETTERS, key="", value=b"{}", at_ms=1) for _ in range(3)]


@pytest.mark.parametrize(
    ("file", "kept_from"), [("", 3), ("[retention]\nms = []\n", 0)], ids=["default", "all is kept"]
)
async def test_old_records_go_when_it_starts(tmp_path: Path, file: str, kept_from: int) -> None:
    """By default dead letters of more than 90 days; with an empty list nothing, so that the log is a whole recording."""
    config = tmp_path / "steepest.toml"
    config.write_text(file)
    settings = read_settings({"state_dir": tmp_path / "state"}, config)
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000)),)))
    log = FileLog(folder.log, folder.read().layout.partitions())
    await log.append(OLD)
    stop = asyncio.Event()
    async with embedded(settings) as process:
        running = asyncio.create_task(process.runtime.run(stop))
        await until(process.runtime.health.is_ready)
        await until(lambda: begin_of(folder.log, DEAD_LETTERS) == kept_from)
        stop.set()
        await running
    assert await log.begin(DEAD_LETTERS) == kept_from
    await log.close()
