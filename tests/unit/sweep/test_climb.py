"""What a trial is worth at a rung."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.events.common import LARGEST
from steepest.events.loss import LossDiverged, LossReported
from steepest.events.requests import Rungs
from steepest.policies.sweep.climb import Climb, RungValue

RUNGS = Rungs(first=100, factor=3)

Report = tuple[float, dict[str, float]]


def climbed(reports: Iterable[Report], rungs: Rungs = RUNGS) -> list[RungValue]:
    """The rungs that are reached with reports, each a value and its place."""
    climb = Climb(at=rungs.first)
    found = [climb.add(_report(value, place), value, rungs) for value, place in reports]
    return [one for one in found if one is not None]


def _report(value: float, place: dict[str, float]) -> LossReported | LossDiverged:
    if not math.isfinite(value):
        return LossDiverged(job="a", incarnation=1, step=int(place["step"]) if "step" in place else None, value="nan")
    return LossReported(job="a", incarnation=1, value=value, **place)  # type: ignore[arg-type]


def at_steps(**values: float) -> list[Report]:
    """Reports at these steps, each written as ``s100``."""
    return [(value, {"step": int(name[1:])}) for name, value in values.items()]


@pytest.mark.parametrize(
    ("reports", "reached"),
    [
        ([], []),
        (at_steps(s10=9.0, s99=0.5), []),
        (at_steps(s10=9.0, s80=0.4, s100=0.6), [RungValue(0, 100, 0.5)]),
        (at_steps(s75=9.0, s76=0.4, s120=7.0), [RungValue(0, 100, 0.4)]),
        (at_steps(s50=9.0, s130=0.3), [RungValue(0, 100, 0.3)]),
        (at_steps(s100=0.5, s200=9.0, s290=0.2, s300=0.4), [RungValue(0, 100, 0.5), RungValue(1, 300, 0.3)]),
        (at_steps(s90=0.4, s950=0.1), [RungValue(2, 900, 0.1)]),
        (at_steps(s100=math.nan, s300=0.3), [RungValue(0, 100, None), RungValue(1, 300, 0.3)]),
        (at_steps(s80=math.nan, s100=0.3), [RungValue(0, 100, 0.3)]),
        (at_steps(s90=5.0, s80=0.5, s100=0.5), [RungValue(0, 100, 0.5)]),
        ([(0.5, {"step": 100}), (0.9, {"step": 20}), (0.4, {"step": 100})], [RungValue(0, 100, 0.5)]),
    ],
    ids=[
        "nothing",
        "before",
        "the mean",
        "the last quarter",
        "beyond",
        "two",
        "several at once",
        "nan",
        "one nan",
        "goes back",
        "again",
    ],
)
def test_a_rung_is_reached_with_the_mean_of_the_last_quarter(reports: list[Report], reached: list[RungValue]) -> None:
    """Once; of rungs that are passed between two reports, the highest one, with the value beyond it."""
    assert [RungValue(one.rung, one.at, one.value and round(one.value, 9)) for one in climbed(reports)] == reached


def test_places_are_steps_or_epochs_or_numbers() -> None:
    """The best that the job names; what comes before counts no more, and what names less does not count."""
    rungs = Rungs(first=2, factor=2)
    assert climbed([(0.5, {}), (0.4, {})], rungs) == [RungValue(0, 2, 0.4)]
    assert climbed([(0.5, {"epoch": 1.0}), (0.4, {"epoch": 2.0})], rungs) == [RungValue(0, 2, 0.4)]
    mixed: list[Report] = [
        (0.9, {"epoch": 1.9}),
        (0.5, {"step": 1}),
        (0.1, {}),
        (0.2, {"epoch": 7.0}),
        (0.4, {"step": 2}),
    ]
    assert climbed(mixed, rungs) == [RungValue(0, 2, 0.4)]


def test_a_step_without_end_is_the_last() -> None:
    """What is remembered is a number that a snapshot can hold."""
    climb = Climb(at=500)
    found = climb.add(LossReported(job="a", incarnation=1, step=LARGEST, value=0.5), 0.5, Rungs(first=500))
    assert found is not None
    assert climb.at == LARGEST + 1
    assert climb.add(LossReported(job="a", incarnation=1, step=LARGEST, value=0.5), 0.5, Rungs(first=500)) is None


VALUES = st.floats(-1e300, 1e300) | st.just(math.nan)
PLACES = st.fixed_dictionaries(
    {}, optional={"step": st.integers(0, LARGEST), "epoch": st.floats(-1e308, 1e308, allow_nan=False)}
)


@given(
    st.lists(st.tuples(VALUES, PLACES), max_size=30),
    st.builds(Rungs, first=st.integers(1, LARGEST), factor=st.integers(2, 100)),
)
def test_each_rung_is_reached_once_and_in_order(reports: list[Report], rungs: Rungs) -> None:
    """Whatever a job prints: what is said of it can be an event, and there is little of it."""
    found = climbed(reports, rungs)

    numbers = [one.rung for one in found]
    assert numbers == sorted(set(numbers))
    assert all(one.at == rungs.first * rungs.factor**one.rung <= LARGEST for one in found)
    assert all(one.value is None or math.isfinite(one.value) for one in found)
