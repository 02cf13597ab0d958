# ruff: noqa: INP001 - a tool, not a package
"""Writes the tables of ``docs/reproduction.md`` from the reports that ``make reproduce`` leaves in ``out/reproduce``.

What stands between ``<!-- PAPER -->`` and ``<!-- end -->`` is replaced by the report of that paper: its verdicts, tables and
assumptions. A paper without a report there is left as it is.

Run: ``python tools/reproduction_tables.py [FOLDER]``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproduction.md"

LEFT_OUT = ("How to read a verdict", "The experiments", "Every load")
"""Sections of a report that the page has in its own words."""

_BLOCK = re.compile(r"<!-- (specon|flowcon|pickyman|dragon) -->\n.*?<!-- end -->", re.DOTALL)


def block(report: str) -> str:
    """What the page shows of a report: its headings are those of subsections."""
    verdicts = report[report.index("Verdicts:" if "Verdicts:" in report else "Claimed ") :]
    first, *others = re.split(r"^## (?=\S)", verdicts, flags=re.MULTILINE)
    kept = [one for one in others if not one.startswith(LEFT_OUT)]
    return "".join([first, *(f"### {one}" for one in kept)]).strip()


def main() -> None:
    """Replace every block."""
    reports = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "reproduce"

    def replaced(match: re.Match[str]) -> str:
        report = reports / match[1] / "report.md"
        if not report.exists():
            return match[0]
        return f"<!-- {match[1]} -->\n{block(report.read_text(encoding='utf-8'))}\n<!-- end -->"

    PAGE.write_text(_BLOCK.sub(replaced, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
