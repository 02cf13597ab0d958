"""Tables as programs and people without a terminal see them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steepest.cli.printing.tables import Cell, plain


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
    """Whatever a cell holds, a row is one line, and an empty cell is still a field of it."""
    lines = plain(("x", "y"), rows).split("\n")

    assert len(lines) == len(rows) + 1
    assert all(line.isprintable() and len(line.split()) >= 2 for line in lines)
