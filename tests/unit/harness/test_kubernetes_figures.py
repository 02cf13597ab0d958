"""What the tests on real nodes measured fails their run where it is not as it must be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.kubernetes import conftest
from tests.integration.kubernetes.figures import COUNTED, MOVES_LEAST, Figures

from .conftest import Run


def figures(move_ms: int = 900, own_ms: float = 60.0, **counts: int) -> Figures:
    """Of a run in which everything was measured."""
    found = Figures()
    found.move_ms += [move_ms, move_ms, 60_000]
    found.own_ms += [{"asked": own_ms - 20, "noted": 20.0}] * MOVES_LEAST + [{"asked": 4_000.0, "noted": 1_000.0}]
    found.count(**{**dict.fromkeys(COUNTED, 0), **counts})
    return found


@pytest.mark.parametrize(
    ("found", "wrong", "slow"),
    [
        (figures(), [], []),
        (figures(move_ms=5_000, own_ms=300.4), [], []),
        (figures(move_ms=5_001), [], ["the median of a move is 5001 ms, and not 5000 ms at most"]),
        (figures(own_ms=301.0), [], ["the median of its own part is 301 ms, and not 300 ms at most"]),
        (figures(lost=1), ["lost is 1, and not 0"], []),
    ],
)
def test_bounds_are_held(found: Figures, wrong: list[str], slow: list[str]) -> None:
    """Medians of moves, and every count."""
    assert (found.wrong(), found.slow()) == (wrong, slow)


def test_what_no_test_has_measured_is_wrong() -> None:
    """A run that measured nothing, or too little, must not pass for a good one."""
    few = figures()
    few.own_ms = few.own_ms[1:MOVES_LEAST]

    assert len(Figures().wrong()) == len(COUNTED) + 1
    assert len(Figures().slow()) == 2
    assert few.wrong() == ["the parts of 9 moves are known, and not of 10 at least"]


def test_the_parts_are_said() -> None:
    """Each has a median of its own, and the last line has that of their sums."""
    assert figures().own_parts() == "Steepest's own parts of 11 moves, medians: asked 40 ms, noted 20 ms"
    assert json.loads(str(figures()))["own_ms_p50"] == 60


CONFTEST = Path(conftest.__file__)
TESTS = """
import pytest
from tests.integration.kubernetes.figures import COUNTED, MOVES_LEAST

def test_measured(figures):
    figures.move_ms.append({move_ms})
    figures.own_ms += [{{"asked": 50.0}}] * MOVES_LEAST
    figures.count(**{{**dict.fromkeys(COUNTED, 0), "lost": {lost}}})

def test_other(figures):
    {other}
"""


LONG = pytest.mark.long
SKIP = "pytest.skip('it is not here')"


@pytest.mark.parametrize(
    ("move_ms", "lost", "other", "options", "status"),
    [
        (900, 0, "pass", (".", "--bounds"), 0),
        pytest.param(9_000, 0, "pass", (".",), 0, marks=LONG),
        pytest.param(9_000, 0, "pass", (".", "--bounds"), 1, marks=LONG),
        (900, 1, "pass", (".",), 1),
        pytest.param(900, 1, "pass", (), 0, marks=LONG),
        pytest.param(900, 1, "pass", (".", "-k", "measured"), 0, marks=LONG),
        pytest.param(900, 1, SKIP, (".",), 0, marks=LONG),
    ],
    ids=["within", "slow", "slow, held to it", "one lost", "a file of them", "some of them", "one was skipped"],
)
def test_a_run_of_all_tests_is_held_to_the_bounds(
    run: Run, tmp_path: Path, *, move_ms: int, lost: int, other: str, options: tuple[str, ...], status: int
) -> None:
    """A run of some of them is not: they have not measured everything. A slow machine fails only where that is asked for."""
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    done = run(TESTS.format(move_ms=move_ms, lost=lost, other=other), *options, plugins=())
    is_whole = "." in options and "-k" not in options and other == "pass"

    assert done.returncode == status, done.stdout
    assert ("the median of a move is 9000 ms" in done.stdout) is (is_whole and move_ms == 9_000)
    assert ("lost is 1" in done.stdout) is (is_whole and lost == 1)
    assert done.stdout.splitlines()[-1].startswith('{"moves": 1')
