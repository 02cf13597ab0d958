"""One picture of a pair of runs, as SVG: completion times, CPU use, growth efficiency, categories and places over time.

The same courses give the same bytes: nothing in the picture names its time or machine, and its texts stay texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from steepest_lab.reproduce.experiments.course import Course, Line, Spells
from steepest_lab.reproduce.pages import colours
from steepest_lab.reproduce.pages.svg import BESIDE, svg_of

MOST_NAMED = 20
"""More jobs or nodes than this go without a legend."""


def drawn(before: Course, after: Course, completions: Sequence[tuple[str, float, float]], title: str) -> str:
    """The picture.

    Args:
        before: The default run.
        after: The policy's.
        completions: Each job with its completion time in both, in seconds.
        title: Stands above it.
    """
    jobs = [job for job, _, _ in completions]
    with mpl.rc_context(colours.SETTINGS):
        figure = Figure(figsize=(10, 9 + 0.1 * len(jobs)), layout="constrained")
        axes = figure.subplot_mosaic(
            [["completion", "completion"], ["before", "after"], ["efficiency", "categories"], ["places", "places"]],
            height_ratios=[3, 3, 2 + 0.1 * len(jobs), 2 + 0.1 * len(jobs)],
        )
        figure.suptitle(title)
        _completions(axes["completion"], completions)
        last_s = max(*before.ends_s.values(), *after.ends_s.values())
        _use(axes["before"], before, "CPU use, default", last_s)
        _use(axes["after"], after, "CPU use, with the policy", last_s)
        _efficiency(axes["efficiency"], after, jobs)
        _categories(axes["categories"], after, jobs)
        _places(axes["places"], after, jobs)
        for name in ("before", "after", "efficiency", "categories", "places"):
            axes[name].set_xlabel("s")
            axes[name].set_xlim(0, last_s)
        return svg_of(figure)


def _completions(axis: Any, completions: Sequence[tuple[str, float, float]]) -> None:
    places = range(len(completions))
    axis.bar([at - 0.2 for at in places], [one[1] for one in completions], 0.4, color=colours.DEFAULT, label="default")
    axis.bar(
        [at + 0.2 for at in places], [one[2] for one in completions], 0.4, color=colours.POLICY, label="with the policy"
    )
    axis.set_xticks(list(places), [one[0].removeprefix("job-") for one in completions])
    axis.set_title("completion time of each job")
    axis.set_ylabel("s")
    axis.legend(**BESIDE)


def _use(axis: Any, course: Course, title: str, last_s: float) -> None:
    """Of the nodes, or, where there is one only, of the jobs on it."""
    lines = course.use if len(course.capacities_m) > 1 else course.job_use
    for name, line in lines.items():
        until_s = course.ends_s.get(name, last_s)
        shown = [point for point in line if point[0] <= until_s]
        axis.step(*_columns(shown), where="pre", linewidth=0.8, label=name)
    axis.set_title(title)
    axis.set_ylim(0, 1.05)
    axis.set_ylabel("share of a node")
    if len(lines) <= MOST_NAMED:
        axis.legend(fontsize=6, **BESIDE)


def _efficiency(axis: Any, course: Course, jobs: Sequence[str]) -> None:
    """A curve of each job, named at its end: there are fewer colours than jobs."""
    for job in jobs:
        if line := course.efficiency.get(job):
            (curve,) = axis.plot(*_columns(line), marker=".", markersize=2, linewidth=0.7)
            axis.annotate(
                job.removeprefix("job-"),
                line[-1],
                xytext=(2, 0),
                textcoords="offset points",
                fontsize=5,
                color=curve.get_color(),
                va="center",
            )
    axis.set_yscale("log")
    axis.set_title("growth efficiency: progress a second, for a whole node")


def _categories(axis: Any, course: Course, jobs: Sequence[str]) -> None:
    for place, job in enumerate(jobs):
        for began, length, name in _bars(course.categories.get(job, []), course.ends_s[job]):
            axis.broken_barh([(began, length)], (place - 0.4, 0.8), color=colours.CATEGORIES[name])
    axis.set_title(f"{'lists' if course.lists else 'categories'} of each job")
    _rows(axis, jobs)
    known = dict.fromkeys(name for spells in course.categories.values() for _, name in spells)
    handles = [
        axis.plot([], [], color=colours.CATEGORIES[name], linewidth=4, label=name)[0]
        for name in colours.CATEGORIES
        if name in known
    ]
    if handles:
        axis.legend(handles=handles, fontsize=6, **BESIDE)


def _places(axis: Any, course: Course, jobs: Sequence[str]) -> None:
    palette = mpl.colormaps[colours.NODES]
    shades = {name: palette(number % palette.N) for number, name in enumerate(course.capacities_m)}
    for place, job in enumerate(jobs):
        for began, length, name in _bars(course.places.get(job, []), course.ends_s[job]):
            axis.broken_barh([(began, length)], (place - 0.4, 0.8), color=shades[name])
    rows = {job: place for place, job in enumerate(jobs)}
    moves = [(move.at_s, rows[move.job]) for move in course.moves]
    axis.plot(*_columns(moves), "k|", markersize=6, markeredgewidth=1.5)
    axis.set_title(f"where each job runs: {len(moves)} migrations, each a black mark")
    _rows(axis, jobs)
    if len(shades) <= MOST_NAMED:
        handles = [axis.plot([], [], color=colour, linewidth=4, label=name)[0] for name, colour in shades.items()]
        axis.legend(handles=handles, fontsize=6, **BESIDE)


def _rows(axis: Any, jobs: Sequence[str]) -> None:
    axis.set_yticks(range(len(jobs)), [job.removeprefix("job-") for job in jobs], fontsize=6)
    axis.set_ylabel("job")
    axis.invert_yaxis()


def _bars(spells: Spells, end_s: float) -> list[tuple[float, float, str]]:
    """Beginning, length and name of each spell."""
    ends = [*(at_s for at_s, _ in spells[1:]), end_s]
    return [(at_s, max(0.0, until_s - at_s), name) for (at_s, name), until_s in zip(spells, ends, strict=False)]


def _columns(line: Line | Sequence[tuple[float, int]]) -> tuple[list[float], list[float]]:
    return [point[0] for point in line], [point[1] for point in line]
