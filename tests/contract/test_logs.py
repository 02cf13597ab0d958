"""The contract of ordered logs, on each implementation that needs no server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.harness.contracts.log_contract import PARTITIONS, LogContract, Reopen
from tests.harness.contracts.log_processes import Opener, SharedLogContract
from tests.harness.contracts.log_retention import RetentionContract, Trim
from tests.harness.memory_log import MemoryLog

from steepest.log.base import TopicPartition
from steepest.log.files.file_log import FileLog


class TestMemoryLog(LogContract, RetentionContract):
    """The contract, on the log in memory."""

    @pytest.fixture
    async def log(self) -> AsyncIterator[MemoryLog]:
        """An empty log in memory."""
        log = MemoryLog(PARTITIONS)
        yield log
        await log.close()

    @pytest.fixture
    def reopen(self, log: MemoryLog) -> Reopen:
        """A handle on the same lists."""

        async def again() -> MemoryLog:
            return log.reopen()

        return again

    @pytest.fixture
    def trim(self, log: MemoryLog) -> Trim:
        """Removes the records from the lists."""

        async def trim(at: TopicPartition, before: int) -> None:
            log.trim(at, before)

        return trim


class TestFileLog(SharedLogContract, RetentionContract):
    """The contract, on the log in files."""

    @pytest.fixture
    async def log(self, tmp_path: Path) -> AsyncIterator[FileLog]:
        """An empty log in a new folder."""
        log = FileLog(tmp_path, PARTITIONS)
        yield log
        await log.close()

    @pytest.fixture
    def reopen(self, log: FileLog) -> Reopen:
        """Another handle on the same folder, as another process would have."""

        async def again() -> FileLog:
            return FileLog.open(log.folder)

        return again

    @pytest.fixture
    def opener(self, log: FileLog) -> Opener:
        """Another process opens the folder."""
        return "steepest.log.files.file_log:FileLog.open", [str(log.folder)]

    @pytest.fixture
    def trim(self, log: FileLog) -> Trim:
        """Puts a file that begins later in the place of the partition's."""

        async def trim(at: TopicPartition, before: int) -> None:
            await log.trim(at, before)

        return trim
