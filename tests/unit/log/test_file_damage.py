"""What a log in files does about torn, damaged, lost and foreign bytes."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from steepest.errors import InputError, LogEpochError, RecordingError
from steepest.log.base import NewRecord, Record, TopicPartition
from steepest.log.files.file_log import FileLog

AT = TopicPartition("cluster", 0)
OTHER = TopicPartition("cluster", 1)


def numbered(count: int, to: TopicPartition = AT) -> list[NewRecord]:
    """Records whose values count up from 0."""
    return [NewRecord(to=to, key="k", value=str(number).encode(), at_ms=number) for number in range(count)]


def path_of(log: FileLog) -> Path:
    """The file of the first partition."""
    return log.folder / "cluster" / "0.jsonl"


async def recorded(folder: Path, count: int) -> Path:
    """Make a recording with so many records in its first partition; its file."""
    log = FileLog(folder, {"cluster": 2})
    await log.append(numbered(count))
    await log.close()
    return path_of(log)


async def read(folder: Path, start: int = 0) -> Sequence[Record]:
    """All that a reader of the recording gets."""
    log = FileLog.open(folder, read_only=True)
    reader = log.reader({AT: start})
    records: list[Record] = []
    while polled := await reader.poll(timeout_s=0):
        records += polled
    await log.close()
    return records


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file in the folder."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def test_a_recording_cut_anywhere_is_read_up_to_there(tmp_path: Path) -> None:
    """Wherever a file ends, its complete lines are read and the rest is logged; reading changes nothing."""
    path = await recorded(tmp_path, 3)
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        before = snapshot(tmp_path)
        complete = whole[:length].count(b"\n")
        start = whole.rfind(b"\n", 0, length) + 1
        with capture_logs() as warnings:
            assert [record.offset for record in await read(tmp_path)] == list(range(complete))
        torn = [(start, length - start)] if start < length else []
        assert [(entry["position"], entry["bytes"]) for entry in warnings] == torn
        assert snapshot(tmp_path) == before


async def test_a_reader_logs_the_torn_end_that_it_reaches(tmp_path: Path) -> None:
    """Reading a torn recording to its end logs file and position, once for all polls, and raises no error."""
    path = await recorded(tmp_path, 2)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b'{"topic":')
    log = FileLog.open(tmp_path, read_only=True)
    reader = log.reader({AT: 0})
    with capture_logs() as warnings:
        assert len(await reader.poll(timeout_s=0)) == 2
        assert list(await reader.poll(timeout_s=0)) == []
        assert list(await reader.poll(timeout_s=0)) == []
    assert [(entry["file"], entry["position"], entry["bytes"]) for entry in warnings] == [(str(path), size, 9)]
    await log.close()


async def test_an_append_cuts_a_torn_line_off(tmp_path: Path) -> None:
    """A line that a killed process left incomplete is cut off and logged, and its offset goes to the next record."""
    path = await recorded(tmp_path, 3)
    whole = path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    path.write_bytes(whole[:-5])
    log = FileLog.open(tmp_path)
    with capture_logs() as warnings:
        assert list(await log.append(numbered(2))) == [2, 3]
    assert [(entry["file"], entry["position"]) for entry in warnings] == [(str(path), start)]
    await log.close()
    assert [(record.value, record.damage) for record in await read(tmp_path)] == [
        *((b"0", ""), (b"1", ""), (b"0", ""), (b"1", ""))
    ]


async def test_garbage_in_the_middle_is_delivered_as_damaged(tmp_path: Path) -> None:
    """A line overwritten with binary rubbish comes as a damaged record with the raw bytes; what follows is sound."""
    path = await recorded(tmp_path, 3)
    lines = path.read_bytes().splitlines()
    lines[1] = b"\x00\xff rubbish"
    path.write_bytes(b"\n".join(lines) + b"\n")
    first, second, third = await read(tmp_path)
    assert (first.damage, third.damage, third.value) == ("", "", b"2")
    assert (second.at, second.offset, second.value) == (AT, 1, b"\x00\xff rubbish")
    assert f"{path}, line 2: is not a record" in second.damage


async def test_a_lost_line_ends_the_partition_but_not_the_others(tmp_path: Path) -> None:
    """Where a line is missing, what stands before it is read, then the error names file and line at every poll."""
    path = await recorded(tmp_path, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    log = FileLog.open(tmp_path)
    await log.append(numbered(1, OTHER))
    reader = log.reader({AT: 0, OTHER: 0})
    found: list[Record] = []
    while len(found) < 3:
        found += await reader.poll(timeout_s=0)
    for _ in range(2):
        with pytest.raises(RecordingError, match=r"0\.jsonl, line 3: has cluster/0@3 instead of cluster/0@2"):
            await reader.poll(timeout_s=0)
    await log.append(numbered(1, OTHER))
    assert [record.at for record in await reader.poll(timeout_s=0)] == [OTHER]
    await log.close()


async def test_bytes_without_a_line_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no text is not taken into memory as one endless line: the error names the place."""
    monkeypatch.setattr("steepest.log.files.partition_file.MAX_LINE_BYTES", 2**20)
    path = await recorded(tmp_path, 1)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.truncate(size + 2**22)
    log = FileLog.open(tmp_path, read_only=True)
    reader = log.reader({AT: 1})
    with pytest.raises(RecordingError, match=rf"0\.jsonl: from byte {size} on"):
        await reader.poll(timeout_s=0)
    await log.close()


async def test_a_log_made_anew_under_its_users_is_seen(tmp_path: Path) -> None:
    """A file that became shorter is another log: neither a reader nor an append goes on in it."""
    path = await recorded(tmp_path, 3)
    log = FileLog.open(tmp_path)
    reader = log.reader({AT: 0})
    assert len(await reader.poll()) == 3
    assert await log.end(AT) == 3
    path.write_bytes(b"")
    with pytest.raises(LogEpochError, match="was replaced"):
        await reader.poll(timeout_s=0)
    with pytest.raises(LogEpochError, match="was replaced"):
        await log.append(numbered(1))
    assert path.read_bytes() == b""
    await log.close()


async def test_a_removed_file_takes_no_records(tmp_path: Path) -> None:
    """Appends to a file without a name would be lost, so they are refused."""
    path = await recorded(tmp_path, 1)
    log = FileLog.open(tmp_path)
    await log.end(AT)
    path.unlink()
    with pytest.raises(LogEpochError, match="was removed"):
        await log.append(numbered(1))
    await log.close()


async def test_read_only_refuses_to_change_anything(tmp_path: Path) -> None:
    """A log opened to be read only takes no append and cannot be made; the folder stays as it was."""
    await recorded(tmp_path, 2)
    before = snapshot(tmp_path)
    log = FileLog.open(tmp_path, read_only=True)
    with pytest.raises(InputError, match="read-only"):
        await log.append(numbered(1))
    assert await log.end(AT) == 2
    await log.close()
    with pytest.raises(InputError, match="read-only"):
        FileLog(tmp_path / "new", {"cluster": 1}, read_only=True)
    assert snapshot(tmp_path) == before
