"""What the tests on real nodes measured fails their run where it is not as it must be."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.kubernetes import conftest
from tests.integration.kubernetes.figures import COUNTED, Figures

from .conftest import Run


def figures(move_ms: int = 900, own_ms: float = 60.0, **counts: int) -> Figures:
    """Of a run in which everything was measured."""
    found = Figures()
    found.move_ms += [move_ms, move_ms, 60_000]
    found.own_ms += [own_ms, own_ms, 5_000.0]
    found.count(**{**dict.fromkeys(COUNTED, 0), **counts})
    return found


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (figures(), []),
        (figures(move_ms=5_000, own_ms=300.4), []),
        (figures(move_ms=5_001), ["the median of a move is 5001 ms, and not 5000 ms at most"]),
        (figures(own_ms=301.0), ["the median of its own part is 301 ms, and not 300 ms at most"]),
        (figures(lost=1), ["lost is 1, and not 0"]),
    ],
)
def test_bounds_are_held(found: Figures, wrong: list[str]) -> None:
    """Medians of moves, and every count."""
    assert found.wrong() == wrong


def test_what_no_test_has_measured_is_wrong() -> None:
    """A run that measured nothing must not pass for a good one."""
    assert len(Figures().wrong()) == len(COUNTED) + 2


CONFTEST = Path(conftest.__file__)
TESTS = """
import pytest
from tests.integration.kubernetes.figures import COUNTED

def test_measured(figures):
    figures.move_ms.append({move_ms})
    figures.own_ms.append(50.0)
    figures.count(**dict.fromkeys(COUNTED, 0))

def test_other(figures):
    {other}
"""


@pytest.mark.parametrize(
    ("move_ms", "other", "options", "status"),
    [
        (900, "pass", (".",), 0),
        (9_000, "pass", (".",), 1),
        (9_000, "pass", (), 0),
        (9_000, "pass", (".", "-k", "measured"), 0),
        (9_000, "pytest.skip('it is not here')", (".",), 0),
    ],
    ids=["within", "beyond", "a file of them", "some of them", "one was skipped"],
)
def test_a_run_of_all_tests_is_held_to_the_bounds(
    run: Run, tmp_path: Path, *, move_ms: int, other: str, options: tuple[str, ...], status: int
) -> None:
    """A run of some of them is not: they have not measured everything."""
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    done = run(TESTS.format(move_ms=move_ms, other=other), *options, plugins=())

    assert done.returncode == status, done.stdout
    assert ("the median of a move is 9000 ms" in done.stdout) is bool(status)
    assert done.stdout.splitlines()[-1].startswith('{"moves": 1')
