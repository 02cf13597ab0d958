"""The truth is the best answer: a job that deviates alone gains nothing on average, and makes no other job late.

``benchmarks/truth.py`` measures more pools, and more deviations. That epochs are as good as steps is held by
``tests/unit/steepest/test_estimates.py``.
"""

from __future__ import annotations

from statistics import fmean

import pytest
from benchmarks.truth import measure

from steepest_lab.sim.estimate import half_width

SEEDS = range(100, 103)

LATE = 5.0
"""Percent of its completion time under fair sharing by which a job may on average end later because another one deviates."""


@pytest.mark.parametrize(
    ("usable", "others"), [(1.0, "announce"), (0.7, "announce"), (0.5, "announce"), (1.0, "mixed"), (1.0, "silent")]
)
def test_no_deviation_gains_on_average_or_makes_others_late(usable: float, others: str) -> None:
    """Silence and wrong totals, beside jobs that announce or differ, on a host that gives all or a part of its CPU."""
    deviations = ("nothing", "a tenth", "ten times")
    rows = [measure(seed, 1, usable, others, "equal", deviations=deviations) for seed in SEEDS]
    for deviation in deviations:
        gains = [row[deviation][0] for row in rows]
        assert fmean(gains) + (half_width(gains) or 0.0) >= 0, deviation
        assert fmean(row[deviation][1] for row in rows) <= LATE, deviation
    assert fmean(row["truth"][0] for row in rows) < 0 or others == "silent"
