"""How much of one job's output is read, at most."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.harness.set_clock import SetClock

from steepest.untrusted.allowance import Allowance


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 300))))
def test_no_more_is_granted_than_a_burst_and_a_rate(asked: list[tuple[int, int]]) -> None:
    """However it is asked for, what is granted stays below the burst and what the time since has brought."""
    clock = SetClock()
    allowed = Allowance(10.0, 1_000.0, clock)
    granted = 0
    for wanted, pause_s in asked:
        clock.now_s += pause_s
        granted += allowed.take(wanted)

        assert granted <= 1_000 + 10 * (clock.now_s - 5.0)


def test_what_is_spent_beyond_it_takes_its_time() -> None:
    """Spending too much returns the time to wait."""
    clock = SetClock()
    allowed = Allowance(10.0, 1_000.0, clock)

    assert allowed.spend(1_000) == 0.0
    assert allowed.spend(50) == 5.0
    clock.now_s += 5.0
    assert allowed.spend(0) == 0.0
