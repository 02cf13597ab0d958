"""Pictures of real trainings under preemption: run times and overheads, predicted and measured, and waiting by policy."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from steepest_lab.reproduce.pages import colours
from steepest_lab.reproduce.pages.svg import BESIDE, svg_of
from steepest_lab.reproduce.pickyman.outcomes import MeasuredOverhead, PredictedRun, WaitingOfRun
from steepest_lab.reproduce.pickyman.plots import on_the_line

Points = Sequence[tuple[float, float]]
"""Predicted and measured, in seconds."""


def run_times(found: Sequence[PredictedRun], error: float) -> str:
    """Run times by the method of prediction, with a band of relative errors, as SVG; empty where none was predicted."""
    known = [one for one in found if one.predicted_ms is not None]
    groups = {
        method: [_seconds(one) for one in known if one.method == method]
        for method in dict.fromkeys(one.method for one in known)
    }
    return _drawn({"run times": groups} if groups else {}, error)


def overheads(found: Sequence[MeasuredOverhead], error: float) -> str:
    """Plots predicted against measured suspensions and resumptions, by the preempting policy."""
    known = [one for one in found if one.predicted_ms is not None]
    panels: dict[str, dict[str, Points]] = {}
    for kind, source in dict.fromkeys((one.kind, one.source) for one in known):
        some = [_seconds(one) for one in known if (one.kind, one.source) == (kind, source)]
        panels.setdefault(f"{kind}s", {})[source] = some
    return _drawn(panels, error)


def waiting(found: Sequence[WaitingOfRun]) -> str:
    """Mean waiting and makespan under each policy, with a line for the same jobs, as SVG; empty where nothing was run."""
    if not found:
        return ""
    with mpl.rc_context(colours.SETTINGS):
        figure = Figure(figsize=(10, 3.5), layout="constrained")
        axes: Any = figure.subplots(1, 2)
        _by_policy(axes[0], found, lambda run: run.mean_waiting_s, "mean waiting, s")
        _by_policy(axes[1], found, lambda run: run.makespan_s, "makespan, s")
        return svg_of(figure)


def _seconds(one: PredictedRun | MeasuredOverhead) -> tuple[float, float]:
    return (one.predicted_ms or 0) / 1000, one.measured_ms / 1000


def _drawn(panels: Mapping[str, Mapping[str, Points]], error: float) -> str:
    if not panels:
        return ""
    with mpl.rc_context(colours.SETTINGS):
        figure = Figure(figsize=(5 * max(len(panels), 2), 4.5), layout="constrained")
        axes: Any = figure.subplots(1, len(panels), squeeze=False)
        names = dict.fromkeys(name for groups in panels.values() for name in groups)
        for axis, (title, groups) in zip(axes[0], panels.items(), strict=True):
            for number, name in enumerate(names):  # each has its colour in all panels, and the legend is for all
                points = groups.get(name, ())
                sides = [[pair[side] for pair in points] for side in range(2)]
                axis.plot(*sides, color=f"C{number}", marker="o", markersize=3, linestyle="none", label=name)
            on_the_line(axis, 0.0, max(value for points in groups.values() for pair in points for value in pair), error)
            axis.set_title(f"{sum(map(len, groups.values()))} {title}")
        axes[0][-1].legend(**BESIDE)
        return svg_of(figure)


def _by_policy(axis: Any, found: Sequence[WaitingOfRun], figure: Callable[[WaitingOfRun], float], label: str) -> None:
    places = {name: place for place, name in enumerate(dict.fromkeys(run.policy for run in found))}
    for number in dict.fromkeys(run.repetition for run in found):
        pairs = sorted((places[run.policy], figure(run)) for run in found if run.repetition == number)
        axis.plot(*zip(*pairs, strict=True), color=colours.DEFAULT, marker="o", markersize=3, linewidth=0.8, zorder=2)
    means = [statistics.fmean(figure(run) for run in found if run.policy == name) for name in places]
    shades = [colours.POLICY if name == "pickyman" else colours.BAND for name in places]
    axis.bar(list(places.values()), means, 0.6, color=shades, zorder=1)
    axis.set_xticks(list(places.values()), list(places))
    axis.set_ylabel(label)
