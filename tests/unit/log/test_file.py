"""How a log in files waits, locks, reads ahead and meets a full disk."""

import asyncio
import fcntl
import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steepest import inotify
from steepest.errors import LogUnavailableError
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.files import file_watch
from steepest.log.files.file_log import FileLog
from steepest.log.files.partition_file import PartitionFile
from steepest.log.files.record_lines import encode_line

AT = TopicPartition("cluster", 0)
PATIENCE_S = 60.0


def new(value: bytes = b"{}") -> NewRecord:
    """A record to append."""
    return NewRecord(to=AT, key="k", value=value, at_ms=1)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """The kernel lets no file of this process grow beyond this, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_each_line_is_json_with_the_documented_fields(tmp_path: Path) -> None:
    """Any JSON reader finds topic, partition, offset, key, time, headers and value in a line."""
    log = FileLog(tmp_path, {"cluster": 1})
    await log.append([NewRecord(to=AT, key="main", value=b'{"a":[1]}', at_ms=5, headers={"id": "x"}), new(b"\xff")])
    await log.close()
    first, second = [json.loads(line) for line in (tmp_path / "cluster/0.jsonl").read_text().splitlines()]
    assert first.pop("crc")
    assert list(first) == ["topic", "partition", "offset", "key", "at_ms", "headers", "value"]
    assert list(first.values()) == ["cluster", 0, 0, "main", 5, {"id": "x"}, {"a": [1]}]
    assert (second["offset"], second["value_base64"]) == (1, "/w==")


async def test_a_full_disk_loses_nothing_that_was_seen(tmp_path: Path) -> None:
    """Where only a part fits, complete lines stay, the torn one is cut off, the error says why; later it goes on."""
    log = FileLog(tmp_path, {"cluster": 1})
    path = tmp_path / "cluster/0.jsonl"
    await log.append([new(b"x" * 300_000)])
    size = path.stat().st_size
    with file_size_limit(size + 350), pytest.raises(LogUnavailableError, match=r"0\.jsonl: .*errno") as caught:
        await log.append([new(b'"%d%s"' % (number, b"y" * 100)) for number in range(3)])
    assert "Free disk space" in caught.value.hint
    assert path.read_bytes().endswith(b"\n")
    assert await log.end(AT) == 2
    assert list(await log.append([new(b"3")])) == [2]
    reader = log.reader({AT: 1})
    assert [(record.value[:2], record.damage) for record in await reader.poll()] == [(b'"0', ""), (b"3", "")]
    await log.close()


async def test_an_append_waits_for_the_lock(tmp_path: Path) -> None:
    """While another holds the partition's lock nothing is written; cancelled then, nothing ever is."""
    log = FileLog(tmp_path, {"cluster": 1})
    await log.append([new()])
    other = os.open(tmp_path / "cluster/0.lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    cancelled, waiting = (asyncio.create_task(log.append([new(value)])) for value in (b"1", b"2"))
    assert await asyncio.wait({cancelled, waiting}, timeout=0.01) == (set(), {cancelled, waiting})
    cancelled.cancel()
    await asyncio.wait({cancelled})
    os.close(other)
    async with asyncio.timeout(PATIENCE_S):
        assert list(await waiting) == [1]
    reader = log.reader({AT: 1})
    assert [record.value for record in await reader.poll()] == [b"2"]
    await log.close()


async def test_a_lock_that_is_never_let_go_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that hangs with the lock does not hang the others: their appends fail and name the lock."""
    monkeypatch.setattr("steepest.log.files.file_lock.PATIENCE_S", 0.0)
    log = FileLog(tmp_path, {"cluster": 1})
    await log.append([new()])
    other = os.open(tmp_path / "cluster/0.lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(LogUnavailableError, match=r"0\.lock"):
        await log.append([new()])
    os.close(other)
    assert list(await log.append([new()])) == [1]
    await log.close()


async def test_a_reader_never_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that follows a growing log never goes back to its start, and one that joins late goes near its place."""
    asked: list[int] = []
    read = PartitionFile._read

    def counted(self: PartitionFile, position: int, length: int) -> bytes:
        data = read(self, position, length)
        asked.append(len(data))
        return data

    log = FileLog(tmp_path, {"cluster": 1})
    reader = log.reader({AT: 0})
    monkeypatch.setattr(PartitionFile, "_read", counted)
    for _ in range(30):
        await log.append([new(b'"%s"' % (b"x" * 300_000))])
        assert len(await reader.poll()) == 1
    size = (tmp_path / "cluster/0.jsonl").stat().st_size
    assert sum(asked) == 2 * size  # once to read, once to make sure
    asked.clear()
    late = log.reader({AT: 28})
    assert [record.offset for record in await late.poll(timeout_s=PATIENCE_S)] == [28, 29]
    assert sum(asked) < size / 2
    await log.close()


async def test_a_torn_line_written_over_during_a_read_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A torn line is cut off and written over while a read is half done: the reader sees the new lines, not a mix."""
    log = FileLog(tmp_path, {"cluster": 1})
    path = tmp_path / "cluster/0.jsonl"
    path.write_bytes(b"torn" * 10)
    other = PartitionFile(AT, path, read_only=False)
    lines = [encode_line(new(b"1"), 0) + encode_line(new(b"2"), 1)]
    read = PartitionFile._read

    def in_two_parts(self: PartitionFile, position: int, length: int) -> bytes:
        front = read(self, position, 20)
        if self is not other and lines:
            other.append(lambda _: lines.pop())
        return front + read(self, position + 20, length - 20)

    monkeypatch.setattr(PartitionFile, "_read", in_two_parts)
    reader = log.reader({AT: 0})
    assert [(record.value, record.damage) for record in await reader.poll()] == [(b"1", ""), (b"2", "")]
    other.close()
    await log.close()


async def test_a_late_reader_of_a_long_file_finds_its_place(tmp_path: Path) -> None:
    """A reader of a file of many chunks that was never read before begins exactly at its start offset."""
    writer = FileLog(tmp_path, {"cluster": 1})
    for first in range(0, 4000, 500):
        await writer.append([new(b'"%d:%s"' % (first + step, b"x" * 900)) for step in range(500)])
    await writer.close()
    for start in (0, 1, 1000, 1234, 3999):
        log = FileLog.open(tmp_path, read_only=True)
        reader = log.reader({AT: start})
        records = await reader.poll(max_records=5, timeout_s=PATIENCE_S)
        assert [record.offset for record in records] == list(range(start, min(start + 5, 4000)))
        assert all(record.value.startswith(b'"%d:' % record.offset) for record in records)
        await log.close()


async def test_readers_wake_where_the_kernel_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without inotify (its limits are reached, or another system), a reader finds what another handle appended."""

    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(inotify, "FileEvents", refuse)
    log = FileLog(tmp_path, {"cluster": 1})
    other = FileLog.open(tmp_path)
    reader = log.reader({AT: 0})
    waiting = asyncio.create_task(reader.poll(timeout_s=PATIENCE_S))
    await asyncio.wait({waiting}, timeout=0.01)
    await other.append([new(b"1")])
    async with asyncio.timeout(PATIENCE_S / 2):
        assert [record.value for record in await waiting] == [b"1"]
    await other.close()
    await log.close()


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
async def test_readers_wake_where_the_kernel_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With inotify a reader hears of another handle's append without looking for it, in whichever partition it is."""
    monkeypatch.setattr(file_watch, "POLL_WITH_EVENTS_S", PATIENCE_S)
    log = FileLog(tmp_path, {"cluster": 1, "loss": 2})
    other = FileLog.open(tmp_path)
    reader = log.reader(dict.fromkeys([*await log.partitions("loss"), AT], 0))
    for at in (AT, TopicPartition("loss", 1)):
        waiting = asyncio.create_task(reader.poll(timeout_s=PATIENCE_S))
        await asyncio.wait({waiting}, timeout=0.01)
        await other.append([NewRecord(to=at, key="k", value=b"1", at_ms=1)])
        async with asyncio.timeout(PATIENCE_S / 2):
            assert [record.at for record in await waiting] == [at]
    await other.close()
    await log.close()


async def test_closing_the_log_ends_the_wait_of_its_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that waits when the log is closed is refused immediately, and does not wait out its time."""
    monkeypatch.setattr(file_watch, "POLL_WITH_EVENTS_S", PATIENCE_S)
    monkeypatch.setattr(file_watch, "POLL_S", PATIENCE_S)
    log = FileLog(tmp_path, {"cluster": 1})
    reader = log.reader({AT: 0})
    waiting = asyncio.create_task(reader.poll(timeout_s=PATIENCE_S))
    await asyncio.wait({waiting}, timeout=0.01)
    await log.close()
    async with asyncio.timeout(PATIENCE_S / 2):
        with pytest.raises(LogUnavailableError, match="closed"):
            await waiting
