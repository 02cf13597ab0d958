"""Rows of an external table: cells are parsed with their expected type, and errors name line and column.

It splits lines into cells and parses numbers. It must never know a format.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from steepest.errors import InputError

LONGEST_S = 1e10
"""The longest time, some 300 years: 10⁵ such jobs in turn still fit 63 bits of milliseconds."""

MOST_GPUS = 10**6
MOST_ITERATIONS = 10**15
"""More would not be exact as a float."""

MOST_CPU_M = 10**9
MOST_MEMORY_MIB = 10**12

_SHOWN = 60
_DIGITS = 40
"""Numbers of a trace have fewer characters; parsing thousands of digits would take long."""


class Row:
    """One row: its cells by column, and its line number."""

    __slots__ = ("_cells", "_source", "line")

    def __init__(self, cells: Mapping[str, str], *, source: object, line: int) -> None:
        self._cells = cells
        self._source = source
        self.line = line

    def wrong(self, column: str, why: str) -> InputError:
        """Create the error that describes an invalid cell; the caller raises it."""
        return InputError(
            f"{self._source}, line {self.line}, column {column}: {why}", hint="Correct the line, or delete it."
        )

    def text(self, column: str, *, most: int = 200) -> str:
        """The text of a cell that must not be empty.

        Raises:
            InputError: It is empty, or longer than ``most`` letters.
        """
        found = self._cells[column].strip()
        if not found:
            raise self.wrong(column, "is empty")
        if len(found) > most:
            raise self.wrong(column, f"{_shown(found)} has {len(found)} letters; {most} at most are read")
        return found

    def optional(self, column: str) -> str:
        """A cell that may be empty; also where the table has no such column."""
        return self.text(column) if self._cells.get(column, "").strip() else ""

    def whole(self, column: str, *, least: int, most: int) -> int:
        """A whole number between ``least`` and ``most``, inclusive.

        Raises:
            InputError: It is not one; ``12.0`` is not one either.
        """
        found = self._cells[column].strip()
        digits = found.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS):
            raise self.wrong(column, f"{_shown(found)} is not a whole number")
        number = int(found)
        self._bounded(column, number, least, most)
        return number

    def number(self, column: str, *, least: float, most: float) -> float:
        """A finite number between ``least`` and ``most``, inclusive.

        Raises:
            InputError: It is not one.
        """
        found = self._cells[column].strip()
        try:
            number = math.nan if "_" in found or len(found) > _DIGITS else float(found)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise self.wrong(column, f"{_shown(found)} is not a number")
        self._bounded(column, number, least, most)
        return number

    def _bounded(self, column: str, number: float, least: float, most: float) -> None:
        if number < least:
            raise self.wrong(column, f"{number} is below {least}")
        if number > most:
            raise self.wrong(column, f"{_shown(str(number))} is above {most:g}, the largest that is read")


def csv_rows(text: str, columns: Sequence[str], source: object, *, delimiter: str = ",") -> Iterator[Row]:
    """The rows below a header, which names the columns, in any order; blank lines are skipped.

    Cells may be quoted if commas separate them; with another delimiter, quotes are ordinary characters.

    Raises:
        InputError: A column is missing from the header or occurs twice, or a row has more or fewer cells than the header.
    """
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    lines = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter, quoting=quoting)
    header: list[str] | None = None
    try:
        for cells in lines:
            if len(cells) <= 1 and not "".join(cells).strip():
                continue
            if header is None:
                header = header_of(cells)
                _check_header(header, columns, f"{source}, line {lines.line_num}")
                continue
            yield Row(_matched(header, cells, source, lines.line_num), source=source, line=lines.line_num)
    except csv.Error as error:
        raise InputError(
            f"{source}, line {lines.line_num}: is not a row of a CSV table: {error}",
            hint="Correct the line, or delete it.",
        ) from error


def _check_header(header: Sequence[str], columns: Sequence[str], where: str) -> None:
    for name in header:
        if header.count(name) > 1:
            raise InputError(f"{where}, column {name}: stands in the header twice", hint="Name each column once.")
    for name in columns:
        if name not in header:
            raise InputError(f"{where}, column {name}: is not in the header", hint="Give the table its columns.")


def tab_rows(text: str, columns: Sequence[str], source: object) -> Iterator[Row]:
    """The rows of a table without a header, whose cells are separated by tabs; blank lines are skipped.

    Raises:
        InputError: A row has more or fewer cells than there are columns.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            cells = line.removesuffix("\r").split("\t")
            yield Row(_matched(columns, cells, source, number), source=source, line=number)


def header_of(cells: Sequence[str]) -> list[str]:
    """The columns' names, without surrounding blanks."""
    return [name.strip() for name in cells]


def _matched(columns: Sequence[str], cells: Sequence[str], source: object, line: int) -> dict[str, str]:
    if len(cells) != len(columns):
        column = columns[len(cells)] if len(cells) < len(columns) else f"{len(columns) + 1}"
        raise InputError(
            f"{source}, line {line}, column {column}: the line has {len(cells)} cells where {len(columns)} must stand",
            hint="The file may be truncated: get it again, or delete the line.",
        )
    return dict(zip(columns, cells, strict=True))


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
