"""Which examples run is known beforehand, unless fresh ones are asked for; those that fail are kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import Done, Run

DRAWING = ("_hypothesis_pytestplugin", "tests.harness.examples")
PRINTS = """
from hypothesis import given, strategies as st

{imports}

@given(numbers=st.lists(st.integers()), text=st.text(), number=st.floats())
def test_prints(*, numbers, text, number):
    print("drew", ascii((numbers, text, number)))
"""
FAILS = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_fails(number):
    print("drew", number)
    assert number < 100_000
"""


PROPERTIES = """
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

@given(number=st.integers())
def test_passes(number):
    pass

@settings(max_examples=10)
@given(number=st.integers())
async def test_asynchronous(number):
    pass

class Machine(RuleBasedStateMachine):
    @rule(number=st.integers())
    def step(self, number):
        pass

TestMachine = Machine.TestCase

@given(number=st.integers())
def test_fails(number):
    assert number < 100
"""


def drawn(source: str, run: Run, *options: str) -> list[str]:
    """The examples of a test."""
    return [line for line in run(source, *options, plugins=DRAWING).stdout.splitlines() if line.startswith("drew")]


def test_a_test_s_examples_are_the_same_in_every_run(run: Run, tmp_path: Path) -> None:
    """Neither the order of tests nor what else is loaded changes them; fresh ones differ."""
    (tmp_path / "loaded.py").write_text(f"NUMBERS = {list(range(1000, 2000))}")
    bare = drawn(PRINTS.format(imports=""), run)

    assert len(bare) >= 25
    assert drawn(PRINTS.format(imports="import loaded"), run) == bare
    assert drawn(PRINTS.format(imports=""), run, "--hypothesis-profile=fresh") != bare


@pytest.mark.long
def test_a_fresh_example_that_fails_is_told_and_kept(run: Run) -> None:
    """What fails once is printed with what makes it again, and is what the next run begins with."""
    first = run(FAILS, "--hypothesis-profile=fresh", plugins=DRAWING)

    assert first.returncode == 1
    assert "@reproduce_failure" in first.stdout
    assert drawn(FAILS, run, "--hypothesis-profile=fresh")[0] == "drew 100000"


@pytest.mark.long
def test_every_property_test_is_run_as_often_as_is_asked_for(run: Run) -> None:
    """Rounds follow each other until there are enough examples, or until time is up; a failure ends a test's rounds.

    A run goes on where the one before has ended; what has had enough is left out, and what has failed is not.
    """
    plugins = (*DRAWING, "pytest_asyncio.plugin", "pytest_timeout", "tests.harness.limit", "tests.harness.fresh")
    fresh = ("--hypothesis-profile=fresh", "--timeout=60", "--asyncio-mode=auto")
    little = reported(run(PROPERTIES, *fresh, "--seconds=0", plugins=plugins))
    many = reported(run(PROPERTIES, *fresh, "--examples=250", plugins=plugins))
    again = run(PROPERTIES, *fresh, "--examples=250", plugins=plugins)

    assert {name: little[name] for name in ("asynchronous", "Machine")} == {"asynchronous": 10, "Machine": 100}
    passing = ("passes", "asynchronous", "Machine")
    assert all(250 <= many[name] <= 350 for name in passing)
    assert little["fails"] <= many["fails"] < 200
    assert "3 deselected" in again.stdout
    assert {name: reported(again)[name] for name in passing} == {name: many[name] for name in passing}


def reported(done: Done) -> dict[str, int]:
    """How many examples each test has had."""
    lines = re.findall(r"^ +([0-9,]+) in .*[t_](\w+?)(?:::runTest)?$", done.stdout, re.MULTILINE)
    return {name: int(count.replace(",", "")) for count, name in lines}
