"""The colours of every picture here: those of the demo's live view, on white.

Growing jobs are green, watched ones yellow, converged ones blue, and what the policy does is violet, as the demo shows
decisions. Nodes and jobs have colours of their own.
"""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from cycler import cycler

DEFAULT, POLICY = "#8c959f", "#8250df"
"""The default run, and the policy's."""

OTHER_START = "#1b7c83"
"""The uneven start, where both are shown."""

BASELINES = (DEFAULT, "#1b9e77", "#d95f02", "#e7298a", "#66a61e")
"""Other policies in the same picture, in this order: none of them is violet."""

BAND = "#d8dee5"

_GROWING, _WATCHED, _CONVERGED = "#1a7f37", "#d4a72c", "#0969da"

CATEGORIES = {
    "PC": _GROWING,
    "WC": _WATCHED,
    "CC": _CONVERGED,
    "NL": _GROWING,
    "WL": _WATCHED,
    "CL": _CONVERGED,
}
"""SpeCon's categories and FlowCon's lists."""

NODES = "Set2"
"""A colour map of eight pale colours; lines have the same ones, darker."""

SETTINGS: Any = {
    "svg.hashsalt": "steepest",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 8,
    "axes.prop_cycle": cycler(color=mpl.color_sequences["Dark2"]),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}

NO_METADATA: dict[str, Any] = {"Creator": None, "Date": None, "Format": None, "Type": None}
"""The same figures give the same bytes: nothing in a picture names its time or machine."""
