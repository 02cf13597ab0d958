"""The pool's clock: counted time goes on over restarts, and no outage runs away with it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from tests.harness.system.fake_cluster import Gate, When
from tests.harness.system.rig import Rig, RigProcess
from tests.harness.waiting import until

from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.log.base import NewRecord
from steepest.runtime.service import Service
from steepest.runtime.ticker import Ticker
from steepest.view.folds.fold_pool import PERIODS_COUNTED

PERIOD_MS = 1_000


@pytest.fixture
async def ticking(rig: Rig) -> RigProcess:
    """A process that ticks once a second."""
    await rig.configure(PoolParameters(tick_ms=PERIOD_MS))
    return tick(rig)


def tick(rig: Rig) -> RigProcess:
    """Start a ticker."""
    return rig.start(Service(name="ticker", effectors=lambda _: (Ticker(rig.clock),)))


async def test_a_tick_a_period(rig: Rig, ticking: RigProcess) -> None:
    """Counted time grows by a period with each tick, from zero."""
    await until(lambda: ticking.view.counted_ms >= 5 * PERIOD_MS)
    counted = [tick.counted_ms for tick in await rig.of_type(c.Tick)]

    assert counted == [PERIOD_MS * number for number in range(1, 6)]


async def test_two_clocks_are_as_fast_as_one(rig: Rig, ticking: RigProcess) -> None:
    """Two hosts may both tick a pool for a while: each counts real time, and a tick that is behind the last is none."""
    await until(lambda: ticking.view.counted_ms >= 2 * PERIOD_MS)
    began_ms, counted_ms = rig.clock.monotonic() * 1000, ticking.view.counted_ms
    await rig.clock.sleep(PERIOD_MS / 3000)
    other = tick(rig)
    await until(lambda: other.view.counted_ms >= 20 * PERIOD_MS)
    elapsed_ms = rig.clock.monotonic() * 1000 - began_ms

    assert len(await rig.of_type(c.Tick)) > 30
    assert other.view.counted_ms - counted_ms <= elapsed_ms + PERIOD_MS


async def test_the_period_may_change(rig: Rig, ticking: RigProcess) -> None:
    """A new period is in force with the tick after the one under way."""
    await until(lambda: ticking.view.counted_ms >= 2 * PERIOD_MS)
    await rig.configure(PoolParameters(tick_ms=250))
    await until(lambda: ticking.view.counted_ms >= 4 * PERIOD_MS)
    counted = [tick.counted_ms for tick in await rig.of_type(c.Tick)]

    assert {after - before for before, after in itertools.pairwise(counted[2:])} <= {250, 500}


async def test_counted_time_goes_on_after_a_restart(rig: Rig, ticking: RigProcess) -> None:
    """A restarted ticker continues from the log; the time without a ticker is not counted."""
    await until(lambda: ticking.view.counted_ms >= 3 * PERIOD_MS)
    ticking.kill()
    await rig.clock.sleep(3_600)
    again = tick(rig)
    await until(lambda: again.view.counted_ms >= 5 * PERIOD_MS)
    counted = [tick.counted_ms for tick in await rig.of_type(c.Tick)]

    assert counted == [PERIOD_MS * number for number in range(1, 6)]


async def test_an_outage_of_the_log_expires_nothing(rig: Rig, ticking: RigProcess) -> None:
    """However long the log takes nothing, no tick counts more than two periods."""
    outage = Gate()

    async def away(call: str, when: When, _records: Sequence[NewRecord]) -> None:
        if call == "append" and when is When.BEFORE:
            await outage()

    await until(lambda: ticking.view.counted_ms >= 3 * PERIOD_MS)
    ticking.log.hook = away
    await outage.reached.wait()
    await rig.clock.sleep(3_600)
    outage.open()
    await until(lambda: ticking.view.counted_ms >= 8 * PERIOD_MS)
    counted = [tick.counted_ms for tick in await rig.of_type(c.Tick)]

    assert max(after - before for before, after in itertools.pairwise(counted)) <= PERIODS_COUNTED * PERIOD_MS
    assert counted[-1] <= 8 * PERIOD_MS + PERIODS_COUNTED * PERIOD_MS
