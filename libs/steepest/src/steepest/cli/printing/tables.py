"""Tables: with Rich on a terminal, in plain aligned columns for a pipe.

It owns how rows look, and what gives way where a terminal is narrow. It must never know what is in them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from steepest.cli.printing.output import console, tell
from steepest.describe import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

Cell = str | tuple[str, str] | list[tuple[str, str]]
"""A text, a text and its style on a terminal, or several such parts."""

GAP = 2
"""Blanks between two columns."""

LEAST = 12
"""A column of texts is cut to no fewer letters."""


def show(columns: Sequence[str], rows: Sequence[Sequence[Cell]], giving_way: Sequence[str] = ()) -> None:
    """Print rows under the columns' names; a name that begins with ``#`` stands over numbers, flush right.

    On a terminal, columns that hold nothing are left out. Where it is too narrow, those in ``giving_way`` are cut and then
    left out, in that order, and after them the first column is cut; without any to give way, long texts take several lines.
    """
    if sys.stdout.isatty():
        terminal = console()
        terminal.print(drawn(columns, rows, giving_way, terminal.width))
    else:
        tell(plain(columns, rows))


def plain(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Rows as aligned lines without any decoration; an empty cell is a dash, so that every line has all its fields."""
    table = [[name.lstrip("#").upper() for name in columns], *([_text(cell) or "-" for cell in row] for row in rows)]
    widths = [max(len(row[place]) for row in table) for place in range(len(columns))]
    return "\n".join(
        "  ".join(_pad(*cell) for cell in zip(row, widths, columns, strict=True)).rstrip() for row in table
    )


def _pad(text: str, width: int, column: str) -> str:
    return text.rjust(width) if column.startswith("#") else text.ljust(width)


def _text(cell: Cell) -> str:
    if isinstance(cell, list):
        return one_line("".join(text for text, _ in cell))
    return one_line(cell if isinstance(cell, str) else cell[0])


def fitted(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], width: int, giving_way: Sequence[str]
) -> dict[str, int]:
    """The columns that are shown on a terminal ``width`` letters wide, each with its own width."""
    texts = {name: [_text(row[place]) for row in rows] for place, name in enumerate(columns)}
    shown = {
        name: max(len(name.lstrip("#")), *map(len, cells)) for name, cells in texts.items() if any(cells)
    }  # fmt: skip
    for name in (*giving_way, columns[0]) if giving_way else ():
        excess = sum(shown.values()) + GAP * (len(shown) - 1) - width
        if name not in shown or excess <= 0:
            continue
        if shown[name] - excess >= LEAST or name == columns[0]:
            shown[name] = max(LEAST, shown[name] - excess)
        else:
            del shown[name]
    return shown


def drawn(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], giving_way: Sequence[str], width: int
) -> RenderableType:
    """The table for a terminal ``width`` letters wide."""
    from rich.table import Table
    from rich.text import Text

    def _styled(cell: Cell) -> Text:
        if isinstance(cell, list):
            return Text.assemble(*((text.replace("\n", " "), style) for text, style in cell))
        return Text(_text(cell), "" if isinstance(cell, str) else cell[1])

    shown = fitted(columns, rows, width, giving_way)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name, letters in shown.items():
        table.add_column(
            Text(name.lstrip("#")),
            justify="right" if name.startswith("#") else "left",
            no_wrap=bool(giving_way),
            width=letters if giving_way else None,
        )
    for row in rows:
        cells = [_styled(cell) for name, cell in zip(columns, row, strict=True) if name in shown]
        if giving_way and columns[0] in shown:
            cells[0].plain = _without_middle(cells[0].plain, shown[columns[0]])
        table.add_row(*cells)
    return table


def _without_middle(text: str, width: int) -> str:
    """A name that is too long, without its middle: names that begin alike differ at their ends."""
    kept = width - 1
    return text if len(text) <= width else f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"
