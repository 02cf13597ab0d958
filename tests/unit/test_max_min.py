"""Max-min fairness: what is divided, and that nobody has more at the cost of one who has less."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.max_min import max_min

AMOUNTS = st.floats(min_value=0, max_value=1e6)
CEILINGS = st.lists(AMOUNTS, max_size=8)
CLOSE = 1e-6


@given(AMOUNTS, CEILINGS)
def test_nobody_gets_more_than_its_ceiling_or_the_whole(capacity: float, ceilings: list[float]) -> None:
    """A share is within its ceiling, and all shares together are within the capacity."""
    shares = max_min(capacity, ceilings)

    assert all(0 <= share <= ceiling for share, ceiling in zip(shares, ceilings, strict=True))
    assert sum(shares) <= capacity * (1 + CLOSE)


@given(AMOUNTS, CEILINGS)
def test_the_division_conserves_work(capacity: float, ceilings: list[float]) -> None:
    """Either everybody has its ceiling, or all capacity is assigned."""
    assert sum(max_min(capacity, ceilings)) == pytest.approx(min(capacity, sum(ceilings)), rel=CLOSE, abs=CLOSE)


@given(AMOUNTS, CEILINGS)
def test_who_has_less_than_another_has_its_ceiling(capacity: float, ceilings: list[float]) -> None:
    """Only its own ceiling keeps a share below the largest one."""
    shares = max_min(capacity, ceilings)

    for share, ceiling in zip(shares, ceilings, strict=True):
        assert share >= max(shares) * (1 - CLOSE) - CLOSE or share == ceiling


@given(AMOUNTS, CEILINGS)
def test_a_higher_ceiling_never_means_a_smaller_share(capacity: float, ceilings: list[float]) -> None:
    """Shares are in the order of the ceilings."""
    ordered = sorted(zip(ceilings, max_min(capacity, ceilings), strict=True))

    assert all(one[1] <= other[1] + CLOSE * capacity for one, other in itertools.pairwise(ordered))
