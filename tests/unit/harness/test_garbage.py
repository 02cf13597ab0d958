"""What a test of real resources leaves open is its own failure."""

from __future__ import annotations

import re

import pytest

from .conftest import Run

PLUGINS = ("tests.harness.garbage",)
LEAVES = """
import gc
import socket

gc.disable()  # otherwise a collection by chance may come first

def test_leaves_a_socket():
    one = socket.socket()
    cycle = [one]
    cycle.append(cycle)

def test_innocent():
    gc.collect()
"""


@pytest.mark.parametrize(
    ("at", "blamed"),
    [("tests/integration/test_made.py", "test_leaves_a_socket"), ("tests/unit/test_made.py", "test_innocent")],
)
def test_a_socket_that_is_left_open_is_collected_in_its_own_tests_time(run: Run, at: str, blamed: str) -> None:
    """A unit test opens none; there the next collection finds it, whichever test runs then."""
    done = run(LEAVES, "-W", "error", plugins=PLUGINS, at=at)

    assert re.search(rf"^(FAILED|ERROR) {at}::{blamed} - pytest", done.stdout, re.MULTILINE)
    assert "PytestUnraisableExceptionWarning" in done.stdout
    assert "ResourceWarning" in done.stdout


def test_none_is_collected_before_the_tests_run(run: Run) -> None:
    """Collecting stops for as long as tests are collected, and no longer."""
    looks = "import gc\nWAS = gc.isenabled()\ndef test_it():\n    assert (WAS, gc.isenabled()) == (False, True)\n"

    assert run(looks, plugins=PLUGINS).returncode == 0
