"""Lag is reported from the previous look-up, so that no loop waits for a broker's answer."""

from __future__ import annotations

import asyncio

import pytest
from tests.harness.memory_log import MemoryLog

from steepest.errors import LogUnavailableError
from steepest.log.base import NewRecord, TopicPartition
from steepest.runtime.monitoring import lag
from steepest.runtime.monitoring.lag import LagMeter

ONE, OTHER = TopicPartition("loss", 0), TopicPartition("loss", 1)


class SlowLog(MemoryLog):
    """It answers when it is let; ``fails`` makes of its answers failures."""

    def __init__(self) -> None:
        super().__init__({"loss": 2})
        self.answers = asyncio.Event()
        self.answers.set()
        self.fails = False

    async def end(self, at: TopicPartition) -> int:
        """As its parent, later."""
        await self.answers.wait()
        if self.fails:
            raise LogUnavailableError("no broker")
        return await super().end(at)


async def append(log: SlowLog, count: int) -> None:
    """Append that many records to the first partition."""
    await log.append([NewRecord(to=ONE, key="", value=b"{}", at_ms=0)] * count)


async def settle() -> None:
    """What can go on now goes on."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "LOOK_EVERY_S", 0)


async def test_the_first_look_is_waited_for_and_later_ones_are_not() -> None:
    """A loop continues with the last known value while a broker is slow, and uses the answer once it arrives."""
    log = SlowLog()
    await append(log, 7)
    meter = LagMeter(log)
    assert await meter.lag({ONE: 2}) == 5

    await append(log, 3)
    log.answers.clear()
    assert await meter.lag({ONE: 4}) == 3
    log.answers.set()
    await settle()
    assert await meter.lag({ONE: 4}) == 6


async def test_new_partitions_are_looked_up_immediately() -> None:
    """After a hand-over nothing is reported from the earlier partitions, and pending look-ups of them are dropped."""
    log = SlowLog()
    await append(log, 7)
    meter = LagMeter(log)
    assert await meter.lag({OTHER: 0}) == 0
    await meter.lag({OTHER: 0})
    assert await meter.lag({ONE: 0, OTHER: 0}) == 7
    await settle()
    assert await meter.lag({ONE: 0, OTHER: 0}) == 7


async def test_a_position_beyond_the_end_that_was_seen_is_no_lag() -> None:
    """The loop has read what came after the look."""
    log = SlowLog()
    meter = LagMeter(log)
    await meter.lag({ONE: 0})
    await append(log, 3)
    assert await meter.lag({ONE: 3}) == 0


async def test_only_the_first_look_must_have_an_answer() -> None:
    """No loop begins without its lag; later, one that reads and appends is not stopped for a look's sake."""
    log = SlowLog()
    meter = LagMeter(log)
    log.fails = True
    with pytest.raises(LogUnavailableError):
        await meter.lag({ONE: 0})

    log.fails = False
    await meter.lag({ONE: 0})
    await append(log, 3)
    log.fails = True
    for _ in range(4):
        assert await meter.lag({ONE: 0}) == 0
        await settle()
    log.fails = False
    for _ in range(4):
        behind = await meter.lag({ONE: 0})
        await settle()
    assert behind == 3
    meter.close()
