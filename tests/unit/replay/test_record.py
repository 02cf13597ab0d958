"""Recordings that are begun, gone on with, and put in the place of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.harness.memory_log import MemoryLog

from steepest.errors import InputError, LogEpochError, LogUnavailableError, SteepestError
from steepest.log.base import Log, NewRecord, Reader, Record, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.replay.record import as_new, record, replace_recording

PARTITIONS = {"cluster": 1, "loss": 2}
ALL = [TopicPartition(topic, number) for topic, count in PARTITIONS.items() for number in range(count)]

Tree = dict[str, bytes]


def new(at: TopicPartition, text: str) -> NewRecord:
    """A record."""
    return NewRecord(to=at, key="k", value=text.encode(), at_ms=7, headers={"id": text})


async def filled(name: str, count: int = 3) -> MemoryLog:
    """A log with so many records in each partition, the first of which is its identity."""
    log = MemoryLog(PARTITIONS)
    await add(log, name, count)
    return log


async def add(log: Log, name: str, count: int = 1) -> None:
    """So many more in each partition."""
    await log.append([new(at, f"{name}-{at}-{number}") for at in ALL for number in range(count)])


async def recorded(source: Log, folder: Path) -> int:
    """Record what is there; how many were copied."""
    into, copied = FileLog(folder, PARTITIONS), 0
    try:
        async for number in record(source, into):
            copied = number
    finally:
        await into.close()
    return copied


async def recorded_anew(source: Log, folder: Path) -> int:
    """Likewise, from the beginning."""
    copied = 0
    async for number in replace_recording(source, folder, PARTITIONS):
        copied = number
    return copied


async def records(log: Log) -> list[list[NewRecord]]:
    """What is in a log, partition by partition."""
    found = []
    for at in ALL:
        end, reader, mine = await log.end(at), log.reader({at: 0}), list[Record]()
        while len(mine) < end:
            mine.extend(await reader.poll())
        await reader.close()
        found.append([as_new(one) for one in mine])
    return found


def tree(folder: Path) -> Tree:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


async def holds(folder: Path, source: Log) -> bool:
    """Whether the recording is all of the log."""
    log = FileLog.open(folder, read_only=True)
    same = await records(log) == await records(source)
    await log.close()
    return same


class Busy(MemoryLog):
    """A log to which a loss and a decision about it come once the end of the decisions has been looked up."""

    async def end(self, at: TopicPartition) -> int:
        """The end before that."""
        found = await super().end(at)
        if at == ALL[0]:
            await self.append([new(ALL[1], "late loss"), new(ALL[0], "late decision")])
        return found


async def test_what_is_decided_meanwhile_is_left_for_the_next_call(tmp_path: Path) -> None:
    """A recording with a decision, and without the record that it is about, would differ when it is replayed."""
    source = Busy(PARTITIONS)
    await add(source, "a", 3)
    await recorded(source, tmp_path / "r")
    log = FileLog.open(tmp_path / "r", read_only=True)
    ends = [await log.end(at) for at in ALL]
    await log.close()
    await recorded(source, tmp_path / "r")
    log = FileLog.open(tmp_path / "r", read_only=True)
    later = [await log.end(at) for at in ALL]
    await log.close()

    assert ends == [3, 4, 3]
    assert later == [4, 5, 3]


async def test_a_second_call_goes_on_where_the_folder_ends(tmp_path: Path) -> None:
    """What is there is not copied again."""
    source = await filled("a")
    assert await recorded(source, tmp_path / "r") == 9
    assert await recorded(source, tmp_path / "r") == 0
    await add(source, "more")

    assert await recorded(source, tmp_path / "r") == 3
    assert await holds(tmp_path / "r", source)


@pytest.mark.parametrize("before", ["nothing", "the same log", "a part of it", "another log"])
async def test_a_new_recording_takes_the_place_of_what_is_there(tmp_path: Path, before: str) -> None:
    """Everything is copied from the first record on, over any earlier recording; nothing else is left behind."""
    source = await filled("a")
    if before in {"the same log", "a part of it"}:
        await recorded(source, tmp_path / "r")
    if before == "another log":
        await recorded(await filled("b", 5), tmp_path / "r")
    if before == "a part of it":
        await add(source, "more", 2)

    assert await recorded_anew(source, tmp_path / "r") == sum(map(len, await records(source)))
    assert await holds(tmp_path / "r", source)
    assert names(tmp_path) == ["r"]


@pytest.mark.parametrize("polls", [0, 1, 2])
async def test_a_copy_that_fails_leaves_the_recording_as_it_was(tmp_path: Path, polls: int) -> None:
    """Wherever the log stops giving, the folder has the bytes that it had."""
    await recorded(await filled("b", 5), tmp_path / "r")
    before = tree(tmp_path)

    with pytest.raises(LogUnavailableError):
        await recorded_anew(Failing(await filled("a"), polls), tmp_path / "r")

    assert tree(tmp_path) == before


async def test_a_crash_between_the_renames_loses_nothing(tmp_path: Path) -> None:
    """The earlier recording under its backup name and a complete new one remain: the next call continues from there."""
    source = await filled("a")
    await recorded(await filled("b"), tmp_path / ".r.before")
    await recorded(source, tmp_path / ".r.new")
    before = tree(tmp_path / ".r.before")

    with pytest.raises(LogUnavailableError):
        await recorded_anew(Failing(source, 0), tmp_path / "r")
    assert tree(tmp_path / "r") == before

    await recorded_anew(source, tmp_path / "r")
    assert await holds(tmp_path / "r", source)
    assert names(tmp_path) == ["r"]


async def test_what_is_no_recording_is_never_removed(tmp_path: Path) -> None:
    """A file that the recorder has not written is named, and everything stays."""
    source = await filled("a")
    await recorded(source, tmp_path / "r")
    (tmp_path / "r" / "cluster" / "notes.txt").write_text("mine")
    before = tree(tmp_path)

    with pytest.raises(InputError, match=r"more than a recording: cluster/notes\.txt"):
        await recorded_anew(source, tmp_path / "r")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("count", [1, 3, 5])
async def test_another_log_is_not_gone_on_with(tmp_path: Path, count: int) -> None:
    """Be it shorter, as long or longer than what was recorded."""
    await recorded(await filled("b"), tmp_path / "r")
    before = tree(tmp_path)

    with pytest.raises(InputError, match="recording of another log") as caught:
        await recorded(await filled("a", count), tmp_path / "r")
    assert "--from-beginning" in str(caught.value.hint)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "gone", "expected"),
    [
        ("a", 2, None),  # the last recorded record is still there, and vouches for the log
        ("b", 2, "recording of another log"),
        ("a", 3, "no offset 2 any more"),  # it is unknown whether the next record follows
        ("a", 4, "no offset 2 any more"),
    ],
)
async def test_a_recording_outlives_its_first_records(
    tmp_path: Path, name: str, gone: int, expected: str | None
) -> None:
    """Where retention has removed the beginning, it is gone on with for as long as that is surely the same log."""
    source, other = await filled("a"), await filled(name)
    await recorded(source, tmp_path / "r")
    await add(other, "more", 2)
    kept = Kept(other, gone)

    if expected is None:
        assert await recorded(kept, tmp_path / "r") == 6
        assert await holds(tmp_path / "r", other)
        return
    with pytest.raises(InputError, match=expected):
        await recorded(kept, tmp_path / "r")


async def test_a_log_without_its_beginning_replaces_nothing(tmp_path: Path) -> None:
    """A recording begins with the first record; where that is gone, the earlier recording is worth more."""
    source = await filled("a")
    await recorded(source, tmp_path / "r")
    before = tree(tmp_path)

    with pytest.raises(InputError, match="no offset 0 any more"):
        await recorded_anew(Kept(source, 1), tmp_path / "r")
    assert tree(tmp_path) == before


Hindrance = Callable[[Mapping[TopicPartition, int], int], SteepestError | None]
"""What a poll fails with, by where the reader started and how many polls it has answered."""


class HinderedReader:
    """A reader that gives one record at a time, until something hinders it."""

    def __init__(self, reader: Reader, start: Mapping[TopicPartition, int], hindrance: Hindrance) -> None:
        self._reader = reader
        self._start = start
        self._hindrance = hindrance
        self._polls = 0

    async def poll(self, *, max_records: int = 1000, timeout_s: float = 1.0) -> Sequence[Record]:
        """The next record."""
        if error := self._hindrance(self._start, self._polls):
            raise error
        self._polls += 1
        return await self._reader.poll(max_records=min(max_records, 1), timeout_s=timeout_s)

    async def close(self) -> None:
        """Let go."""
        await self._reader.close()


class HinderedLog(MemoryLog):
    """The records of another log, whose readers are hindered."""

    def __init__(self, log: MemoryLog, hindrance: Hindrance) -> None:
        super().__init__({})
        self._kept = log._kept
        self._hindrance = hindrance

    def reader(self, start: Mapping[TopicPartition, int]) -> HinderedReader:  # type: ignore[override]
        """One of them."""
        return HinderedReader(super().reader(start), start, self._hindrance)


class Failing(HinderedLog):
    """A log that gives so many records and no more."""

    def __init__(self, log: MemoryLog, polls: int) -> None:
        super().__init__(log, lambda _, done: LogUnavailableError("gone") if done >= polls else None)


class Kept(HinderedLog):
    """A log whose records below an offset were removed by age."""

    def __init__(self, log: MemoryLog, begin: int) -> None:
        def hindered(start: Mapping[TopicPartition, int], _: int) -> SteepestError | None:
            gone = next((offset for offset in start.values() if offset < begin), None)
            return None if gone is None else LogEpochError(f"no offset {gone} any more", code="offset-missing")

        super().__init__(log, hindered)
