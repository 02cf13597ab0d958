"""The value of a core-second by what a job may still learn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.policies.steepest.learning import SHARES, worth

shares_ = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=20).map(lambda shares: tuple(sorted(shares)))
dones = st.floats(0, 0.99)
lefts = st.floats(0.1, 1e6)
weights = st.floats(0, 1)


def test_one_share_gives_the_chord_to_it_and_then_the_rest() -> None:
    """A job of 100 core-seconds that reaches 90 % of its reduction after 27 of them."""
    assert worth(0.0, 100, 0.45, (0.27,)) == pytest.approx(0.45 / 27)
    assert worth(0.2, 80, 0.45, (0.27,)) == pytest.approx(0.45 / 7)
    assert worth(0.27, 73, 0.45, (0.27,)) == pytest.approx(0.55 / 73)


def test_a_job_that_is_almost_done_is_worth_finishing() -> None:
    """Its last core-second brings all that is left."""
    assert worth(0.99, 1.0, 0.45) == pytest.approx(0.55)


@given(done=dones, left=lefts, shares=shares_)
def test_without_a_weight_the_shortest_remaining_time_is_first(
    done: float, left: float, shares: tuple[float, ...]
) -> None:
    """λ = 0 is SRPT, for any job."""
    assert worth(done, left, 0.0, shares) == pytest.approx(1 / left)


@given(done=dones, left=lefts, learning=weights, shares=shares_)
def test_it_is_never_worth_less_than_running_to_the_end(
    done: float, left: float, learning: float, shares: tuple[float, ...]
) -> None:
    """Running to the end is one of the points up to which it could run."""
    to_learn = sum(share > done for share in shares) / len(shares)
    assert worth(done, left, learning, shares) >= (1 - learning + learning * to_learn) / left * (1 - 1e-9)


@given(done=dones, left=lefts, learning=weights, shares=shares_)
def test_twice_the_work_halves_the_value(done: float, left: float, learning: float, shares: tuple[float, ...]) -> None:
    """The value is per core-second."""
    assert worth(done, 2 * left, learning, shares) == pytest.approx(worth(done, left, learning, shares) / 2)


def test_the_shares_are_a_distribution() -> None:
    """Ascending, and within a run."""
    assert list(SHARES) == sorted(SHARES)
    assert all(0 < share < 1 for share in SHARES)
