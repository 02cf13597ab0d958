"""What suspensions and resumptions are predicted to take, before any was measured and after some were."""

from __future__ import annotations

from typing import Any

import pytest

from steepest.events.cluster import JobSpec
from steepest.policies.pickyman.overheads import (
    FIRST_RESUMPTION_MS,
    FIRST_SUSPENSION_MS,
    MEASURED_KEPT,
    MODELS_KEPT,
    Overheads,
)
from steepest.view.progress_state import EpochsSeen
from steepest.view.state import Job


def job(ended_ms: int | None = 100_000, epoch_ms: float = 10_000, model: str = "m", **seen: Any) -> Job:
    """A job whose epochs are known."""
    return Job(
        name="a",
        request="r",
        spec=JobSpec(command=("train",), model=model),
        submitted_ms=0,
        submitted_offset=0,
        submitted_counted_ms=0,
        epochs_seen=EpochsSeen(epochs=1, epoch_ms=epoch_ms, ended_ms=ended_ms, **seen),
    )


@pytest.mark.parametrize(("at_ms", "left_ms"), [(100_000, 10_000), (103_000, 7_000), (110_000, 0)])
def test_what_is_left_of_an_epoch(at_ms: int, left_ms: int) -> None:
    """Without counts of bytes, by the time since it began."""
    assert Overheads().epoch_left_ms(job(), at_ms) == left_ms


@pytest.mark.parametrize("at_ms", [110_100, 113_000, 125_000])
def test_an_epoch_that_is_late_is_not_the_next_one(at_ms: int) -> None:
    """Without counts of bytes, how long it still takes is unknown: not a whole epoch, and not nothing."""
    overheads = Overheads()
    assert overheads.epoch_left_ms(job(), at_ms) is None
    overheads.learn_suspension("m", 4_000, 4_500)
    assert overheads.suspension_ms(job(), at_ms) == 4_500


def test_a_resumed_job_is_at_the_beginning_of_an_epoch() -> None:
    """Until an epoch of the incarnation has ended; of another incarnation, and of a job without epochs, nothing is known."""
    overheads = Overheads()
    overheads.trains_again("a", 0, 100_000)
    assert overheads.epoch_left_ms(job(ended_ms=None), 104_000) == 6_000
    assert overheads.epoch_left_ms(job(ended_ms=103_000), 104_000) == 9_000
    assert overheads.epoch_left_ms(job(ended_ms=None, epoch_ms=0), 104_000) is None
    overheads.trains_again("a", 1, 100_000)
    assert overheads.epoch_left_ms(job(ended_ms=None), 104_000) is None


def test_before_any_was_measured_the_end_of_the_epoch_counts() -> None:
    """And where no epoch was seen, the usual time to save."""
    assert Overheads().suspension_ms(job(), 104_000) == 6_000 + FIRST_SUSPENSION_MS
    assert Overheads().suspension_ms(job(ended_ms=None), 104_000) == FIRST_SUSPENSION_MS


def test_a_model_that_waits_for_its_epoch_is_learned() -> None:
    """Each suspension took what was left of the epoch, and 500 ms."""
    overheads = Overheads()
    for left in (1_000, 4_000, 9_000):
        overheads.learn_suspension("m", left, left + 500)
    assert overheads.suspension_ms(job(), 104_000) == 6_500


def test_one_that_came_out_far_from_its_prediction_changes_little() -> None:
    """The first was taken for one at the end of its epoch, and had most of it before it; the others took 500 ms more."""
    overheads = Overheads()
    for left, took in ((1_000, 11_000), (4_000, 4_500), (9_000, 9_500)):
        overheads.learn_suspension("m", left, took)
    assert overheads.suspension_ms(job(), 104_000) == 6_500


def test_a_model_that_saves_at_its_next_step_is_learned() -> None:
    """Each suspension took about 300 ms, however much was left of the epoch."""
    overheads = Overheads()
    for left, took in ((1_000, 290), (4_000, 310), (9_000, 300)):
        overheads.learn_suspension("m", left, took)
    assert overheads.suspension_ms(job(), 104_000) == pytest.approx(300, abs=5)


def test_readers_share_the_bandwidth() -> None:
    """A second to launch, and two for each job that reads at the same time."""
    overheads = Overheads()
    for readers in (1, 2, 4, 1, 3):
        overheads.learn_resumption("m", readers, 1_000 + 2_000 * readers)
    assert overheads.resumption_ms(job(), 5) == pytest.approx(11_000, abs=2)


@pytest.mark.parametrize(("load_bytes", "took_ms"), [(30_000_000, 8_000), (90_000_000, 10_000), (None, 7_500)])
def test_as_long_as_all_had_as_many_readers_the_bandwidth_says_what_is_shared(
    load_bytes: int | None, took_ms: int
) -> None:
    """Of 5 s, 3 s are reading; never more than all of it; without a count of the bytes, half."""
    overheads = Overheads()
    overheads.learn_resumption("m", 1, 5_000)
    assert overheads.resumption_ms(job(load_bytes=load_bytes), 1, 10_000_000) == 5_000
    assert overheads.resumption_ms(job(load_bytes=load_bytes), 2, 10_000_000) == took_ms


def test_before_any_was_measured_what_was_read_and_the_bandwidth_count() -> None:
    """50 MB at 10 MB/s, for one reader and for two; or the time to load at the first start."""
    first = job(load_bytes=50_000_000, load_ms=4_000)
    assert Overheads().resumption_ms(first, 1, 10_000_000) == FIRST_RESUMPTION_MS + 5_000
    assert Overheads().resumption_ms(first, 2, 10_000_000) == FIRST_RESUMPTION_MS + 10_000
    assert Overheads().resumption_ms(first, 1) == 4_000


def test_another_model_is_predicted_from_all() -> None:
    """Until something of its own was measured."""
    overheads = Overheads()
    overheads.learn_resumption("m", 1, 8_000)
    assert overheads.resumption_ms(job(model="other", ended_ms=None), 1) == 8_000


def test_what_is_remembered_is_bounded() -> None:
    """Models, and measurements of each."""
    overheads = Overheads()
    for number in range(MODELS_KEPT + 50):
        overheads.learn_resumption(f"m{number}", 1, 1_000)
    for _ in range(5 * MEASURED_KEPT):
        overheads.learn_suspension("m1", 1, 1)
    assert len(overheads.models) <= MODELS_KEPT
    assert all(len(one.suspensions) <= MEASURED_KEPT for one in overheads.models.values())
