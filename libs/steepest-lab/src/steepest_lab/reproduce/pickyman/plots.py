"""Pictures of PickyMan's simulations: waiting by load and rule, and predicted against measured overheads."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from steepest_lab.reproduce.pages import colours
from steepest_lab.reproduce.pages.svg import BESIDE, svg_of
from steepest_lab.reproduce.pickyman.experiment import OURS, PreemptionRow
from steepest_lab.reproduce.pickyman.simulate import OverheadSeen

LEAST_S = 1.0
"""Shorter overheads are drawn here: the axes are logarithmic."""

_LINEAR_MIN = 1.0
"""Waiting below this is drawn to scale, and logarithmically above: it ranges from seconds to hours."""

_PALEST = 0.2
"""Where the colours of counts begin, so that a single one is not white."""


def waiting_by_load(rows: Sequence[PreemptionRow]) -> str:
    """Mean waiting under every rule, a plot for each trace and cluster, as SVG."""
    traces = list(dict.fromkeys(row.trace for row in rows))
    clusters = list(dict.fromkeys(row.gpus for row in rows))
    with mpl.rc_context(colours.SETTINGS):
        figure = Figure(figsize=(10, 3 * len(traces)), layout="constrained")
        axes: Any = figure.subplots(len(traces), len(clusters), squeeze=False)
        for line, trace in zip(axes, traces, strict=True):
            for axis, gpus in zip(line, clusters, strict=True):
                _waiting(axis, [row for row in rows if (row.trace, row.gpus) == (trace, gpus)])
                axis.set_title(f"{trace}, {gpus} GPUs")
        axes[0][-1].legend(**BESIDE)
        return svg_of(figure)


def _waiting(axis: Any, rows: Sequence[PreemptionRow]) -> None:
    for number, name in enumerate(dict.fromkeys(row.baseline for row in rows)):
        of = [row for row in rows if row.baseline == name]
        waited = [row.baseline_wait_s / 60 for row in of]
        colour = colours.BASELINES[number % len(colours.BASELINES)]
        axis.plot([row.load for row in of], waited, color=colour, marker="o", markersize=3, linewidth=1, label=name)
    ours = {row.load: row.wait_s / 60 for row in rows}
    axis.plot(list(ours), list(ours.values()), color=colours.POLICY, marker="o", markersize=4, linewidth=2, label=OURS)
    axis.set_yscale("symlog", linthresh=_LINEAR_MIN)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("load")
    axis.set_ylabel("mean waiting, min")


def overheads(found: Sequence[OverheadSeen], error: float) -> str:
    """Suspensions and resumptions, predicted and measured, with a band of relative errors, as SVG; empty without any."""
    by_kind = {kind: [one for one in found if one.kind == kind] for kind in dict.fromkeys(one.kind for one in found)}
    if not by_kind:
        return ""
    with mpl.rc_context(colours.SETTINGS):
        figure = Figure(figsize=(5 * len(by_kind), 4.5), layout="constrained")
        axes: Any = figure.subplots(1, len(by_kind), squeeze=False)
        for axis, (kind, some) in zip(axes[0], by_kind.items(), strict=True):
            predicted, took = ([max(value, LEAST_S) for value in side] for side in zip(*map(_pair, some), strict=True))
            norm = LogNorm(vmin=_PALEST)
            axis.hexbin(predicted, took, gridsize=40, xscale="log", yscale="log", mincnt=1, norm=norm, cmap="Purples")
            on_the_line(axis, min(*predicted, *took), max(*predicted, *took), error)
            errors = [abs(one.predicted_s - one.took_s) / one.took_s for one in some if one.took_s]
            mean = f", mean error {100 * statistics.fmean(errors):.1f} %" if errors else ""
            axis.set_title(f"{len(some):,} {kind}s{mean}")
        axes[0][-1].legend(**BESIDE)
        return svg_of(figure)


def _pair(one: OverheadSeen) -> tuple[float, float]:
    return one.predicted_s, one.took_s


def on_the_line(axis: Any, low: float, high: float, error: float) -> None:
    """Names the axes, and draws the diagonal of exact predictions with a band of relative errors up to ``error``."""
    ends = [low, high]
    least, most = ([one / (1 + sign * error) for one in ends] for sign in (1, -1))
    label = f"predicted with an error of at most {100 * error:g} %"
    axis.fill_between(ends, least, most, color=colours.BAND, linewidth=0, zorder=0, label=label)
    axis.plot(ends, ends, color="black", linewidth=0.6, zorder=1)
    axis.set_xlabel("predicted, s")
    axis.set_ylabel("measured, s")
