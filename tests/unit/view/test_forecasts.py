"""What a view remembers of measured epochs and of predicted run times."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, joined, placement, submitted, transition

from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters, PreemptionLimits
from steepest.view.cluster_view import ClusterView
from steepest.view.folds.fold_forecasts import epochs_done
from steepest.view.progress_state import EpochsSeen


def epoch(number: int, epoch_ms: int = 10_000, incarnation: int = 1, load_ms: int | None = None) -> c.EpochMeasured:
    """Job a has read its data set once more."""
    return c.EpochMeasured(
        job="a",
        incarnation=incarnation,
        epoch=number,
        epoch_ms=epoch_ms,
        epoch_bytes=1_000,
        read_bytes=1_000 * number,
        ended_ms=epoch_ms * number,
        load_ms=load_ms,
    )


def predicted(remaining_ms: int, incarnation: int = 1) -> c.RunTimePredicted:
    """Job a has this much left."""
    left = c.PredictedSpan(remaining_ms, remaining_ms, remaining_ms)
    return c.RunTimePredicted(
        job="a", incarnation=incarnation, method=c.PredictionMethod.EPOCHS, total=left, remaining=left
    )


@pytest.fixture
def pool() -> FoldedPool:
    """Job a runs on w1."""
    made = FoldedPool()
    limits = PreemptionLimits(min_run_ms=0)
    made.feed(c.PoolConfigured(parameters=PoolParameters(preemption=limits)), joined("w1"))
    made.run("a", "w1")
    return made


def test_epochs_are_counted_and_their_length_is_the_mean(pool: FoldedPool) -> None:
    """Two epochs of 10 s and 12 s; what was known of the load stays."""
    assert pool.feed(epoch(1, load_ms=700), epoch(2, 12_000)) == [True, True]
    seen = pool.job("a").epochs_seen
    assert seen == EpochsSeen(epochs=2, epoch_ms=11_000, epoch_bytes=1_000, ended_ms=pool.now_ms, load_ms=700)


@pytest.mark.parametrize("outdated", [epoch(1), epoch(3, incarnation=2), epoch(3, incarnation=0)])
def test_an_outdated_epoch_does_not_count(pool: FoldedPool, outdated: c.EpochMeasured) -> None:
    """Neither one that was counted, nor one of another incarnation."""
    pool.feed(epoch(1), epoch(2))
    assert pool.feed(outdated) == [False]
    assert epochs_done(pool.job("a"), pool.now_ms) == 2


def test_the_epoch_under_way_counts_by_its_time(pool: FoldedPool) -> None:
    """Half an epoch after the first is one and a half; an epoch that is late is not more than one."""
    pool.feed(epoch(1))
    pool.tick(5_000)
    assert epochs_done(pool.job("a"), pool.now_ms) == pytest.approx(1.5)
    pool.tick(60_000)
    assert epochs_done(pool.job("a"), pool.now_ms) == 2


def test_the_epochs_of_earlier_incarnations_are_done(pool: FoldedPool) -> None:
    """A job that was suspended in the middle of its third epoch has done two and a half, also after it was resumed."""
    pool.feed(epoch(1), epoch(2))
    pool.tick(5_000)
    pool.feed(transition("a", c.Transition.SUSPEND, ["w1"]))
    pool.carry_out("a")
    pool.tick(50_000)
    assert epochs_done(pool.job("a"), pool.now_ms) == pytest.approx(2.5)
    pool.feed(placement("a", "w1", incarnation=1))
    pool.carry_out("a")
    assert epochs_done(pool.job("a"), pool.now_ms) == pytest.approx(2.5)
    pool.feed(epoch(1, incarnation=2))
    assert epochs_done(pool.job("a"), pool.now_ms) == pytest.approx(3.5)


def test_the_newest_prediction_of_the_newest_incarnation_is_kept(pool: FoldedPool) -> None:
    """A prediction for an incarnation that is over does not count; a snapshot has the one that does."""
    assert pool.feed(predicted(9_000), predicted(5_000), predicted(1_000, incarnation=0)) == [True, True, False]
    forecast = ClusterView.restore(pool.view.snapshot()).jobs["a"].forecast
    assert forecast is not None
    assert forecast.predicted == predicted(5_000)
    assert forecast == pool.job("a").forecast


def test_nothing_is_remembered_of_a_job_that_is_over(pool: FoldedPool) -> None:
    """Epochs that become known after the end change nothing."""
    pool.end("a")
    assert pool.feed(epoch(1), predicted(1_000)) == [False, False]


def test_a_prediction_for_a_job_that_waits_changes_its_place_in_the_queue(pool: FoldedPool) -> None:
    """The queue's order is told, since a policy may order by it."""
    pool.feed(submitted("b"))
    before = pool.view.jobs.queue.changes.now
    pool.feed(c.RunTimePredicted(job="b", incarnation=0, method=c.PredictionMethod.UNKNOWN))
    assert pool.view.jobs.queue.changes.now > before
