# ruff: noqa: INP001 - a tool, not a package
"""Draws ``docs/images/gain.svg``: how many jobs have ended how long after their submission, under two policies.

Run: ``steepest simulate --workload thesis:mixed-50 --cluster 4x8cpu --policy spread,steepest --seed 0-9 --pin --out NEW``,
then ``python tools/gain_picture.py NEW``. The same jobs give the same bytes.
"""

from __future__ import annotations

import csv
import statistics
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from steepest_lab.reproduce.pages import colours

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "gain.svg"

POLICIES = {"spread": ("fair sharing", colours.DEFAULT), "steepest": ("steepest", colours.CATEGORIES["PC"])}
"""Policies with their names and colours."""

LAST_MIN = 35
"""Where the axis of time ends."""


def completions_min(jobs: Path) -> dict[str, list[float]]:
    """Completion times by policy, rising."""
    found: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    with jobs.open() as lines:
        for row in csv.DictReader(lines):
            found[row["policy"]].append((float(row["end_s"]) - float(row["submit_s"])) / 60)
    return {policy: sorted(times) for policy, times in found.items()}


def drawn(found: dict[str, list[float]]) -> Figure:
    """The picture."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axis = figure.subplots()
    for policy, times in found.items():
        name, colour = POLICIES[policy]
        shares = [100 * number / len(times) for number in range(1, len(times) + 1)]
        label = f"{name}: median {statistics.median(times):.1f} min, mean {statistics.fmean(times):.1f} min"
        axis.step([0.0, *times], [0.0, *shares], where="post", color=colour, linewidth=2, label=label)
        axis.plot([statistics.median(times)], [50], "o", color=colour)
    axis.set(
        xlim=(0, LAST_MIN), ylim=(0, 101), xlabel="minutes since a job's submission", ylabel="jobs that have ended, %"
    )
    axis.grid(alpha=0.4)
    axis.legend(loc="lower right")
    return figure


def draw(results: Path) -> None:
    """Write the picture of what ``simulate --out`` has written."""
    with mpl.rc_context(colours.SETTINGS):
        drawn(completions_min(results / "jobs.csv")).savefig(PICTURE, metadata=colours.NO_METADATA)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
