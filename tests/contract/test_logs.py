"""The contract of ordered logs, on each implementation that needs no server."""

from collections.abc import AsyncIterator

import pytest

pytest.register_assert_rewrite("steepest.testing.log_contract")

from steepest.log.memory import MemoryLog  # noqa: E402
from steepest.testing.log_contract import PARTITIONS, LogContract, Reopen  # noqa: E402


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
