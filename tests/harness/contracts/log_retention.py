"""The contract of every log whose oldest records can be removed: the others stay where they are, and the gap is named.

It owns the tests of that. It must never know which implementation it runs on, or why records are removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.harness.contracts.log_contract import CLUSTER, LOSS, NO_WAIT_S, numbered, read, values

from steepest.errors import LogEpochError
from steepest.log.base import Log, TopicPartition

Trim = Callable[[TopicPartition, int], Awaitable[None]]
"""Removes the records of a partition below an offset."""


class RetentionContract:
    """The promises of a log once records were removed. It uses the fixtures of ``LogContract``."""

    @pytest.fixture
    def trim(self, log: Log) -> Trim:
        """Removes records of the log under test."""
        raise NotImplementedError("a subclass says how its log loses records")

    async def test_a_log_begins_at_its_oldest_record(self, log: Log, trim: Trim) -> None:
        """The begin is 0 until something is removed, then the oldest offset left; the end and other partitions stay."""
        await log.append([*numbered(5), *numbered(5, LOSS[1])])
        assert [await log.begin(at) for at in (CLUSTER, LOSS[0], LOSS[1])] == [0, 0, 0]
        await trim(CLUSTER, 3)
        assert [await log.begin(at) for at in (CLUSTER, LOSS[0], LOSS[1])] == [3, 0, 0]
        assert await log.end(CLUSTER) == 5

    async def test_what_is_left_keeps_its_offsets(self, log: Log, trim: Trim) -> None:
        """A reader from the begin on gets what is left, and appends go on behind it."""
        await log.append(numbered(5))
        await trim(CLUSTER, 3)
        assert list(await log.append(numbered(1, first=5))) == [5]
        reader = log.reader({CLUSTER: await log.begin(CLUSTER)})
        found = await read(reader, 3)
        assert [(record.offset, int(record.value)) for record in found] == [(3, 3), (4, 4), (5, 5)]
        await reader.close()

    async def test_a_log_may_lose_all_its_records(self, log: Log, trim: Trim) -> None:
        """Then it begins at its end, and a reader waits there for what comes."""
        await log.append(numbered(5))
        await trim(CLUSTER, 5)
        assert await log.begin(CLUSTER) == await log.end(CLUSTER) == 5
        reader = log.reader({CLUSTER: 5})
        await log.append(numbered(1, first=5))
        assert values(await read(reader, 1)) == [b"5"]
        await reader.close()

    async def test_a_removed_position_is_named(self, log: Log, trim: Trim) -> None:
        """A read of a record that was removed is refused, with its offset and a code of its own."""
        await log.append(numbered(5))
        await trim(CLUSTER, 3)
        reader = log.reader({CLUSTER: 2})
        with pytest.raises(LogEpochError, match="cluster/0 no longer has offset 2") as caught:
            await reader.poll(timeout_s=NO_WAIT_S)
        assert caught.value.code == "offset-missing"
        await reader.close()
