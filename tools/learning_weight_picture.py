# ruff: noqa: INP001 - a tool, not a package
"""Draws ``docs/images/learning-weight.svg``: the mean completion time against T90, as the weight of learning grows.

Run: ``python -m benchmarks.learning_weight --full --out NEW``, then ``python tools/learning_weight_picture.py NEW``.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from steepest_lab.reproduce.pages import colours
from steepest_lab.sim.estimate import half_width

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "learning-weight.svg"

Measured = dict[str, dict[float, list[tuple[float, float]]]]
"""Changes of T90 and of the mean, by case and weight."""


def measured(results: Path) -> Measured:
    """What the benchmark has written."""
    found: Measured = defaultdict(lambda: defaultdict(list))
    for line in results.read_text().splitlines():
        row = json.loads(line)
        found[row["of"]["case"]][row["of"]["weight"]].append((row["mean_t90"], row["mean_jct"]))
    return found


def drawn(found: Measured) -> Figure:
    """The picture."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axis = figure.subplots()
    for (case, weights), colour in zip(
        sorted(found.items()), (colours.DEFAULT, colours.CATEGORIES["PC"]), strict=False
    ):
        ordered = sorted(weights)
        x, y = ([statistics.fmean(row[part] for row in weights[one]) for one in ordered] for part in (0, 1))
        x_off, y_off = ([half_width([row[part] for row in weights[one]]) or 0.0 for one in ordered] for part in (0, 1))
        axis.errorbar(x, y, xerr=x_off, yerr=y_off, color=colour, marker="o", linewidth=2, elinewidth=0.7, label=case)
        for weight, at, high in zip(ordered, x, y, strict=True):
            axis.annotate(f"λ = {weight:g}", (at, high), xytext=(5, 5), textcoords="offset points", fontsize=8)
    axis.set(xlabel="T90, change against fair sharing, %", ylabel="mean completion time, %")
    axis.grid(alpha=0.4)
    axis.legend(loc="upper right")
    return figure


def draw(results: Path) -> None:
    """Write the picture of what the benchmark has written."""
    with mpl.rc_context(colours.SETTINGS):
        drawn(measured(results)).savefig(PICTURE, metadata=colours.NO_METADATA)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
