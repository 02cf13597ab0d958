"""A log in files that is trimmed holds what one in memory holds, for every handle, whenever it was opened."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.harness.examples import scaled
from tests.harness.memory_log import MemoryLog

from steepest.errors import LogEpochError
from steepest.log.base import NewRecord, Reader, TopicPartition
from steepest.log.files import partition_file
from steepest.log.files.file_log import FileLog
from steepest.log.files.recording import change_recording

PARTITIONS = {"loss": 2}
PARTITION = (TopicPartition("loss", 0), TopicPartition("loss", 1))
AT = st.sampled_from(PARTITION)
SHARE = st.sampled_from((0.0, 0.2, 0.5, 0.9, 1.0))
HANDLES = 2
"""Handles share nothing but the folder, as those of two processes do."""

T = TypeVar("T")


class TrimmedLog(RuleBasedStateMachine):
    """Two handles on one folder, and readers that stay, beside a log in memory."""

    @initialize()
    def begin(self) -> None:
        """An empty log, whose files are indexed every few lines."""
        self.small = mock.patch.object(partition_file, "CHUNK_BYTES", 300)
        self.small.start()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.number = 0
        self.readers: list[tuple[FileLog, Reader, TopicPartition, int]] = []
        self.run(self.open())
        for at in PARTITION:
            self.append(0, at, 20, 1)
            for handle in range(HANDLES):
                self.read(handle, at, 0.0)
        self.go_on(3)

    async def open(self) -> None:
        """Open the handles."""
        self.model = MemoryLog(PARTITIONS)
        self.logs = [FileLog(Path(self.folder.name), PARTITIONS) for _ in range(HANDLES)]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something to its end."""
        return self.loop.run_until_complete(work)

    @rule(handle=st.integers(0, HANDLES - 1), at=AT, count=st.integers(1, 12), size=st.integers(0, 200))
    def append(self, handle: int, at: TopicPartition, count: int, size: int) -> None:
        """Records get the same offsets."""
        records = [
            NewRecord(to=at, key="k", value=b"%d" % (10**size + number), at_ms=self.number + number)
            for number in range(count)
        ]
        self.number += count
        assert self.run(self.logs[handle].append(records)) == self.run(self.model.append(records))

    @rule(handle=st.integers(0, HANDLES - 1), at=AT, share=SHARE)
    def trim(self, handle: int, at: TopicPartition, share: float) -> None:
        """The oldest records go, for all handles."""
        begin, end = self.run(self.model.begin(at)), self.run(self.model.end(at))
        before = begin + int(share * (end - begin))
        self.run(self.logs[handle].trim(at, before))
        self.model.trim(at, before)

    @rule(at=AT)
    def die_while_trimming(self, at: TopicPartition) -> None:
        """A process that dies before the file is replaced has changed nothing: the records are still there."""
        change_recording(Path(self.folder.name), {}, {str(at): self.run(self.model.end(at))})

    @rule(at=AT, age=st.integers(0, 100), most_bytes=st.integers(0, 5_000))
    def limit(self, at: TopicPartition, age: int, most_bytes: int) -> None:
        """By age, no young record goes; by size, so many bytes stay."""
        since_ms, (log, *_) = max(0, self.number - age), self.logs
        kept = self.run(log.kept_from(at, since_ms, 10**9))
        end = self.run(log.end(at))
        young = [one.offset for one in self.all(log, at) if one.at_ms >= since_ms]
        assert kept == min(young, default=end)
        large = self.run(log.kept_from(at, 0, most_bytes))
        assert self.run(log.begin(at)) <= large <= end

    @rule(handle=st.integers(0, HANDLES - 1), at=AT, share=SHARE)
    def read(self, handle: int, at: TopicPartition, share: float) -> None:
        """A reader begins somewhere, and stays."""
        begin, end = self.run(self.model.begin(at)), self.run(self.model.end(at))
        start = begin + int(share * (end - begin))
        log = self.logs[handle]
        self.readers.append((log, log.reader({at: start}), at, start))

    @rule(most=st.integers(1, 7))
    def go_on(self, most: int) -> None:
        """Each reader gets what comes next for it, or is told that it was removed."""
        staying = []
        for log, reader, at, offset in self.readers:
            if offset < self.run(self.model.begin(at)):
                with pytest.raises(LogEpochError, match=f"no longer has offset {offset}"):
                    self.run(reader.poll(timeout_s=0))
                self.run(reader.close())
                continue
            wanted = self.all(self.model, at)[offset - self.run(self.model.begin(at)) :][:most]
            found = self.run(reader.poll(max_records=most, timeout_s=0))
            assert found == wanted[: len(found)]
            assert bool(found) == bool(wanted)
            staying.append((log, reader, at, offset + len(found)))
        self.readers = staying

    @rule()
    def open_again(self) -> None:
        """One of the processes ends, and another opens the folder."""
        ended = self.logs.pop()
        self.readers = [one for one in self.readers if one[0] is not ended]
        self.run(ended.close())
        self.run(self.open_one())

    async def open_one(self) -> None:
        """One more handle."""
        self.logs.append(FileLog.open(self.folder.name))

    def all(self, log: Any, at: TopicPartition) -> list[Any]:
        """All records that a log holds."""

        async def read() -> list[Any]:
            reader, found = log.reader({at: await log.begin(at)}), []
            while records := await reader.poll(timeout_s=0):
                found += records
            await reader.close()
            return found

        return self.run(read())

    @invariant()
    def same(self) -> None:
        """Every handle begins, ends and reads as the log in memory."""
        for log in getattr(self, "logs", ()):
            for at in PARTITION:
                assert self.run(log.begin(at)) == self.run(self.model.begin(at))
                assert self.run(log.end(at)) == self.run(self.model.end(at))
                assert self.all(log, at) == self.all(self.model, at)

    def teardown(self) -> None:
        """Close everything."""
        for log in self.logs:
            self.run(log.close())
        self.loop.close()
        self.folder.cleanup()
        self.small.stop()


TestTrimmedLog = TrimmedLog.TestCase
TestTrimmedLog.settings = settings(max_examples=scaled(60), stateful_step_count=30, deadline=None)
