"""No test can keep a run from its end."""

from __future__ import annotations

import pytest

from .conftest import Run

SWALLOWS = """
import threading

def test_swallows():
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass

def test_other():
    pass
"""
FAILS_AND_STAYS = """
import pytest, threading

@pytest.fixture
def stays():
    yield
    threading.Event().wait()

def test_fails(stays):
    assert False
"""
SHORT = ("--timeout=1", "--grace=0.5")
LIMITED = ("pytest_timeout", "tests.harness.limit")


@pytest.mark.parametrize(("source", "place"), [(SWALLOWS, "in test_swallows"), (FAILS_AND_STAYS, "in stays")])
def test_a_test_that_does_not_end_is_ended(run: Run, source: str, place: str) -> None:
    """A test that swallows the alarm, or stays after its failure, ends the process, which says where it was."""
    done = run(source, *SHORT, plugins=LIMITED)

    assert done.returncode == 1
    assert "Timeout (" in done.stderr
    assert place in done.stderr


@pytest.mark.long
def test_others_go_on(run: Run) -> None:
    """Run in parallel, as by ``make test``, a test that had to be ended has failed by its name, and all others run."""
    done = run(SWALLOWS, *SHORT, "-n1", plugins=(*LIMITED, "xdist.plugin"))

    assert done.returncode == 1
    assert "crashed while running 'test_made.py::test_swallows'" in done.stdout
    assert "PASSED test_made.py::test_other" in done.stdout
