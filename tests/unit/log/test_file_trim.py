"""A log in files is trimmed while other processes append to it and read it."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from steepest.errors import LogEpochError, LogUnavailableError
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.files.atomic_write import write_atomically
from steepest.log.files.file_log import FileLog
from steepest.log.files.recording import NAME, partition_file

AT = TopicPartition("loss")
RECORDS = 1_500
APPENDS = """
import asyncio, sys
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.files.file_log import FileLog

async def append(folder, count):
    log = FileLog.open(folder)
    for number in range(count):
        await log.append([NewRecord(to=TopicPartition("loss"), key="k", value=b"%d" % number, at_ms=number)])
    await log.close()

asyncio.run(append(sys.argv[1], int(sys.argv[2])))
"""


def numbered(first: int, count: int) -> list[NewRecord]:
    """Records with their own offsets as values."""
    return [NewRecord(to=AT, key="k", value=b"%d" % number, at_ms=number) for number in range(first, first + count)]


async def test_another_process_appends_and_a_reader_follows_while_it_is_trimmed(tmp_path: Path) -> None:
    """Each record is read once and in order, by a reader that was there before, and none is lost on its way."""
    log, other = FileLog(tmp_path, {"loss": 1}), FileLog.open(tmp_path)
    reader, found = other.reader({AT: 0}), list[int]()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", APPENDS, str(tmp_path), str(RECORDS))
    trims = 0
    while len(found) < RECORDS:
        found += [int(one.value) for one in await reader.poll(max_records=50)]
        if len(found) > await log.begin(AT):
            await log.trim(AT, len(found))
            trims += 1
    assert await process.wait() == 0
    await reader.close()

    assert found == list(range(RECORDS))
    assert trims > 5
    assert await log.begin(AT) == await log.end(AT) == await other.begin(AT) == RECORDS
    assert partition_file(tmp_path, AT).read_bytes() == b""
    for one in (log, other):
        await one.close()


async def test_a_trimmed_log_is_a_recording_that_begins_later(tmp_path: Path) -> None:
    """Its header says where each partition begins, and its lines say their offsets."""
    log = FileLog(tmp_path, {"loss": 2})
    await log.append(numbered(0, 5))
    await log.trim(AT, 3)
    await log.close()

    assert json.loads((tmp_path / NAME).read_text())["begins"] == {"loss/0": 3}
    assert [json.loads(line)["offset"] for line in partition_file(tmp_path, AT).read_text().splitlines()] == [3, 4]
    assert [path.name for path in (tmp_path / "loss").iterdir() if path.name.endswith("aside")] == []


async def test_what_is_not_there_cannot_be_trimmed(tmp_path: Path) -> None:
    """Neither beyond the end nor before the begin; nothing is removed then."""
    log = FileLog(tmp_path, {"loss": 1})
    await log.append(numbered(0, 5))
    await log.trim(AT, 3)
    for offset in (2, 6):
        with pytest.raises(LogEpochError):
            await log.trim(AT, offset)
    assert (await log.begin(AT), await log.end(AT)) == (3, 5)
    await log.close()


async def test_a_full_disk_leaves_all_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so, and the next trim succeeds."""
    log = FileLog(tmp_path, {"loss": 1})
    await log.append(numbered(0, 5))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("steepest.log.files.partition_file.write_atomically", full)
        with pytest.raises(LogUnavailableError, match="No space left"):
            await log.trim(AT, 3)
    assert (await log.begin(AT), await log.end(AT)) == (0, 5)
    assert await FileLog.open(tmp_path).begin(AT) == 0
    await log.trim(AT, 3)
    assert await log.begin(AT) == 3
    await log.close()


async def test_a_trim_that_is_cancelled_keeps_others_out_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process appends meanwhile waits for the new file, and is in it."""
    log, other = FileLog(tmp_path, {"loss": 1}), FileLog.open(tmp_path)
    await log.append(numbered(0, 5))
    copying, go_on = threading.Event(), threading.Event()

    def slow(path: Path, parts: Iterable[bytes]) -> None:
        data = b"".join(parts)
        copying.set()
        go_on.wait()
        write_atomically(path, data)

    monkeypatch.setattr("steepest.log.files.partition_file.write_atomically", slow)
    trimming = asyncio.create_task(log.trim(AT, 3))
    await asyncio.to_thread(copying.wait)
    trimming.cancel()
    appending = asyncio.create_task(other.append(numbered(5, 1)))
    done, _ = await asyncio.wait({trimming, appending}, timeout=0.1)
    assert not done
    go_on.set()
    assert list(await appending) == [5]
    with pytest.raises(asyncio.CancelledError):
        await trimming
    for one in (log, other):
        assert (await one.begin(AT), await one.end(AT)) == (3, 6)
        await one.close()


async def test_another_log_in_a_files_place_is_no_trimmed_one(tmp_path: Path) -> None:
    """One that does not begin later than this one was put there by somebody: no reader takes it for the same."""
    log = FileLog(tmp_path, {"loss": 1})
    await log.append(numbered(0, 5))
    reader = log.reader({AT: 0})
    assert len(await reader.poll()) == 5
    file = partition_file(tmp_path, AT)
    copy = file.read_bytes()
    file.unlink()
    file.write_bytes(copy)
    with pytest.raises(LogEpochError, match="was replaced"):
        await reader.poll(timeout_s=0)
    with pytest.raises(LogEpochError, match="was replaced"):
        await log.append(numbered(5, 1))
    await reader.close()
    await log.close()
