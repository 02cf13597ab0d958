"""The threshold that is fitted to a job's own growth (``specon-adaptive``): its regression and rule, and who uses it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.events.cluster import Category, CategoryChanged, GrowthMeasured, ReallocationRequested
from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import SpeConParameters, Threshold
from steepest.events.received import Received
from steepest.policies.decider import Decision
from steepest.policies.specon.categorizer import Categorizer
from steepest.policies.specon.category_machine import Comparison
from steepest.policies.specon.trend import POINTS, Trend

PC, WC, CC = Category
BELOW, EQUAL, ABOVE, BASELINE = Comparison.BELOW, Comparison.EQUAL, Comparison.ABOVE, Comparison.BASELINE


def fitted(scores: list[float], before: Category = PC) -> tuple[Trend, list[tuple[Comparison, float | None]]]:
    """A trend after these scores, ten seconds apart, and what it said of each."""
    trend = Trend(0)
    return trend, [trend.compare(before, score, 10_000 * at) for at, score in enumerate(scores)]


def test_nothing_is_judged_before_the_third_score() -> None:
    """A line goes through any two points."""
    assert [said for said, _ in fitted([0.1, 0.05])[1]] == [BASELINE] * (POINTS - 1)
    assert [said for said, _ in fitted([0.1, 0.05], WC)[1]] == [EQUAL] * (POINTS - 1)


def test_alpha_is_the_fit_at_its_time() -> None:
    """Growth that halves every ten seconds lies on its line: α(t) is the score itself, and not below it."""
    _, said = fitted([0.4, 0.2, 0.1, 0.05])

    assert [alpha for _, alpha in said[2:]] == pytest.approx([0.1, 0.05])
    assert [comparison for comparison, _ in said[2:]] == [BELOW, BELOW]


def test_growth_above_its_trend_is_progress() -> None:
    """This holds in every category."""
    for before in Category:
        trend, _ = fitted([0.4, 0.2, 0.1])
        assert trend.compare(before, 0.2, 30_000)[0] is ABOVE


def test_a_watched_job_converges_when_it_falls_clearly() -> None:
    """score·(1 + β) below the score before; β is what the line does not explain."""
    steady, _ = fitted([0.4, 0.2, 0.1], WC)
    assert steady.compare(WC, 0.05, 30_000)[0] is BELOW
    noisy = [0.1, 0.4, 0.05, 0.3, 0.1, 0.3]
    jumpy, _ = fitted(noisy, WC)
    said, _ = jumpy.compare(WC, 0.09, 60_000)
    assert said is BELOW
    jumpy, _ = fitted([*noisy, 0.09], WC)
    assert jumpy.compare(WC, 0.085, 70_000)[0] is EQUAL


def test_growth_of_zero_is_compared_and_not_fitted() -> None:
    """It has no logarithm."""
    trend, _ = fitted([0.4, 0.2, 0.1])
    count = trend.count

    assert trend.compare(WC, 0.0, 30_000)[0] is BELOW
    assert trend.count == count


def test_no_time_between_two_intervals_judges_nothing() -> None:
    """There is no growth a second."""
    trend, _ = fitted([0.4, 0.2, 0.1])
    assert trend.compare(PC, None, 30_000) == (BASELINE, None)


@given(st.lists(st.floats(1e-9, 1e3), min_size=3, max_size=40))
def test_the_running_fit_is_the_least_squares_fit(scores: list[float]) -> None:
    """Against numpy's, at the newest point, and R² likewise."""
    trend, said = fitted(scores)
    times = np.arange(len(scores)) * 10.0
    logs = np.log(scores)
    slope, offset = np.polyfit(times, logs, 1)
    alpha = said[-1][1]
    assert alpha is not None
    assert math.isclose(alpha, math.exp(slope * times[-1] + offset), rel_tol=1e-5, abs_tol=2e-9)
    if np.std(logs) > 1e-3:
        explained = np.corrcoef(times, logs)[0, 1] ** 2
        assert trend._beta() == pytest.approx(1 - explained, abs=1e-5)


@given(st.lists(st.tuples(st.none() | st.floats(0, 1e290), st.integers(0, 2**53)), max_size=30))
def test_any_scores_give_a_finite_threshold(scores: list[tuple[float | None, int]]) -> None:
    """Any scores at any times give a comparison and a finite threshold."""
    trend = Trend(0)
    for score, at_ms in scores:
        _, alpha = trend.compare(PC, score, at_ms)
        assert alpha is None or math.isfinite(alpha)


# --- in the categorizer -----------------------------------------------------------------------------------------------


def decisions_under(threshold: Threshold) -> list[Decision]:
    """A loss whose growth halves every ten seconds until it jumps once, reported every second."""
    categorizer = Categorizer()
    parameters = SpeConParameters(interval_ms=10_000, threshold=threshold)
    decided: list[Decision] = []

    def give(event: JobWatched | LossReported, at_ms: int) -> None:
        received = Received(event=event, topic="loss", partition=0, offset=0, at_ms=at_ms)
        decided.extend(categorizer.step(received))  # type: ignore[arg-type]

    give(JobWatched(job="a", pool="p", incarnation=1, metric="loss", parameters=parameters), 0)
    for second in range(111):
        value = 0.5 ** (second / 10) if second <= 80 else 0.1
        give(LossReported(job="a", incarnation=1, value=value), 1_000 * second)
    return decided


def test_the_categorizer_uses_it_where_it_is_asked_to() -> None:
    """Each judged interval records its threshold; the job passes through the categories, and returns when it grows."""
    decided = [decision.event for decision in decisions_under(Threshold.FITTED)]
    measured = [event for event in decided if isinstance(event, GrowthMeasured)]
    changes = [(event.before, event.after) for event in decided if isinstance(event, CategoryChanged)]

    assert [event.threshold is not None for event in measured[:4]] == [False, False, False, True]
    assert all(event.threshold is not None for event in measured[3:])
    assert changes[:2] == [(PC, WC), (WC, CC)]
    assert (CC, PC) in changes
    assert any(isinstance(event, ReallocationRequested) for event in decided)


def test_the_default_knows_nothing_of_it() -> None:
    """SpeCon as printed writes no threshold, and keeps no trend."""
    assert all(getattr(decision.event, "threshold", None) is None for decision in decisions_under(Threshold.FIXED))
