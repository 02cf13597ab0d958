"""Which tests the short, the long and the whole form of a run have, and how many examples."""

from __future__ import annotations

import pytest

from .conftest import Run

PLUGINS = ("_hypothesis_pytestplugin", "tests.harness.forms", "tests.harness.examples")
BOTH = """
import pytest
from hypothesis import given, settings, strategies as st
from tests.harness.examples import scaled

@pytest.mark.long
def test_long():
    print("ran the long one")

@given(number=st.integers())
def test_default(*, number):
    print("default drew")

@settings(max_examples=scaled(40))
@given(number=st.integers())
def test_own(*, number):
    print("own drew")
"""


@pytest.mark.parametrize(
    ("options", "required", "ran"),
    [((), "", (0, 25, 10)), (("--long",), "", (1, 100, 40)), ((), "1", (1, 100, 40)), (("--all",), "", (1, 100, 40))],
    ids=["short", "asked for", "everything required", "whole"],
)
def test_what_runs(run: Run, options: tuple[str, ...], required: str, ran: tuple[int, ...]) -> None:
    """The long form is asked for by an option, and is that of a run where every component is required."""
    done = run(BOTH, *options, plugins=PLUGINS, variables={"STEEPEST_REQUIRE_COMPONENTS": required})

    assert done.returncode == 0, done.stdout
    assert tuple(done.stdout.count(line) for line in ("ran the long one", "default drew", "own drew")) == ran
    assert ("make test TEST=--long" in done.stdout) is (ran[0] == 0)


OF_A_COMPONENT = """
import pytest

@pytest.mark.end_to_end
def test_the_way_of_a_job():
    print("ran end to end")

def test_a_detail():
    print("ran a detail")
"""


@pytest.mark.parametrize(
    ("options", "named", "ran"),
    [(("--long",), "tests", (1, 0)), (("--all",), "tests", (1, 1)), ((), "tests/integration/kafka", (1, 1))],
    ids=["long", "whole", "its folder is named"],
)
def test_what_runs_of_a_component(run: Run, options: tuple[str, ...], named: str, ran: tuple[int, int]) -> None:
    """A real component has one way of a job in most runs; the whole form, and who names its folder, get all its tests."""
    at = "tests/integration/kafka/test_made.py"
    done = run(OF_A_COMPONENT, *options, plugins=("tests.harness.forms",), at=at, run=named)

    assert done.returncode == 0, done.stdout
    assert tuple(done.stdout.count(line) for line in ("ran end to end", "ran a detail")) == ran
