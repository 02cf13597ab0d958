"""Pictures as SVG inside a page: the same figures give the same bytes, and texts stay texts."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure

from steepest_lab.reproduce.pages import colours

BESIDE: Any = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
"""Legends are next to the explained marks, where they cover nothing."""


def svg_of(figure: Figure) -> str:
    """The picture; to be called under the settings of :mod:`steepest_lab.reproduce.pages.colours`."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=colours.NO_METADATA)
    svg = written.getvalue()
    return svg[svg.index("<svg") :]
