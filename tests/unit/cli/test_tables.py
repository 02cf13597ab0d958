"""Tables as programs and people without a terminal see them."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cli.commands.jobs import COLUMNS, GIVING_WAY
from steepest.cli.printing.output import console
from steepest.cli.printing.tables import GAP, LEAST, Cell, drawn, fitted, plain


def test_columns_stand_under_each_other() -> None:
    """Names left, numbers right, styles left out, nothing for the eye alone."""
    rows: list[list[Cell]] = [["a", "1", ("ready", "green")], ["longer", "1000", "lost"]]

    assert plain(("node", "#used", "state"), rows).splitlines() == [
        "NODE    USED  STATE",
        "a          1  ready",
        "longer  1000  lost",
    ]


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), max_size=5))
def test_a_row_is_a_line(rows: list[list[str]]) -> None:
    """With any cell content a row is one line, and an empty cell is still a field of it."""
    lines = plain(("x", "y"), rows).split("\n")

    assert len(lines) == len(rows) + 1
    assert all(line.isprintable() and len(line.split()) >= 2 for line in lines)


JOBS: list[list[Cell]] = [
    [
        *(
            f"mlp-with-a-very-long-name-{number}",
            "",
            "n1",
            "",
            "running",
            "PC",
            "12.3%",
            "4500/10000",
            "3 min 20 s",
            "3 min 02 s – 4 min 10 s",
            "",
            "0.4512",
        ),
        *("", "1", "", "0.4 s", "2 min 05 s", "", "perceptron --steps 10000 --seed 7", ""),
    ]
    for number in range(3)
]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_job_is_a_line_of_any_terminal(width: int) -> None:
    """Names are cut and not split, numbers are whole, and what there is no room for is left out; so are empty columns."""
    written = io.StringIO()
    terminal = console(file=written, width=width)
    terminal.print(drawn(COLUMNS, JOBS, GIVING_WAY, width))
    head, *lines = written.getvalue().splitlines()

    assert len(lines) == len(JOBS)
    assert all(len(line) <= width for line in (head, *lines))
    assert all("4500/10000" in line and "12.3%" in line for line in lines)
    assert "reason" not in head
    assert ("what" in head) is (width == 200)
    assert ("very-long-name-2" in lines[2]) is (width >= 80)


@given(st.lists(st.lists(st.text(max_size=60), min_size=4, max_size=4), min_size=1, max_size=4), st.integers(40, 200))
def test_columns_fit(rows: list[list[str]], width: int) -> None:
    """Where the columns that never give way have room, all that is shown has, and a text has at least its least width."""
    columns = ("name", "#number", "what", "why")
    shown = fitted(columns, rows, width, ("why", "what"))

    fixed = shown.get("#number", 0) + 2 * GAP + LEAST
    assert fixed > width or sum(shown.values()) + GAP * (len(shown) - 1) <= max(width, fixed)
    assert set(shown) <= set(columns)


def test_a_name_that_is_too_long_keeps_both_ends() -> None:
    """Names that begin alike differ at their ends; what is narrow enough stays as it is."""
    rows = [[f"nightly-experiment-with-rate-{n}", "running", "1"] for n in (1, 2)] + [["short", "running", "1"]]
    written = io.StringIO()
    console(file=written, width=30).print(drawn(("job", "phase", "#step"), rows, ("phase",), 30))
    lines = written.getvalue().splitlines()

    assert lines[1] != lines[2]
    assert lines[1].startswith("nightly-")
    assert "…" in lines[1]
    assert lines[1].split()[0].endswith("-1")
    assert lines[3].split()[0] == "short"
