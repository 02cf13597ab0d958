"""What finished jobs teach about when the next ones have learned most."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.policies.steepest.learning_history import (
    FIRST,
    MODELS_KEPT,
    MOST_POINTS,
    LearningHistory,
    LossCourse,
    remember,
    usual,
)


def course(rate: float, steps: int = 1000) -> LossCourse:
    """A loss that falls exponentially."""
    found = LossCourse()
    for step in range(1, steps + 1):
        found.add(step, 1.0 + math.exp(-rate * step / steps))
    return found


def test_the_share_at_which_a_loss_had_fallen_is_found_in_few_points() -> None:
    """1 − e^(−10 q) = 0.9 at q = 0.23."""
    found = course(10.0)
    assert len(found.points) <= MOST_POINTS
    share = found.learned_at(1000)
    assert share is not None
    assert abs(share - 0.23) < 0.05


def test_a_loss_that_rises_or_was_hardly_seen_says_nothing() -> None:
    """Nor does one that is not finite."""
    assert course(-1.0).learned_at(1000) is None
    assert course(10.0, steps=3).learned_at(3) is None
    silent = LossCourse()
    silent.add(1, math.nan)
    assert silent.learned_at(100) is None


def test_a_job_says_by_its_own_losses_how_long_it_learns() -> None:
    """1 − e^(−40 q) = 0.9 at q = 0.058, which shows soon after; a line is not at its end before the last step.

    Of the line half is done, and the loss is three quarters of the first one.
    """
    fast, line = LossCourse(), LossCourse()
    for step in range(1, 501):
        fast.add(step, 1.0 + math.exp(-40 * step / 1000))
        line.add(step, 2.0 - step / 1000)

    assert fast.expected(500, 1000) == pytest.approx(0.058, abs=0.02)
    assert line.expected(500, 1000) == pytest.approx(0.5**0.4 * 0.75**0.8, abs=0.01)
    assert line.expected(990, 1000) == 1.0


def test_the_further_a_loss_has_fallen_the_sooner_it_has_learned() -> None:
    """Of two losses that still fall, at the same step."""
    shallow, deep = LossCourse(), LossCourse()
    for step in range(1, 201):
        shallow.add(step, 2.0 - step / 1000)
        deep.add(step, 2.0 - step / 125)

    assert deep.expected(200, 1000) < shallow.expected(200, 1000) <= 1.0


def test_losses_below_zero_do_not_say_how_far_they_may_fall() -> None:
    """Nor do those as far apart as numbers can be."""
    below, apart = LossCourse(), LossCourse()
    for step in range(1, 201):
        below.add(step, -step / 1000)
        apart.add(step, 1.7e308 * (1 - step / 100))

    assert 0.2 < below.expected(200, 1000) < 0.5
    assert 0.2 < apart.expected(200, 1000) < 0.5


def test_a_job_is_taken_to_learn_for_a_while_before_its_losses_say_anything() -> None:
    """Neither few losses nor ones that do not fall make it learn for longer."""
    few, rising = course(10.0, steps=3), course(-1.0)

    assert few.expected(3, 1000) == LossCourse().expected(0, 1000) == FIRST
    assert rising.expected(900, 1000) == FIRST


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats()), max_size=300), st.integers(1, 10**6))
def test_what_any_losses_say_is_a_share(losses: list[tuple[int, float]], steps: int) -> None:
    """Whatever is reported, in any order."""
    found = LossCourse()
    for step, loss in losses:
        found.add(step, loss)
    assert 0.0 <= found.expected(min(found.step, steps), steps) <= 1


def test_steps_that_a_restarted_job_repeats_do_not_count_again() -> None:
    """Its losses go on where it was."""
    found = LossCourse()
    for step in (1, 2, 3, 2, 3, 4):
        found.add(step, 1.0 / (1 + len(found.points)))
    assert [step for step, _ in found.points] == [1, 2, 3, 4]


def test_a_model_that_has_finished_before_says_when_it_learns() -> None:
    """Of others it says nothing."""
    history = LearningHistory()
    assert history.shares("resnet") is None
    remember(history.models, "resnet", 0.5)
    remember(history.models, "resnet", 0.4)
    remember(history.models, "", 0.9)
    assert history.shares("resnet") == (0.4, 0.5)
    assert history.shares("") is None
    assert history.shares("vgg") is None


def test_the_job_of_a_model_that_is_furthest_ahead_speaks_for_the_others() -> None:
    """Until it leaves; jobs without a model and those further ahead speak for themselves."""
    history, young = LearningHistory(), LossCourse()
    leader, behind = course(10.0), course(20.0, steps=100)
    history.report("resnet", "leader", leader, 500, 1000)
    history.report("resnet", "behind", behind, 100, 1000)
    history.report("", "nameless", leader, 900, 1000)

    foreseen = leader.expected(500, 1000)
    assert history.expected("resnet", young, 0, 1000) == foreseen
    assert history.expected("resnet", behind, 100, 1000) == foreseen != behind.expected(100, 1000)
    assert history.expected("resnet", behind, 600, 1000) == behind.expected(600, 1000)
    assert history.expected("", young, 0, 1000) == history.expected("vgg", young, 0, 1000) == FIRST

    history.leave("resnet", "behind")
    assert history.expected("resnet", young, 0, 1000) == foreseen
    history.leave("resnet", "leader")
    assert history.expected("resnet", young, 0, 1000) == FIRST


def test_a_job_whose_losses_say_nothing_speaks_for_no_other() -> None:
    """However far it is."""
    history = LearningHistory()
    history.report("resnet", "rising", course(-1.0), 900, 1000)
    assert history.expected("resnet", LossCourse(), 0, 1000) == FIRST


def test_a_loss_that_has_just_stopped_falling_has_some_of_its_fall_to_come() -> None:
    """1 − e^(−10 q) = 0.9 at q = 0.23, which the losses up to a third of the run say already."""
    early, late = LossCourse(), course(10.0)
    for step in range(1, 331):
        early.add(step, 1.0 + math.exp(-10 * step / 1000))

    assert early.fallen_step is not None
    assert not early.falls
    assert early.expected(330, 1000) == pytest.approx(0.23, abs=0.03)
    assert late.expected(1000, 1000) == pytest.approx(0.23, abs=0.03)


@given(st.lists(st.tuples(st.text(max_size=3), st.floats(0, 1)), max_size=600))
def test_its_memory_is_bounded(jobs: list[tuple[str, float]]) -> None:
    """Models come and go."""
    history = LearningHistory()
    for model, share in jobs:
        remember(history.models, model, share)
    assert len(history.models) <= MODELS_KEPT
    for model in history.models:
        shares = history.shares(model)
        assert shares is not None
        assert list(shares) == sorted(shares)


def test_a_model_that_has_finished_before_says_how_long_its_jobs_are() -> None:
    """By the median of the last five: one that was cut short or took ten times as long changes little."""
    history = LearningHistory()
    assert usual(history.sizes, "resnet") is None
    for size in (1.0, 100.0, 110.0, 90.0, 1_000.0, 95.0):
        remember(history.sizes, "resnet", size)
    remember(history.sizes, "", 7.0)

    assert usual(history.sizes, "resnet") == 100.0
    assert usual(history.sizes, "") is None
    assert usual(history.sizes, "vgg") is None
