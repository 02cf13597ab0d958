"""Which of the values that a job reports it is judged by."""

from __future__ import annotations

import pytest

from steepest.collector.metric_selection import RENAMED_AFTER, MetricSelection
from steepest.training_logs.records import LossRecord, Split


def record(metric: str, split: Split = "train") -> LossRecord:
    """A reading of that name."""
    return LossRecord(1, 1, 0, 1, False, None, metric, 0.5, split, "keras")  # noqa: FBT003


def names(asked: str, *metrics: str | tuple[str, Split]) -> list[str | None]:
    """What each reading changes."""
    judged = MetricSelection(asked)
    changes = [judged.take(record(*([one] if isinstance(one, str) else one))) and judged.name for one in metrics]
    return [name or None for name in changes]


def test_the_first_whole_loss_is_judged() -> None:
    """It is announced with the first reading, and not again."""
    assert names("loss", "train_loss", "train_loss") == ["train_loss", None]


def test_before_any_loss_the_name_that_was_asked_for_stands() -> None:
    """Parts of a loss and held-out readings need a watch too; the first whole loss replaces the guess immediately."""
    assert names("loss", "box_loss", ("loss", "eval"), "total_loss") == ["loss", None, "total_loss"]


def test_two_losses_on_each_line_do_not_take_turns() -> None:
    """The one that came first is judged, and the other one changes nothing."""
    assert names("loss", *["loss", "total_loss"] * 20) == ["loss", *[None] * 39]


def test_a_summary_at_the_end_renames_nothing() -> None:
    """A training that ends with a few losses of another name is judged by what it printed all the time."""
    assert names("loss", "loss", *["train_loss"] * (RENAMED_AFTER - 1)) == ["loss", *[None] * (RENAMED_AFTER - 1)]


def test_a_loss_with_another_name_is_watched_anew() -> None:
    """A script that goes on under another name goes on to be judged."""
    assert names("loss", "loss", *["lm_loss"] * RENAMED_AFTER)[-1] == "lm_loss"


@pytest.mark.parametrize(("metric", "judged"), [("reward", "reward"), ("Reward", "Reward")])
def test_what_the_user_names_is_judged_as_it_is_spelled(metric: str, judged: str) -> None:
    """The reader gives only what was asked for, in the spelling of the output."""
    assert names("reward", metric) == [judged]


def test_the_metric_that_the_user_names_is_judged_for_good_once_it_is_there() -> None:
    """Also one that is held out, and however many losses come between two of its values."""
    found = names("val_loss", "loss", ("val_loss", "eval"), *["loss"] * 20, ("val_loss", "eval"))
    assert found == ["loss", "val_loss", *[None] * 21]
