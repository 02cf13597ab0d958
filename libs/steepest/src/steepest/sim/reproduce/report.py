"""What a reproduction leaves behind: a report for people, as Markdown and HTML, and its rows for programs.

The HTML holds its pictures and needs nothing from anywhere.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import jinja2
import msgspec

from steepest.sim.losses import thesis
from steepest.sim.reproduce.run import Reproduction, Row
from steepest.sim.reproduce.verdict import Unit, Verdict
from steepest.sim.system.simulate import ASSUMPTIONS

FILES = ("report.md", "report.html", "results.csv", "results.json")

ONE_RUN = "A published figure is one run; ours is a mean over repetitions, and ± the deviation of a single one."


def write(reproduction: Reproduction, folder: Path) -> None:
    """Write all files into a folder, which is made; files of the same names are replaced.

    Raises:
        OSError: They cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").write_text(_rendered("report.md.j2", reproduction), encoding="utf-8")
    (folder / "report.html").write_text(_rendered("report.html.j2", reproduction), encoding="utf-8")
    (folder / "results.json").write_bytes(results_json(reproduction.rows))
    with (folder / "results.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row.__struct_fields__)
        writer.writerows(msgspec.structs.astuple(row) for row in reproduction.rows)


def results_json(rows: Sequence[Row]) -> bytes:
    """The rows as a JSON list."""
    return msgspec.json.format(msgspec.json.encode(rows)) + b"\n"


def assumptions(reproduction: Reproduction) -> Sequence[str]:
    """Everything that had to be assumed: of this paper, and of its models and the simulator, where it is simulated."""
    simulated = () if reproduction.paper.real else (*thesis.ASSUMPTIONS, *ASSUMPTIONS)
    return (*reproduction.paper.assumptions, *simulated, ONE_RUN)


def tally(rows: Sequence[Row]) -> str:
    """The verdicts in a line: ``20 within, 8 better, 3 worse``."""
    counts = Counter(row.verdict for row in rows)
    return ", ".join(f"{counts[one]} {one}" for one in Verdict if counts[one])


def figure(value: float | None, unit: Unit) -> str:
    """A figure with its unit, as in ``−14.7 %`` and ``1,260.0 s``; a dash for none."""
    if value is None:
        return "–"
    sign = "+" if unit is Unit.PERCENT else ""
    number = f"{value:{sign},.1f}".replace("-", "−")
    return number if unit is Unit.JOBS else f"{number} {unit}"


def interval(row: Row) -> str:
    """The confidence interval: ``[−16.9, −12.1]``."""
    return f"[{row.low:,.1f}, {row.high:,.1f}]".replace("-", "−")


def _rendered(template: str, reproduction: Reproduction) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("steepest.sim.reproduce"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(
        paper=reproduction.paper,
        repetitions=reproduction.repetitions,
        rows=reproduction.rows,
        pictures=reproduction.pictures,
        tally=tally(reproduction.rows),
        assumptions=assumptions(reproduction),
        figure=figure,
        interval=interval,
    )
