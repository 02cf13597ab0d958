"""Writes a reproduction: a report for people, as Markdown and HTML, and its rows for programs.

The HTML holds its pictures and needs nothing from anywhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from steepest_lab.reproduce.experiments.forest import forest
from steepest_lab.reproduce.experiments.placement import Start
from steepest_lab.reproduce.experiments.run import ExperimentFigure, Part, Reproduction
from steepest_lab.reproduce.pages.rendering import csv_of_structs, json_of, rendered, write_files
from steepest_lab.reproduce.verdict import Agreement, Unit
from steepest_lab.sim.losses import thesis
from steepest_lab.sim.system.simulate import ASSUMPTIONS

FILES = ("report.md", "report.html", "results.csv", "results.json")

ONE_RUN = "A published figure is one run; ours is a mean over repetitions, and ± the deviation of a single one."

CHART = "†"
"""Behind a figure that is read off the authors' chart."""


class ReportRow(msgspec.Struct, frozen=True):
    """A row of a table: one figure from every start."""

    experiment: str
    metric: str
    published: str
    rows: Sequence[ExperimentFigure]


class Table(msgspec.Struct, frozen=True):
    """Rows of one part that have the same starts."""

    part: Part
    starts: Sequence[Start]
    lines: Sequence[ReportRow]


def write(reproduction: Reproduction, folder: Path) -> None:
    """Write all files into a folder, which is made; files of the same names are replaced.

    Raises:
        OSError: They cannot be written.
    """
    rows = reproduction.rows
    pages = [_rendered(f"{name}.j2", reproduction) for name in FILES[:2]]
    tables = (csv_of_structs(ExperimentFigure, rows), json_of(rows))
    write_files(folder, dict(zip(FILES, (*pages, *tables), strict=True)))


def assumptions(reproduction: Reproduction) -> Sequence[str]:
    """Everything that had to be assumed: of this paper, and of its models and the simulator, where it is simulated."""
    simulated = () if reproduction.paper.real else (*thesis.ASSUMPTIONS, *ASSUMPTIONS)
    return (*reproduction.paper.assumptions, *simulated, ONE_RUN)


def tables(rows: Sequence[ExperimentFigure], part: Part) -> Sequence[Table]:
    """The tables of a part, one for each way of starting, in the order of their first rows."""
    lines: list[list[ExperimentFigure]] = []
    for row in rows:
        if row.part is not part:
            continue
        if lines and _same_figure(lines[-1][0], row) and row.start not in [one.start for one in lines[-1]]:
            lines[-1].append(row)
        else:
            lines.append([row])
    found: dict[tuple[Start, ...], list[ReportRow]] = {}
    for line in lines:
        found.setdefault(tuple(row.start for row in line), []).append(_line(line))
    return [Table(part, starts, those) for starts, those in found.items()]


def tally(rows: Sequence[ExperimentFigure]) -> str:
    """The verdicts in a line: ``even start: 20 within, 3 worse; uneven start: …``."""
    texts = []
    for start in Start:
        counts = Counter(row.verdict for row in rows if row.start is start)
        said = ", ".join(f"{counts[one]} {one}" for one in Agreement if counts[one])
        texts += [f"{start}: {said}"] if said else []
    return "; ".join(texts)


def figure(value: float | None, unit: Unit, part: Part = Part.EFFECT) -> str:
    """A figure with its unit, as in ``−14.7 %`` and, of a default run, ``1,260.0 s``; a dash for none."""
    if value is None:
        return "–"
    value = round(value, 1) + 0.0  # no −0.0
    sign = "" if part in {Part.DEFAULT, Part.OVERHEAD} or not value else "+"
    if unit is Unit.JOBS:
        return f"{value:.1f}"
    return f"{value:{sign},.1f} {unit}".replace("-", "−")


def interval(row: ExperimentFigure) -> str:
    """The confidence interval: ``[−16.9, −12.1]``; a dash after a single repetition."""
    if not math.isfinite(row.low):
        return "–"
    low, high = (round(bound, 1) + 0.0 for bound in (row.low, row.high))  # no −0.0
    return f"[{low:,.1f}, {high:,.1f}]".replace("-", "−")


def _same_figure(one: ExperimentFigure, other: ExperimentFigure) -> bool:
    return (one.experiment, one.setting, one.metric, one.published) == (
        other.experiment,
        other.setting,
        other.metric,
        other.published,
    )


def _line(rows: Sequence[ExperimentFigure]) -> ReportRow:
    row = rows[0]
    name = f"{row.experiment} ({row.setting})" if row.setting else row.experiment
    published = figure(row.published, row.unit, row.part)
    if row.unit is Unit.JOBS and row.published is not None:
        published = f"{row.published:g} of {row.jobs}"
    return ReportRow(name, row.metric, f"{published} {CHART}" if row.chart else published, rows)


def _rendered(template: str, reproduction: Reproduction) -> str:
    rows = reproduction.rows
    return rendered(
        template,
        title=f"{reproduction.paper.title}, reproduced",
        paper=reproduction.paper,
        repetitions=reproduction.repetitions,
        effects=tables(rows, Part.EFFECT),
        defaults=tables(rows, Part.DEFAULT),
        sensitivity=tables(rows, Part.SENSITIVITY),
        overhead=tables(rows, Part.OVERHEAD),
        charted=any(row.chart for row in rows),
        forest=forest(rows),
        pictures=reproduction.pictures,
        tally=tally(rows),
        assumptions=assumptions(reproduction),
        figure=figure,
        interval=interval,
    )
