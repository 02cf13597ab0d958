"""Limits by hand: the thesis's example, the formulas of both lists, and what rounding must never do."""

from __future__ import annotations

import pytest
from tests.unit.flowcon.scene import CL, NL, WL

from steepest.events.cluster import GrowthList
from steepest.policies.flowcon.limits import beta, floor, millicores, shares

ALPHA = 0.1

Seen = list[tuple[GrowthList, float | None]]


def test_the_thesis_example_of_a_limit_of_a_quarter() -> None:
    """VAE completes beside MNIST on a node of 8 cores: 1/(β·n) = 1/3, cut down to 2 whole cores, which is 0.25."""
    share, other = shares([(CL, 0.001), (NL, 0.5)], ALPHA)

    assert share is not None
    assert other is not None
    assert millicores(share, 8_000, 1_000) == 2_000
    assert millicores(share, 8_000, 1) == 2_666
    assert millicores(other, 8_000, 1) == 7_984


@pytest.mark.parametrize(("count", "least"), [(1, 0.5), (2, 1 / 3), (3, 0.25), (9, 0.1)])
def test_floor_is_one_beta_nth(count: int, least: float) -> None:
    """β = 1 + 1/n, so that 1/(β·n) = 1/(n+1)."""
    assert floor(count) == pytest.approx(least)
    assert floor(count) == pytest.approx(1 / (beta(count) * count))


@pytest.mark.parametrize(
    ("jobs", "wanted"),
    [
        pytest.param([(NL, 0.6), (NL, 0.4)], [0.6, 0.4], id="new jobs share by efficiency"),
        pytest.param([(NL, 0.9), (NL, 0.1)], [0.9, 1 / 3], id="a new job has the floor, too"),
        pytest.param([(NL, 0.9), (CL, 0.1)], [0.9, 1 / 3], id="a completing one has the floor"),
        pytest.param([(NL, 0.2), (CL, 0.8)], [1 / 3, 0.8], id="or its share, if that is more"),
        pytest.param([(NL, 0.5), (WL, 0.5)], [0.5, None], id="a watched one keeps what it has, and counts in the sum"),
        pytest.param([(NL, 0.5), (NL, None)], [5 / 6, None], id="a newborn keeps what it has, and counts with α"),
        pytest.param(
            [(CL, 0.002), (CL, 0.004), (NL, None)], [0.25, 0.25, None], id="so the others leave it half of it"
        ),
        pytest.param([(CL, 0.004), (WL, None)], [1 / 3, None], id="also once it was judged"),
        pytest.param([(NL, 0.5), (CL, None)], [1.0, 1 / 3], id="one that came completing has the floor"),
        pytest.param([(CL, 0.5), (CL, 0.5)], [1.0, 1.0], id="all complete: free competition"),
        pytest.param([(CL, None)], [1.0], id="also where nothing is known"),
        pytest.param([(NL, 0.0), (CL, 0.0)], [None, None], id="no efficiency at all changes nothing"),
        pytest.param([(NL, None), (WL, None)], [None, None], id="nor does none that is known"),
        pytest.param([(NL, 0.3)], [1.0], id="who is alone has all"),
    ],
)
def test_each_list_has_its_formula(jobs: Seen, wanted: list[float | None]) -> None:
    """NL min(G/ΣG, 1), CL max(G/ΣG, 1/(β·n)), WL unchanged; ΣG = 0 changes nothing."""
    assert shares(jobs, ALPHA) == [None if one is None else pytest.approx(one) for one in wanted]


@pytest.mark.parametrize(
    ("share", "capacity_m", "granularity_m", "limit_m"),
    [
        (1.0, 600, 1, None),
        (0.999999999, 600, 1, 599),
        (1 / 3, 600, 1, 200),
        (1 / 3, 600, 100, 200),
        (1 / 4, 600, 100, 100),
        pytest.param(0.1, 8_000, 1_000, 800, id="n = 9 on 8 cores: the authors' 0 would mean no limit"),
        pytest.param(0.001, 600, 1, 10, id="1 % of a core at least"),
        pytest.param(0.5, 10, 1, None, id="a node that has no more than that limits no job"),
    ],
)
def test_a_share_becomes_millicores(share: float, capacity_m: int, granularity_m: int, limit_m: int | None) -> None:
    """Rounded down, never to nothing, and never to what is no limit."""
    assert millicores(share, capacity_m, granularity_m) == limit_m
