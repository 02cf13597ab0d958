"""The machine loses power: of the files of a log there is what was synced, and any part of the rest."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.harness.scenarios.folded_pool import joined, submitted
from tests.harness.system.rig import events_of
from tests.harness.waiting import until

from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.log.base import TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.log.files.partition_file import PartitionFile
from steepest.log.snapshot_store import FolderSnapshots
from steepest.policies.placement.placer import Placer
from steepest.runtime import pool_loop
from steepest.runtime.decode import new_record
from steepest.runtime.layout import Layout
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service
from steepest.view.cluster_view import fold_all

AT = TopicPartition("cluster")
LAYOUT = Layout()


@contextlib.asynccontextmanager
async def placer(folder: Path, *events: c.ClusterEvent, dies: bool = True) -> AsyncIterator[tuple[FileLog, Runtime]]:
    """A placer that has read all that is there, and these events; then it dies without a last word, or is stopped."""
    log = FileLog(folder / "log", LAYOUT.partitions())
    await open_partitions(log, LAYOUT, SystemClock())
    await log.append([new_record(AT, "default", event, 1) for event in events])
    service = Service(name="placer", cluster_deciders=(Placer,))
    store = FolderSnapshots(folder / "snapshots")
    runtime = Runtime([service], log=log, layout=LAYOUT, snapshots=store, clock=SystemClock())
    stop = asyncio.Event()
    task = asyncio.create_task(runtime.run(stop))
    end = await log.end(AT)
    await until(lambda: task.done() or (runtime.health.is_ready() and runtime.pools["default"].view.position >= end))
    yield log, runtime
    task.cancel() if dies else stop.set()
    await asyncio.gather(task, return_exceptions=True)


async def check_view(log: FileLog, runtime: Runtime, newest: str) -> None:
    """Once the newest job has its place, the view holds what the log does."""
    view = runtime.pools["default"].view
    await until(lambda: newest in view.jobs and view.jobs[newest].plan)
    held = view.snapshot()
    assert held == fold_all((await events_of(log))[: view.position]).snapshot()


async def test_a_snapshot_is_of_what_the_disk_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the log anywhere behind its last sync: the snapshots still hold, and the view is what the log folds to."""
    monkeypatch.setattr(pool_loop, "SNAPSHOT_EVERY", 3)
    synced: dict[TopicPartition, int] = {}
    sync = PartitionFile.sync

    def note(file: PartitionFile) -> None:
        sync(file)
        synced[file.at] = file.path.stat().st_size

    monkeypatch.setattr(PartitionFile, "sync", note)
    before = tmp_path / "before"
    async with placer(before, joined("n1"), submitted("a"), submitted("b")) as (log, runtime):
        view = runtime.pools["default"].view
        await until(lambda: len(view.in_flight) == 2)
        safe = synced[AT]
        unfinished = shutil.ignore_patterns("*.aside")  # a snapshot that is being written
        shutil.copytree(before / "snapshots", tmp_path / "snapshots", ignore=unfinished)
        await log.append([new_record(AT, "default", submitted(job), 1) for job in "cd"])
        await until(lambda: len(view.in_flight) == 4)
    whole = (before / "log" / "cluster" / "0.jsonl").read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n") and place >= safe]
    assert len(ends) >= 2

    for cut in [safe, *(end - part for end in ends for part in (0, 1, 60))]:
        after = tmp_path / f"cut-{cut}"
        shutil.copytree(before / "log", after / "log")
        shutil.copytree(tmp_path / "snapshots", after / "snapshots")
        (after / "log" / "cluster" / "0.jsonl").write_bytes(whole[:cut])
        with capture_logs() as entries:
            async with placer(after, submitted("x"), submitted("y"), submitted("z")) as (log, runtime):
                await check_view(log, runtime, "z")
        assert not [one for one in entries if "snapshot not used" in one["event"]], f"cut at byte {cut}"


async def test_of_two_snapshots_the_one_that_the_log_still_holds_is_used(tmp_path: Path) -> None:
    """Where the disk has lied about what was synced, what was kept before is not thrown away with what was kept since."""
    path = tmp_path / "log" / "cluster" / "0.jsonl"
    async with placer(tmp_path, joined("n1"), submitted("a"), dies=False) as (log, runtime):
        await check_view(log, runtime, "a")
    first = path.read_bytes()
    async with placer(tmp_path, submitted("b"), dies=False) as (log, runtime):
        await check_view(log, runtime, "b")
    path.write_bytes(first)

    with capture_logs() as entries:
        async with placer(tmp_path, *(submitted(job) for job in "xyz")) as (log, runtime):
            await check_view(log, runtime, "z")
            read = runtime.metrics.records.labels("pool:default")._value.get()
            assert read < runtime.pools["default"].view.position
    (why,) = [one["why"] for one in entries if "snapshot not used" in one["event"]]
    assert "cluster/0 holds other records" in why
