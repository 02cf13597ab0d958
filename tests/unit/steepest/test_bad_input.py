"""What a job may state of itself, and what the planner makes of it: the honest jobs beside it keep what they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import FoldedPool, joined

from steepest.events import cluster as c
from steepest.events.common import LARGEST, Resources
from steepest.events.parameters import PoolParameters
from steepest.policies.named import under
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.policies.steepest.steepest_planner import SteepestPlanner

CAPACITY_M = 4_000
HONEST = "honest"
HOSTILE = "hostile"
MODEL = "resnet"
STEP_MS = 500
"""CPU time of a step of the honest job."""

TOTAL = 2_000
SECONDS = 40

Said = dict[str, Any]


class Planned(FoldedPool):
    """A node with two jobs that want all of it, one of which says what it likes; the planner sees every record."""

    def __init__(self) -> None:
        self.planner = SteepestPlanner()
        self.plans: list[c.LimitsPlanned] = []
        super().__init__()
        parameters = under("steepest", PoolParameters())
        self.fold(c.PoolConfigured(parameters=parameters))
        self.fold(joined("n1", CAPACITY_M))
        for name in (HONEST, HOSTILE):
            self.run(name, "n1", model=MODEL)

    def fold(self, event: c.ClusterEvent, headers: Any = None, at_ms: int | None = None) -> bool:
        """The planner decides after each record, and its decisions follow."""
        counts = super().fold(event, headers, at_ms)
        for decided in self.planner.step(self.view, self.log[-1]):
            if isinstance(decided, c.LimitsPlanned):
                self.plans.append(decided)
            super().fold(decided)
        return counts

    def second(self, number: int, said: Said, at_ms: int | None = None) -> None:
        """A second in which both jobs get half of the node."""
        cpu_ms = number * CAPACITY_M // 2
        honest = c.ReplicaProgress(
            job=HONEST, incarnation=1, step=cpu_ms // STEP_MS, total=TOTAL, cpu_ms=cpu_ms, loss=1 / (1 + number)
        )
        hostile = c.ReplicaProgress(job=HOSTILE, incarnation=1, **{"cpu_ms": cpu_ms, **said})
        used = {HONEST: CAPACITY_M // 2, HOSTILE: CAPACITY_M // 2}
        usage = c.NodeUsage(node="n1", used=Resources(cpu_m=CAPACITY_M), jobs=used, progress=(honest, hostile))
        self.now_ms += 1_000
        self.fold(usage, at_ms=at_ms)
        self.fold(c.Tick(counted_ms=self.view.counted_ms + 1_000), at_ms=at_ms)


def hold(pool: Planned) -> None:
    """What holds after any input."""
    for plan in pool.plans:
        for limit in plan.limits:
            assert limit.cpu_m is None or 10 <= limit.cpu_m < CAPACITY_M
    state = pool.planner.state
    assert state.running[HONEST].size == pytest.approx(TOTAL * STEP_MS / 1_000, rel=0.01)
    encoded = msgspec.msgpack.encode(state)
    assert msgspec.msgpack.encode(msgspec.msgpack.decode(encoded, type=SteepestPlannerState)) == encoded


def shrinking(number: int) -> Said:
    """A total that shrinks every second."""
    return {"step": number, "total": 1_000 - 20 * number}


def growing(number: int) -> Said:
    """A total that is always ahead."""
    return {"step": number, "total": 100 + 10 * number}


def falling(number: int) -> Said:
    """Steps that fall."""
    return {"step": 1_000 - 20 * number, "total": 2_000}


def returning(number: int) -> Said:
    """Steps that begin again every ten seconds."""
    return {"step": number % 10, "total": 100}


def silent(_: int) -> Said:
    """Nothing at all."""
    return {"cpu_ms": None}


def of(total: int) -> Any:
    """Always the same total."""
    return lambda number: {"step": number, "total": total}


@pytest.mark.parametrize(
    "say", [shrinking, growing, falling, returning, silent, of(0), of(1), of(10**9 - 1), of(10**12), of(LARGEST)]
)
def test_the_honest_job_is_known_whatever_the_other_one_states(say: Any) -> None:
    """Its size stays what it is, plans are valid, and the planner's state is one that can be stored."""
    pool = Planned()
    for number in range(1, SECONDS):
        pool.second(number, say(number))
    hold(pool)
    copy = pool.planner.state.fair.look(HONEST, pool.planner.state.now_s)
    assert copy is not None
    assert copy.end_s is not None or copy.forecast_s is not None


def test_a_job_that_is_past_its_total_speaks_for_no_other_of_its_model() -> None:
    """As long as it is believed, it is the one that is furthest ahead."""
    pool, total = Planned(), 20
    for number in range(1, total + 1):
        pool.second(number, {"step": number, "total": total, "loss": 1 / (1 + number)})
    assert pool.planner.state.learned.ahead[MODEL].job == HOSTILE
    for number in range(total + 1, total + 3):
        pool.second(number, {"step": number, "total": total, "loss": 1 / (1 + number)})
    assert pool.planner.state.learned.ahead[MODEL].job == HONEST


@pytest.mark.parametrize("jump_ms", [-3_600_000, -10, 86_400_000])
def test_clocks_that_jump_change_no_promise(jump_ms: int) -> None:
    """The times of records jump to and fro; the fair end is where it was, but for a tick."""
    ends = []
    for jumps in (False, True):
        pool = Planned()
        for number in range(1, SECONDS):
            jumped_ms = pool.now_ms + 1_000 + (jump_ms if jumps and number % 3 == 0 else 0)
            pool.second(number, {"step": number, "total": 3_000}, at_ms=max(0, jumped_ms))
        copy = pool.planner.state.fair.look(HONEST, pool.planner.state.now_s)
        assert copy is not None
        ends.append(copy.end_s if copy.end_s is not None else copy.forecast_s)
        hold(pool)
    assert ends[0] is not None
    assert ends[1] == pytest.approx(ends[0], abs=3.0)


NUMBERS = st.none() | st.integers(0, 50) | st.sampled_from([10**9 - 1, 10**9, 10**12, LARGEST])
ANYTHING = st.fixed_dictionaries(
    {
        "step": NUMBERS,
        "total": NUMBERS,
        "cpu_ms": NUMBERS,
        "epoch": st.none() | st.floats(0, 1e12),
        "epochs": st.none() | st.floats(0, 1e12),
        "loss": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    }
)


@given(st.lists(st.tuples(ANYTHING, st.integers(-(10**7), 10**7)), min_size=20, max_size=40))
def test_any_statements_leave_the_planner_sound(said: list[tuple[Said, int]]) -> None:
    """Any numbers, in any order, at any time of the record."""
    pool = Planned()
    for number, (one, jump_ms) in enumerate(said, 1):
        pool.second(number, one, at_ms=max(0, pool.now_ms + jump_ms))
    hold(pool)


def test_the_same_log_gives_the_same_plans() -> None:
    """A planner that was stored and restored in the middle plans like one that was not."""
    plans: Iterator[list[c.LimitsPlanned]] = (stored(at) for at in (None, 5, 20))
    first, *others = plans
    assert first
    assert others == [first, first]


def stored(at: int | None) -> list[c.LimitsPlanned]:
    """The plans, where the planner's state is stored and read back in that second."""
    pool = Planned()
    for number in range(1, SECONDS):
        if number == at:
            encoded = msgspec.msgpack.encode(pool.planner.state)
            pool.planner = SteepestPlanner(msgspec.msgpack.decode(encoded, type=SteepestPlannerState))
        pool.second(number, {"step": 3 * number, "total": 900})
    return pool.plans
