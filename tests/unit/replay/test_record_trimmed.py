"""Recordings of topics whose first records were removed: they say where they begin, and what that leaves out."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.harness.memory_log import MemoryLog

from steepest.cli.main import main
from steepest.errors import InputError, LogEpochError, RecordingError
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.replay.record import begins_in, record
from steepest.replay.replay import Replay
from steepest.runtime.layout import Layout

PARTITIONS = Layout(loss_partitions=2).partitions()
CLUSTER, LOSS = TopicPartition("cluster"), TopicPartition("loss")


async def trimmed(*partitions: TopicPartition) -> MemoryLog:
    """Five records in each of two partitions, the first three of some of them removed."""
    log = MemoryLog(PARTITIONS)
    for at in (CLUSTER, LOSS):
        await log.append([NewRecord(to=at, key="k", value=b"%d" % number, at_ms=1) for number in range(5)])
    for at in partitions:
        log.trim(at, 3)
    return log


async def recorded(source: MemoryLog, folder: Path) -> None:
    """Record, or go on."""
    into = FileLog(folder, PARTITIONS, begins=await begins_in(source, PARTITIONS))
    async for _ in record(source, into):
        pass
    await into.close()


async def kept(folder: Path, at: TopicPartition) -> list[tuple[int, int]]:
    """Offsets and numbers in a partition of a recording."""
    log = FileLog.open(folder, read_only=True)
    begin, end = await log.begin(at), await log.end(at)
    reader = log.reader({at: begin})
    found = [(one.offset, int(one.value)) for one in await reader.poll()] if begin < end else []
    await reader.close()
    await log.close()
    return found


async def test_a_recording_begins_where_the_log_does(tmp_path: Path) -> None:
    """Every record keeps its offset, and it is gone on with, also once more was removed."""
    source = await trimmed(CLUSTER)
    await recorded(source, tmp_path)
    assert json.loads((tmp_path / "recording.json").read_text())["begins"] == {"cluster/0": 3}
    assert await kept(tmp_path, CLUSTER) == [(3, 3), (4, 4)]
    assert await kept(tmp_path, LOSS) == [(number, number) for number in range(5)]

    await source.append([NewRecord(to=CLUSTER, key="k", value=b"5", at_ms=1)])
    source.trim(CLUSTER, 4)
    await recorded(source, tmp_path)
    assert await kept(tmp_path, CLUSTER) == [(3, 3), (4, 4), (5, 5)]


async def test_a_log_that_is_whole_makes_the_recording_that_it_always_made(tmp_path: Path) -> None:
    """An older program reads it."""
    await recorded(await trimmed(), tmp_path)
    assert "begins" not in json.loads((tmp_path / "recording.json").read_text())


async def test_what_is_not_recorded_is_named(tmp_path: Path) -> None:
    """A reader that asks for it is refused, and a misplaced line is reported with its own number."""
    await recorded(await trimmed(CLUSTER), tmp_path)
    log = FileLog.open(tmp_path, read_only=True)
    reader = log.reader({CLUSTER: 2})
    with pytest.raises(LogEpochError, match="cluster/0 no longer has offset 2") as caught:
        await reader.poll()
    assert caught.value.code == "offset-missing"
    await reader.close()
    await log.close()

    file = tmp_path / "cluster" / "0.jsonl"
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[1])
    log = FileLog.open(tmp_path, read_only=True)
    reader = log.reader({CLUSTER: 3})
    with pytest.raises(RecordingError, match="line 1: has cluster/0@4"):
        await reader.poll()
    await reader.close()
    await log.close()


async def test_a_replay_needs_the_pool_from_its_first_record_on(tmp_path: Path) -> None:
    """Without it nothing is decided; a partition of another topic is left out, and named."""
    await recorded(await trimmed(CLUSTER), tmp_path / "pool")
    log = FileLog.open(tmp_path / "pool", read_only=True)
    with pytest.raises(InputError, match="recording of cluster/0 begins at 3"):
        await Replay(log).run()
    await log.close()

    await recorded(await trimmed(LOSS), tmp_path / "losses")
    log = FileLog.open(tmp_path / "losses", read_only=True)
    assert (await Replay(log).run()).left_out == ("loss/0",)
    await log.close()


def test_a_check_needs_the_pool_from_its_first_record_on(tmp_path: Path) -> None:
    """An invariant cannot be checked from the middle of a log on."""

    async def make() -> None:
        await recorded(await trimmed(CLUSTER), tmp_path)

    asyncio.run(make())
    done = CliRunner().invoke(main, ["check", str(tmp_path)])
    assert done.exit_code == 2
    assert "recording of cluster/0 begins at 3" in done.output
