"""A forest plot: every published effect with its band, and our confidence intervals.

Each effect is divided by the published one, so that effects of all units have one scale: 1 as published, 0 none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from steepest_lab.reproduce.experiments.placement import Start
from steepest_lab.reproduce.experiments.run import ExperimentFigure
from steepest_lab.reproduce.pages import colours
from steepest_lab.reproduce.pages.svg import svg_of
from steepest_lab.reproduce.verdict import BAND, Unit

LEAST, MOST = -1.5, 4.0
"""Limits of the axis; an effect beyond them has an arrow at the edge."""

MARKS = {
    Start.ONE_NODE: (0.0, colours.POLICY),
    Start.EVEN: (-0.17, colours.POLICY),
    Start.UNEVEN: (0.17, colours.OTHER_START),
}
"""Offset of each start from the middle of its line, and its colour."""


def forest(rows: Sequence[ExperimentFigure]) -> str:
    """The plot as SVG; empty where nothing was judged."""
    judged = [row for row in rows if row.verdict is not None]
    lines = list(dict.fromkeys(_label(row) for row in judged))
    if not lines:
        return ""
    with mpl.rc_context(colours.SETTINGS):
        figure = Figure(figsize=(10, 0.9 + 0.22 * len(lines)), layout="constrained")
        axis: Any = figure.add_subplot()
        for start in dict.fromkeys(row.start for row in judged):
            _draw(axis, [row for row in judged if row.start is start], lines, start)
        axis.axvspan(1 - BAND, 1 + BAND, color=colours.BAND, label="published, and its band", zorder=0, linewidth=0)
        axis.axvline(1, color="black", linewidth=1, zorder=1)
        axis.axvline(0, color="black", linewidth=0.6, linestyle=":", zorder=1)
        axis.set_xlim(LEAST, MOST)
        axis.set_ylim(len(lines) - 0.4, -0.6)
        axis.set_yticks(range(len(lines)), lines)
        axis.set_xlabel("effect ÷ published effect (0: none; 1: as published); lines are 95 % intervals")
        axis.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        return svg_of(figure)


def _draw(axis: Any, rows: Sequence[ExperimentFigure], lines: Sequence[str], start: Start) -> None:
    beside, colour = MARKS[start]
    for row in rows:
        at = lines.index(_label(row)) + beside
        low, high = sorted((_ratio(row, row.low), _ratio(row, row.high)))
        axis.plot([max(low, LEAST), min(high, MOST)], [at, at], color=colour, linewidth=1.2)
        ours = _ratio(row, row.ours)
        if LEAST <= ours <= MOST:
            axis.plot(ours, at, "o", color=colour, markersize=3)
        else:
            axis.plot(
                *((MOST, at, ">") if ours > MOST else (LEAST, at, "<")), color=colour, markersize=4, clip_on=False
            )
    axis.plot([], [], "o-", color=colour, markersize=3, linewidth=1.2, label=start.value)


def _ratio(row: ExperimentFigure, value: float) -> float:
    """A figure of ours as a multiple of the published effect, which is never 0."""
    nothing = row.jobs / 2 if row.unit is Unit.JOBS else 0.0
    return (value - nothing) / ((row.published or 0.0) - nothing)


def _label(row: ExperimentFigure) -> str:
    """The line's words; one setting that was published twice has two lines."""
    name = f"{row.experiment} ({row.setting})" if row.setting else row.experiment
    if row.unit is Unit.JOBS:
        return f"{name}: {row.metric}, {row.published:g} of {row.jobs}"
    published = f"{row.published:+g} {row.unit}".replace("-", "−")
    return f"{name}: {row.metric}, {published}"
