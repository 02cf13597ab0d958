"""The one writer of reports: a report as Markdown and as a page, and rows as files for programs.

An HTML page contains its pictures and loads nothing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import jinja2
import msgspec

from steepest_lab.reproduce.verdict import Agreement

Cell = tuple[str, str]
"""A text of a table, and the verdict that it shows; empty: none."""

MARKS: Mapping[str, str] = {Agreement.INCONCLUSIVE: "*", Agreement.WORSE: "**"}
"""Around a text in Markdown, by its verdict."""

NUMERIC = "#"
"""Begins the name of a column that is aligned to the right, as in tables of the command line."""


class PageSection(msgspec.Struct, frozen=True, kw_only=True):
    """A section of a report: its heading, paragraphs, points, picture and table, of which any may be empty.

    Attributes:
        level: Of its heading.
        picture: As SVG; on the page alone.
        columns: Of its table; those that begin with ``#`` are numeric.
        rows: Of its table; without rows there is none.
    """

    heading: str = ""
    level: int = 2
    said: Sequence[str] = ()
    points: Sequence[str] = ()
    picture: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()


class PaperReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a report says; ``said``: the paragraphs in front of its sections."""

    title: str
    said: Sequence[str] = ()
    sections: Sequence[PageSection] = ()
    assumptions: Sequence[str] = ()

    @property
    def markdown(self) -> str:
        """The report for a terminal or another page."""
        parts = [f"# {self.title}", *self.said]
        for section in self.sections:
            if section.heading and (section.said or section.points or section.rows):
                parts.append(f"{'#' * section.level} {section.heading}")
            parts += [*section.said, "\n".join(f"* {one}" for one in section.points)]
            parts += ["\n".join(_table(section))] if section.rows else []
        if self.assumptions:
            parts += ["## What had to be assumed", "\n".join(f"- {one}" for one in self.assumptions)]
        return "\n\n".join(part for part in parts if part) + "\n"

    @property
    def html(self) -> str:
        """The report as a page, with its pictures."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return rendered("sections.html.j2", numeric=NUMERIC, **values)


def plain(rows: Iterable[Sequence[str]]) -> list[list[Cell]]:
    """Rows of texts without verdicts."""
    return [[(text, "") for text in row] for row in rows]


def _table(section: PageSection) -> Iterator[str]:
    yield f"| {' | '.join(name.removeprefix(NUMERIC) for name in section.columns)} |"
    yield f"|{'|'.join('---:' if name.startswith(NUMERIC) else '---' for name in section.columns)}|"
    for row in section.rows:
        yield f"| {' | '.join(MARKS.get(verdict, '').join(('', text, '')) for text, verdict in row)} |"


def rendered(template: str, **values: object) -> str:
    """A template with values for all of its names.

    Raises:
        jinja2.UndefinedError: It has another name.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("steepest_lab.reproduce.pages"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values)


def json_of(rows: object) -> bytes:
    """Rows as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(rows)) + b"\n"


def csv_of(names: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV under their names."""
    file = io.StringIO(newline="")
    table = csv.writer(file, lineterminator="\n")
    table.writerow(names)
    table.writerows(rows)
    return file.getvalue()


def csv_of_structs(kind: type[msgspec.Struct], rows: Iterable[msgspec.Struct], *more: str) -> str:
    """Structs as CSV: a column a field, and one for each of ``more``, their properties."""
    names = (*kind.__struct_fields__, *more)
    return csv_of(names, ([getattr(row, name) for name in names] for row in rows))


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files into a folder, which is made; those of the same names are replaced, others stay.

    Raises:
        OSError: They cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
