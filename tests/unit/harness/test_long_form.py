"""The short form of a run leaves out what is marked ``long``, and has a quarter of the examples."""

from __future__ import annotations

import pytest

from .conftest import Run

PLUGINS = ("_hypothesis_pytestplugin", "tests.harness.long_form", "tests.harness.examples")
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
    [((), "", (0, 25, 10)), (("--long",), "", (1, 100, 40)), ((), "1", (1, 100, 40))],
    ids=["short", "asked for", "everything required"],
)
def test_what_runs(run: Run, options: tuple[str, ...], required: str, ran: tuple[int, ...]) -> None:
    """The long form is asked for by an option, and is that of a run where every component is required."""
    done = run(BOTH, *options, plugins=PLUGINS, variables={"STEEPEST_REQUIRE_COMPONENTS": required})

    assert done.returncode == 0, done.stdout
    assert tuple(done.stdout.count(line) for line in ("ran the long one", "default drew", "own drew")) == ran
    assert ("make test TEST=--long" in done.stdout) is (ran[0] == 0)
