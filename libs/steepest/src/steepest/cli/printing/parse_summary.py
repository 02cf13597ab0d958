"""The output of ``steepest parse`` for people: a table of metrics, and the lines that were passed over.

Owns the words and the sparkline. Holds a few numbers for each metric, however long the log is.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from steepest.cli.printing.output import console
from steepest.describe import count as lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from steepest.training_logs import LogReader, LossRecord

BARS = "▁▂▃▄▅▆▇█"
SPARKLINE_CHARS = 24
EXAMPLES_SHOWN = 8
"""Lines shown of those that look like a loss and were not taken."""

_EXAMPLE_CHARS = 100

ROLES = {
    "step": "blue",
    "epoch": "cyan",
    "total": "dim",
    "loss": "bold green",
    "eval": "magenta",
}
"""The colour of each role of a number."""


@dataclass
class LossCurve:
    """A metric's values, of which at most 48 are held, thinned out evenly as more come."""

    values: list[float] = field(default_factory=list)
    every: int = 1
    seen: int = 0

    def add(self, value: float) -> None:
        """Takes the next value."""
        if self.seen % self.every == 0:
            self.values.append(value)
        self.seen += 1
        if len(self.values) >= 2 * SPARKLINE_CHARS:
            self.values = self.values[::2]
            self.every *= 2

    def sparkline(self) -> str:
        """One character a value, low to high between its extremes; ``!`` where it is no number."""
        shown = self.values[:: 2 if len(self.values) > SPARKLINE_CHARS else 1]
        finite = [value for value in shown if math.isfinite(value)]
        low, high = min(finite, default=0.0), max(finite, default=0.0)
        scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
        return "".join(BARS[round((value - low) * scale)] if math.isfinite(value) else "!" for value in shown)


@dataclass
class Metric:
    """The cells of one metric of one split."""

    first: LossRecord
    last: LossRecord
    curve: LossCurve = field(default_factory=LossCurve)


def show(records: Iterable[LossRecord], reader: LogReader | None = None) -> None:
    """Reads all records and prints their summary.

    Args:
        records: may be endless; one at a time is held.
        reader: what reads them, for the lines that it passed over; asked when the records have ended.
    """
    metrics: dict[tuple[str, str], Metric] = {}
    formats: dict[str, int] = {}
    for record in records:
        formats[record.format] = formats.get(record.format, 0) + 1
        metric = metrics.setdefault((record.split, record.metric), Metric(record, record))
        metric.last = record
        metric.curve.add(record.value)
    out = console(highlight=False)
    total = sum(formats.values())
    out.print(f"format   {', '.join(formats) or 'none recognised'}")
    out.print(f"records  {total}")
    if metrics:
        out.print(_table(metrics))
    if reader is not None:
        _show_how(reader, out)
        _show_passed_over(reader, out)
        _show_doubts(reader, out, total)


def _table(metrics: dict[tuple[str, str], Metric]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("split", "metric", "records", "steps", "first", "last", "curve"):
        numeric = heading in ("records", "steps", "first", "last")
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=heading != "metric", overflow="fold")
    for (split, name), metric in sorted(metrics.items(), key=lambda item: (item[0][0] != "train", item[0][1])):
        first, last = metric.first, metric.last
        numbers = (str(metric.curve.seen), _steps(first, last), f"{first.value:.5g}", f"{last.value:.5g}")
        table.add_row(*(Text(cell) for cell in (split, name, *numbers, metric.curve.sparkline())))
    return table


def _steps(first: LossRecord, last: LossRecord) -> str:
    """From where to where its records go: steps, else epochs where lines have those."""
    if not (first.step_counted and last.step_counted):
        return f"{first.step}–{last.step}"
    return "counted" if first.epoch is None or last.epoch is None else f"epoch {first.epoch:g}–{last.epoch:g}"


def _show_how(reader: LogReader, out: Console) -> None:
    """The first line of each layout as it is read: each number in the colour of its role."""
    shown = [] if reader.explanation is None else reader.explanation.lines()
    if not shown:
        return
    legend = Text("\nas read: ")
    for role, style in ROLES.items():
        legend.append(role, style).append(" ")
    out.print(legend)
    for line, pieces in shown:
        text = Text(f"  line {line}: ")
        for piece, role in pieces:
            text.append(piece, ROLES.get(role, ""))
        out.print(text, soft_wrap=True)


def _show_doubts(reader: LogReader, out: Console, total: int) -> None:
    found = reader.explanation
    for doubt in [] if found is None else found.doubts():
        out.print(f"not sure  {doubt}", soft_wrap=True)
    if found is not None and found.doubts() and (pattern := found.suggestion()):
        out.print(f"          --pattern {shlex.quote(pattern)} would settle it", soft_wrap=True, markup=False)
    elif not total:
        out.print("name the metric with --metric, or say how a line states it with --pattern: see --help")


def _show_passed_over(reader: LogReader, out: Console) -> None:
    found = reader.explanation
    if reader.cut_lines:
        out.print(f"cut      {lines(reader.cut_lines, 'line')} longer than 1 MiB, read to there")
    if found is None or not found.reasons:
        return
    out.print(f"\nnot taken, though similar to a loss: {lines(sum(found.reasons.values()), 'line')}")
    for reason, count in sorted(found.reasons.items(), key=lambda item: (-item[1], item[0])):
        out.print(f"  {count:6}  {reason}", soft_wrap=True)
    for skipped in found.skipped[:EXAMPLES_SHOWN]:
        out.print(f"  line {skipped.line}: {skipped.text[:_EXAMPLE_CHARS]}  [{skipped.reason}]", soft_wrap=True)
