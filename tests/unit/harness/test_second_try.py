"""Only where every component is required, and only with real components, does a test that fails run once more."""

from __future__ import annotations

import re

import pytest
from tests.harness.second_try import LISTED, TRIED_AGAIN

from .conftest import ROOT, Run

PLUGINS = ("pytest_rerunfailures", "tests.harness.second_try")
LATE = """
from pathlib import Path

def test_late():
    tried = Path("tried")
    first = not tried.exists()
    tried.touch()
    assert not first
"""
REQUIRED = {"STEEPEST_REQUIRE_COMPONENTS": "1"}


def test_what_was_late_passes_and_is_named(run: Run) -> None:
    """The summary keeps the first failure."""
    done = run(LATE, "-rR", plugins=PLUGINS, at="tests/integration/test_made.py", variables=REQUIRED)

    assert done.returncode == 0
    assert "RERUN tests/integration/test_made.py::test_late" in done.stdout
    assert "tests/flaky.md does not list tests/integration/test_made.py::test_late" in done.stdout


def test_every_flaky_test_is_there_and_has_a_reason() -> None:
    """The list names tests of this repository that have a second try, each with a day and a reason."""
    rows = [line.split("|")[1:-1] for line in LISTED.read_text().splitlines() if line.startswith("| `")]

    for name, since, why in rows:
        path, _, test = name.strip(" `").partition("::")
        function = test.rpartition("::")[2].partition("[")[0]
        assert path.startswith(TRIED_AGAIN), name
        assert f"def {function}(" in (ROOT / path).read_text(), name
        assert re.fullmatch(r" \d{4}-\d\d-\d\d ", since), name
        assert why.strip(), name


LEFT_OPEN = """
import socket
from pathlib import Path

def test_late():
    tried = Path("tried")
    if not tried.exists():
        tried.touch()
        held = [socket.socket()]
        held.append(held)
        assert not held
"""


def test_what_a_late_one_left_open_fails_no_second_try(run: Run) -> None:
    """Its traceback holds that until the second try begins."""
    plugins = ("tests.harness.garbage", *PLUGINS)
    done = run(
        LEFT_OPEN, "-rR", "-W", "error", plugins=plugins, at="tests/integration/test_made.py", variables=REQUIRED
    )

    assert "1 passed, 1 rerun" in done.stdout, done.stdout
    assert "error" not in done.stdout.splitlines()[-1]


def test_what_fails_twice_has_failed(run: Run) -> None:
    """There is no third try."""
    done = run("def test_wrong(): assert 0", plugins=PLUGINS, at="tests/contract/test_made.py", variables=REQUIRED)

    assert "1 failed, 1 rerun" in done.stdout


@pytest.mark.parametrize(
    ("at", "required"),
    [("tests/unit/test_made.py", "1"), ("tests/property/test_made.py", "1"), ("tests/integration/test_made.py", "")],
)
def test_others_have_one_try(run: Run, at: str, required: str) -> None:
    """Without real components nothing can be late; and a developer sees the first failure."""
    done = run(LATE, plugins=PLUGINS, at=at, variables={"STEEPEST_REQUIRE_COMPONENTS": required})

    assert done.returncode == 1
