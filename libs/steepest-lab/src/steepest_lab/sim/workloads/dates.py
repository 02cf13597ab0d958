"""Convert dates in traces to seconds."""

from __future__ import annotations

from datetime import UTC, datetime

from steepest_lab.sim.table import LONGEST_S, Row


def seconds_since_1970(row: Row, column: str) -> float:
    """A date without a time zone, read as UTC: only distances between dates matter.

    Raises:
        InputError: It is not a date, or not between 1970 and 2286.
    """
    shown = row.text(column)
    try:
        found = datetime.fromisoformat(shown).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        raise row.wrong(column, f"{shown!r} is not a time like 2017-10-09 07:01:55") from None
    if not 0 <= found <= LONGEST_S:
        raise row.wrong(column, f"{shown} is not between 1970 and 2286")
    return found
