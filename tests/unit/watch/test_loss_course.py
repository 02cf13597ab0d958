"""What a job prints is bounded in what it may make of the log, and judged the same however it is split."""

from __future__ import annotations

import math
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from steepest.events.growth import FindingKind
from steepest.policies.watch.loss_course import BLOCKS_LEAST, SAID_MOST, LossChange, LossWatch

LARGEST = 1e290
"""The categorizer passes no finite value that is larger."""

VALUES = st.lists(
    st.floats(-LARGEST, LARGEST) | st.sampled_from([1.0, LARGEST, -LARGEST, math.nan, math.inf]), max_size=200
)


def watched(values: list[float], total: int | None = None) -> tuple[LossWatch, list[LossChange]]:
    """What is said of losses at steps from 1 on."""
    course = LossWatch()
    return course, [change for step, value in enumerate(values, 1) for change in course.add(step, value, total)]


def test_three_losses_that_are_not_finite_are_one_divergence() -> None:
    """One or two may be a scaler's; it is over once the loss is finite and low again."""
    assert watched([2.0, 1.0, math.nan, 0.9, math.nan, math.nan, 0.8])[1] == []
    _, (opened, over) = watched([2.0, 1.0, math.nan, math.nan, math.inf, 0.9])
    assert (opened.kind, opened.since, opened.is_over) == (FindingKind.DIVERGED, 3, False)
    assert (over.kind, over.is_over) == (FindingKind.DIVERGED, True)


def test_a_job_cannot_fill_the_log() -> None:
    """Spikes without end are said a bounded number of times."""
    calm = [1.0, 1.1] * 20
    course, found = watched([*calm, 1e6] * 400)
    assert course.said <= SAID_MOST
    assert len(found) <= 2 * SAID_MOST


@given(values=VALUES, total=st.none() | st.integers(1, 300), cut=st.integers(0, 200))
def test_any_losses_are_judged_and_a_snapshot_changes_nothing(values: list[float], total: int | None, cut: int) -> None:
    """No number raises; a state that was written and read back goes on in the same way."""
    whole, found = watched(values, total)
    first, before = watched(values[:cut], total)
    again = msgspec.json.decode(msgspec.json.encode(first), type=LossWatch)
    after = [change for step, value in enumerate(values[cut:], cut + 1) for change in again.add(step, value, total)]

    assert [change.kind for change in found] == [change.kind for change in before + after]
    assert len(whole.newest.values) <= 31
    assert len(whole.blocks.rows) <= 32


@given(
    values=st.lists(st.floats(-10, 10) | st.sampled_from([math.nan, 1e6]), max_size=120),
    stride=st.integers(1, 60),
    total=st.none() | st.integers(50, 5_000),
)
def test_that_the_blocks_are_looked_at_only_when_they_can_show_something_changes_nothing(
    values: list[float], stride: int, total: int | None
) -> None:
    """What is found is the same as if they were looked at whenever one is complete."""
    spared, thorough = LossWatch(), LossWatch()
    for number, value in enumerate(values):
        found = spared.add(float(number * stride), value, total)
        with patch.object(LossWatch, "_may_be_flat", lambda self, *_: len(self.blocks.rows) >= BLOCKS_LEAST):
            assert found == thorough.add(float(number * stride), value, total)
