"""Tables: with Rich on a terminal, in plain aligned columns for a pipe.

It owns how rows look. It must never know what is in them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from steepest.cli.printing.output import console, tell
from steepest.describe import one_line

Cell = str | tuple[str, str]
"""A text, or a text and its style on a terminal."""


def show(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print rows under the columns' names; a name that begins with ``#`` stands over numbers, flush right."""
    if sys.stdout.isatty():
        _show_rich(columns, rows)
    else:
        tell(plain(columns, rows))


def plain(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Rows as aligned lines without any decoration; an empty cell is a dash, so that every line has all its fields."""
    table = [[name.lstrip("#").upper() for name in columns], *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[place]) for row in table) for place in range(len(columns))]
    return "\n".join(
        "  ".join(_pad(*cell) for cell in zip(row, widths, columns, strict=True)).rstrip() for row in table
    )


def _pad(text: str, width: int, column: str) -> str:
    return text.rjust(width) if column.startswith("#") else text.ljust(width)


def _text(cell: Cell) -> str:
    return one_line(cell if isinstance(cell, str) else cell[0]) or "-"


def _show_rich(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name.lstrip("#"), justify="right" if name.startswith("#") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(cell), "" if isinstance(cell, str) else cell[1]) for cell in row))
    console().print(table)
