"""The contract of ordered logs, on each implementation that needs no server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("steepest.testing.log_contract", "steepest.testing.log_processes")

from steepest.log.file import FileLog  # noqa: E402
from steepest.log.memory import MemoryLog  # noqa: E402
from steepest.testing.log_contract import PARTITIONS, LogContract, Reopen  # noqa: E402
from steepest.testing.log_processes import Opener, SharedLogContract  # noqa: E402


class TestMemoryLog(LogContract):
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


class TestFileLog(SharedLogContract):
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
        return "steepest.log.file:FileLog.open", [str(log.folder)]
