"""Progress, use and growth efficiency of one job, by hand."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import START_MS
from tests.unit.flowcon.scene import ITVAL_MS, bucket

from steepest.events.parameters import ProgressUnit
from steepest.policies.flowcon.efficiency import SAMPLES_KEPT, GrowthHistory, efficiency

SECOND, INTERVAL = ProgressUnit


def course(*means: float, kept: int = 8, largest: float = 1.0) -> GrowthHistory:
    """A job whose loss had these means in its first intervals."""
    found = GrowthHistory(since_ms=START_MS)
    for number, mean in enumerate(means, 1):
        found.measure(bucket("a", number, mean, largest=largest), kept)
    return found


def test_progress_is_growth_a_second_of_the_normalised_loss() -> None:
    """P = |E(t_i) − E(t_(i−1))| / (t_i − t_(i−1)): from 8 to 6 of 10 in ten seconds is 0.02 a second."""
    found = course(8.0, 6.0, largest=10.0)

    assert found.progress(1, SECOND, ITVAL_MS) == 0.02
    assert found.progress(1, INTERVAL, ITVAL_MS) == 0.2


def test_progress_has_no_sign() -> None:
    """An evaluation function may rise."""
    assert course(0.6, 0.8).progress(1, SECOND, ITVAL_MS) == 0.02


def test_one_bucket_is_no_progress() -> None:
    """Without an interval before there is nothing to compare with; that is not zero."""
    assert course(0.8).progress(1, SECOND, ITVAL_MS) is None


def test_a_longer_interval_takes_as_many_buckets() -> None:
    """With twice the categorizer's interval: the mean of two buckets against that of the two before."""
    assert course(1.0, 0.8, 0.6, 0.4).progress(2, SECOND, 2 * ITVAL_MS) == pytest.approx(0.4 / 20)
    assert course(1.0, 0.8, 0.6, 0.4).progress(2, INTERVAL, 2 * ITVAL_MS) == pytest.approx(0.4)


def test_slow_epochs_are_measured_between_neighbours_with_reports() -> None:
    """Thirty seconds between two reports: what was gained is spread over them, and no interval is zero."""
    found = GrowthHistory(since_ms=START_MS)
    found.measure(bucket("a", 1, 0.8), 8)
    found.measure(bucket("a", 4, 0.2), 8)

    assert found.progress(1, SECOND, ITVAL_MS) == 0.02


def test_the_mean_of_many_measurements_weighs_as_many() -> None:
    """A fact that stands for ten measurements counts ten times, so means are those of the measurements themselves."""
    found = GrowthHistory(since_ms=START_MS)
    found.use(START_MS + 1_000, 100, 10)
    found.use(START_MS + 2_000, 1_000)
    found.measure(bucket("a", 1, 0.8), 8)

    assert found.mean_use_m(1) == 2_000 / 11


def test_what_was_reported_before_the_process_began_is_not_its_own() -> None:
    """The last bucket of the process before may be complete only now."""
    found = GrowthHistory(since_ms=START_MS + ITVAL_MS)
    found.measure(bucket("a", 1, 0.8), 8)
    found.measure(bucket("a", 2, 0.6), 8)

    assert [one.interval for one in found.buckets] == [2]


def test_reports_that_are_counted_anew_begin_anew() -> None:
    """A job that was watched again has its first interval again."""
    found = course(0.9, 0.8)
    found.measure(bucket("a", 1, 0.7), 8)

    assert [one.interval for one in found.buckets] == [1]


def test_another_metric_begins_anew() -> None:
    """The number of the interval does not matter: between a sum of losses and a mean there is no progress."""
    found = course(0.9, 0.8)
    found.measure(msgspec.structs.replace(bucket("a", 3, 0.7), metric="perplexity"), 8)

    assert [one.interval for one in found.buckets] == [3]


def test_only_what_is_needed_is_kept() -> None:
    """The newest buckets."""
    assert [one.interval for one in course(0.9, 0.8, 0.7, 0.6, kept=2).buckets] == [3, 4]


def test_use_is_averaged_over_the_same_span() -> None:
    """What is measured between the ends of two buckets belongs to the second, however late that is complete."""
    found = GrowthHistory(since_ms=START_MS)
    for at_s, cpu_m in ((2, 100), (8, 300), (12, 500), (21, 900)):
        found.use(START_MS + at_s * 1_000, cpu_m)
    found.measure(bucket("a", 1, 0.8), 8)
    found.measure(bucket("a", 2, 0.6), 8)

    assert found.mean_use_m(1) == 500
    assert found.mean_use_m(2) == 300
    assert [one.total for one in found.samples] == [900]


def test_use_that_was_not_measured_in_the_span_is_that_of_the_spans_before() -> None:
    """Heartbeats may be slower than buckets; where usage was never measured, it is unknown, which is not zero."""
    found = GrowthHistory(since_ms=START_MS)
    assert found.mean_use_m(1) is None
    found.use(START_MS + 2_000, 100)
    found.measure(bucket("a", 1, 0.8), 8)
    found.measure(bucket("a", 2, 0.6), 8)

    assert found.mean_use_m(1) == 100


@pytest.mark.parametrize("count", [SAMPLES_KEPT, SAMPLES_KEPT + 1, 10 * SAMPLES_KEPT + 3])
def test_an_endless_epoch_fills_no_memory(count: int) -> None:
    """Measurements that wait are added up, and their mean is what it was."""
    found = GrowthHistory(since_ms=START_MS)
    for number in range(count):
        found.use(START_MS + number, number)

    assert len(found.samples) <= SAMPLES_KEPT
    assert sum(one.total for one in found.samples) == count * (count - 1) // 2
    assert sum(one.count for one in found.samples) == count


def test_efficiency_is_progress_for_a_whole_nodes_use() -> None:
    """G = P/R."""
    assert efficiency(0.02, 0.25, 0.001) == 0.08


def test_what_is_not_known_is_not_zero() -> None:
    """Neither progress nor use."""
    assert (efficiency(None, 0.5, 0.001), efficiency(0.1, None, 0.001)) == (None, None)


def test_use_below_what_can_be_measured_divides_by_that() -> None:
    """A job that used less than a millicore."""
    assert efficiency(0.02, 0.0, 0.001) == 20.0


@pytest.mark.parametrize("largest", [0.0, 1e-300])
def test_no_number_is_too_wild(largest: float) -> None:
    """A loss of zero has no growth; one that no float can hold is unknown."""
    found = course(1e200, -1e200, largest=largest)

    assert found.progress(1, SECOND, ITVAL_MS) in {0.0, None}
