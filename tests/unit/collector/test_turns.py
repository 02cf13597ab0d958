"""Reading in turns: the event loop rests for as long as it reads, and no source is left out."""

from __future__ import annotations

import asyncio
from functools import partial

from tests.harness.set_clock import SetClock

from steepest.collector.turns import OWED_S, Turns


class WorkClock(SetClock):
    """A clock that only work and rests move on.

    Attributes:
        rested_s: How long tasks slept, one after the other.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rested_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Rest: others run."""
        self.rested_s.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


async def test_half_of_the_time_is_rest() -> None:
    """However many read; what was read is given before the rest that it owes."""
    clock = WorkClock()
    turns = Turns(clock)

    def work(seconds: float) -> float:
        clock.now_s += seconds
        return seconds

    assert await turns.take(partial(work, 0.03)) == 0.03
    assert clock.rested_s == []
    await asyncio.gather(*(turns.take(partial(work, 0.03)) for _ in range(10)))
    assert [round(each, 6) for each in clock.rested_s] == [0.03] * 10


async def test_little_work_owes_a_rest_only_once_it_adds_up() -> None:
    """Then one for all of it."""
    clock = WorkClock()
    turns = Turns(clock)

    def work() -> None:
        clock.now_s += OWED_S / 4

    for _ in range(9):
        await turns.take(work)
    assert [round(each, 6) for each in clock.rested_s] == [OWED_S, OWED_S]


async def test_all_have_their_turns() -> None:
    """One that reads without end delays another by one turn; work that fails gives up its turn."""
    clock = WorkClock()
    turns = Turns(clock)
    done: list[str] = []

    async def read(name: str, pieces: int) -> None:
        for _ in range(pieces):
            await turns.take(partial(done.append, name))

    await asyncio.gather(read("flood", 6), read("calm", 2), turns.take(lambda: 1 // 0), return_exceptions=True)
    assert done == ["flood", "calm", "flood", "calm", "flood", "flood", "flood", "flood"]
