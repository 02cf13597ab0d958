"""Renders reports from the templates in this package. An HTML page contains its pictures and loads nothing."""

from __future__ import annotations

from collections.abc import Sequence

import jinja2
import msgspec

Cell = tuple[str, str]
"""A text of a table, and the verdict that it shows: ``held``, ``missed`` or ``open``; empty: none."""


class PageSection(msgspec.Struct, frozen=True, kw_only=True):
    """A section of a page.

    Attributes:
        heading: Empty: it has none.
        picture: As SVG; empty: it has none.
        columns: Of its table.
        rows: Of its table; empty: it has none.
    """

    heading: str = ""
    picture: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()


def page_of(title: str, said: Sequence[str], sections: Sequence[PageSection], assumptions: Sequence[str]) -> str:
    """An HTML page: a paragraph for each text of ``said``, then the sections, then the assumptions."""
    return rendered("sections.html.j2", title=title, said=said, sections=sections, assumptions=assumptions)


def rendered(template: str, **values: object) -> str:
    """A template with values for all of its names.

    Raises:
        jinja2.UndefinedError: It has another name.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("steepest_lab.sim.pages"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values)
