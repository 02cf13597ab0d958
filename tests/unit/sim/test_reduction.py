"""Where a training has learned most."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.real_curves import learned_at


def test_an_exponential_has_learned_most_where_its_formula_says() -> None:
    """1 − e^(−5p) has 90 % of its whole reduction at p = 0.446."""
    run = [(step / 1000, math.exp(-5 * step / 1000)) for step in range(1001)]
    assert learned_at(run) == pytest.approx(-math.log(1 - 0.9 * (1 - math.exp(-5))) / 5, abs=0.005)


def test_one_low_loss_is_noise() -> None:
    """The median of five passes over it."""
    losses = [10.0 - step for step in range(10)]
    losses[2] = 0.0
    assert learned_at(list(enumerate(losses))) == 8


@pytest.mark.parametrize("losses", [[], [1.0], [1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0]])
def test_a_loss_that_does_not_fall_teaches_nothing(losses: list[float]) -> None:
    """There is no share of a reduction that is none."""
    assert learned_at(list(enumerate(losses))) is None


@given(st.lists(st.integers(-1_000_000, 1_000_000), max_size=60))
def test_it_is_a_step_of_the_run_and_no_later_than_the_lowest_loss(losses: list[int]) -> None:
    """It holds for any losses, and does not depend on their unit."""
    found = learned_at([(step, float(loss)) for step, loss in enumerate(losses)])
    assert found is None or 0 < found < len(losses)
    scaled = learned_at([(step, 1024.0 * loss) for step, loss in enumerate(losses)])
    assert scaled == found
