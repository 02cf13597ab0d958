"""The fluid behind the promises to gangs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled

from steepest.policies.steepest.devices.fair_devices import SHARED, FairDevices


def ends(fair: FairDevices, now_s: float) -> dict[str, float | None]:
    """The fair ends as known now, in whole seconds."""
    fair.look(now_s)
    return {name: None if gang.ends_s is None else round(gang.ends_s) for name, gang in fair.gangs.items()}


def test_two_gangs_share_the_devices() -> None:
    """Each has half of nine tenths of ten devices until the smaller one ends, and then what it asks for."""
    fair = FairDevices(10.0)
    fair.know("a", 8.0, 450.0, 0.0)
    fair.know("b", 8.0, 850.0, 0.0)

    assert ends(fair, 0.0) == {"a": 100, "b": 150}


def test_one_that_comes_later_delays_the_others_from_then_on() -> None:
    """What was done before it came stays done."""
    fair = FairDevices(10.0)
    fair.know("a", 9.0, 900.0, 0.0)
    assert ends(fair, 0.0) == {"a": 100}
    fair.know("b", 9.0, 9_000.0, 50.0)

    assert ends(fair, 50.0)["a"] == 150


def test_a_gang_that_ended_early_goes_on_until_its_copy_has_as_much() -> None:
    """Its copy keeps its part, so that the others are promised no more than they would have had."""
    fair = FairDevices(10.0)
    fair.know("a", 9.0, 900.0, 0.0)
    fair.know("b", 9.0, 900.0, 0.0)
    fair.finish("a", 900.0, 100.0)

    assert ends(fair, 100.0) == {"a": 200, "b": 200}
    fair.know("c", 1.0, 10.0, 300.0)
    assert list(fair.gangs) == ["b", "c"]


def test_a_gang_of_unknown_size_has_a_part_and_no_end() -> None:
    """Nothing says when it ends, and the others share with it."""
    fair = FairDevices(10.0)
    fair.know("a", 9.0, None, 0.0)
    fair.know("b", 9.0, 450.0, 0.0)

    assert ends(fair, 0.0) == {"a": None, "b": 100}


def test_a_gang_that_proves_longer_goes_on() -> None:
    """Its copy had ended by too small a size."""
    fair = FairDevices(10.0)
    fair.know("a", 9.0, 900.0, 0.0)
    fair.know("b", 1.0, 10.0, 200.0)
    fair.know("a", 9.0, 1_800.0, 210.0)

    assert ends(fair, 210.0)["a"] == 310


@settings(max_examples=scaled(100), deadline=None)
@given(
    sizes=st.lists(st.tuples(st.sampled_from([1.0, 2.0, 8.0]), st.floats(1, 10_000)), min_size=1, max_size=12),
    steps=st.lists(st.floats(0, 500), min_size=1, max_size=6),
)
def test_looking_changes_nothing(sizes: list[tuple[float, float]], steps: list[float]) -> None:
    """However often it is brought up to date, the ends are those of one look."""
    fair, often = FairDevices(8.0), FairDevices(8.0)
    for number, (devices, size) in enumerate(sizes):
        fair.know(f"{number}", devices, size, 0.0)
        often.know(f"{number}", devices, size, 0.0)
    fair.look(0.0)
    now_s = 0.0
    for step in steps:
        now_s += step
        often.stale = True
        often.look(now_s)
    found = {name: gang.ends_s for name, gang in often.gangs.items()}

    assert found == pytest.approx({name: gang.ends_s for name, gang in fair.gangs.items()}, rel=1e-6, abs=1e-3)
    assert (
        max(end for end in found.values() if end is not None) >= sum(size for _, size in sizes) / (SHARED * 8.0) - 1e-3
    )
