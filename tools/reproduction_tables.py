# ruff: noqa: INP001 - a tool, not a package
"""Writes the tables of ``docs/reproduction.md`` from the reports that ``make reproduce`` leaves in ``out/reproduce``.

The text between ``<!-- NAME -->`` and ``<!-- end -->`` is replaced by the report in the folder of that name: verdicts and
tables. A name is a paper's, or ``PAPER-real`` for its runs with real trainings. A block without a report stays as it is.

Run: ``python tools/reproduction_tables.py [FOLDER]``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproduction.md"

LEFT_OUT = (
    "How to read a verdict",
    "The experiments",
    "Every load",
    "What had to be assumed",
    "Assumptions",
    "What was assumed",
    "The default runs",
    "Sensitivity",
    "The utilisation",
    "The computing",
    "Predicted run times",
    "Waiting",
)
"""Sections that the page has in its own words, or leaves to the report."""

_BLOCK = re.compile(r"<!-- ((?:specon|flowcon|pickyman|dragon)(?:-real)?) -->\n.*?<!-- end -->", re.DOTALL)
_BEGIN = re.compile(r"^(?:Verdicts:|Claimed )", re.MULTILINE)


def block(report: str) -> str:
    """What the page shows of a report: all from its verdicts on or, without such a line, all but its title.

    Its headings are those of subsections.
    """
    begin = _BEGIN.search(report)
    shown = report[begin.start() :] if begin is not None else report.partition("\n")[2]
    first, *others = re.split(r"^## (?=\S)", shown, flags=re.MULTILINE)
    kept = [one for one in others if not one.startswith(LEFT_OUT)]
    return "".join([first, *(f"### {one}" for one in kept)]).strip()


def filled(page: str, reports: Path) -> str:
    """The page with each block as its report in the folder has it."""

    def replaced(match: re.Match[str]) -> str:
        report = reports / match[1] / "report.md"
        if not report.exists():
            return match[0]
        return f"<!-- {match[1]} -->\n{block(report.read_text(encoding='utf-8'))}\n<!-- end -->"

    return _BLOCK.sub(replaced, page)


def main() -> None:
    """Replace every block."""
    reports = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "reproduce"
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), reports), encoding="utf-8")


if __name__ == "__main__":
    main()
