"""Results of runs with real gangs: each arm against the one that scales nothing, and DRAGON without a part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from steepest_lab.demo.gangs.report import locality
from steepest_lab.reproduce.dragon.gang_runs import PARTS, GangRun, StepCost
from steepest_lab.reproduce.pages.rendering import Cell, PageSection, PaperReport, json_of, plain, write_files
from steepest_lab.reproduce.verdict import fall
from steepest_lab.sim.estimate import estimate

FILES = ("report.md", "report.html", "results.json")

CLAIMED = "65 % less completion time and 20 to 30 points more utilisation than under the default Kubernetes scheduler"
"""The claims of the paper's abstract."""

COLUMNS: Mapping[str, str] = {
    "completion_s": "mean completion, s",
    "waited_s": "mean wait, s",
    "makespan_s": "makespan, s",
    "utilisation": "utilisation, %",
    "spanning": "times spread over both nodes",
    "scale_ups": "scaled up",
    "scale_downs": "scaled down",
    "steps_lost": "steps lost",
}
"""The figures of a run, and what the report calls them."""

CHANGES = ("completion_s", "waited_s", "makespan_s")
"""Figures whose changes are given."""


class GangFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of an arm: its mean, and the 95 % confidence interval (None: a single run)."""

    arm: str
    metric: str
    mean: float
    low: float | None
    high: float | None


class GangChange(msgspec.Struct, frozen=True, kw_only=True):
    """The mean change of a figure under an arm compared with another one, with the same seeds, in percent.

    Attributes:
        low: Of the 95 % confidence interval, as ``high``; None: of a single pair.
    """

    arm: str
    beside: str
    metric: str
    mean: float
    low: float | None
    high: float | None


class GangResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results of all runs.

    Attributes:
        link_mbit: The rate of the nodes' links; None: they had none.
        locality: What the runs say of locality.
        changes: Of the arms that were run.
    """

    repetitions: int
    jobs: int
    link_mbit: int | None
    locality: str
    step: StepCost
    figures: Sequence[GangFigure]
    changes: Sequence[GangChange]


def results(
    found: Mapping[str, Sequence[GangRun]], step: StepCost, link_mbit: int | None, why_no_links: str, jobs: int
) -> GangResults:
    """The results of all runs."""
    return GangResults(
        repetitions=len(next(iter(found.values()))),
        jobs=jobs,
        link_mbit=link_mbit,
        locality=locality(link_mbit, why_no_links),
        step=step,
        figures=list(_figures(found)),
        changes=list(_changes(found)),
    )


def _figures(found: Mapping[str, Sequence[GangRun]]) -> Iterator[GangFigure]:
    for arm, runs in found.items():
        for metric in COLUMNS:
            ours = estimate([float(getattr(run, metric)) for run in runs])
            yield GangFigure(arm=arm, metric=metric, mean=ours.mean, low=_bound(ours.low), high=_bound(ours.high))


def _pairs() -> Iterator[tuple[str, str]]:
    """Which arms are compared: each with the baseline, and ``dragon`` with itself without a part, the ablation."""
    baseline, *others = PARTS.values()
    yield from ((other, baseline) for other in others)
    yield from ((PARTS["dragon"], PARTS[without]) for without in ("no-scaling", "no-locality"))


def _changes(found: Mapping[str, Sequence[GangRun]]) -> Iterator[GangChange]:
    for arm, beside in _pairs():
        for metric in CHANGES if arm in found and beside in found else ():
            runs = zip(found[beside], found[arm], strict=True)
            pairs = [(float(getattr(before, metric)), float(getattr(after, metric))) for before, after in runs]
            if changes := [100 * (after / before - 1) for before, after in pairs if before]:
                ours = estimate(changes)
                yield GangChange(
                    arm=arm, beside=beside, metric=metric, mean=ours.mean, low=_bound(ours.low), high=_bound(ours.high)
                )


def _bound(value: float) -> float | None:
    return value if math.isfinite(value) else None


def write(found: GangResults, folder: Path) -> None:
    """Write the files of the report; others in the folder stay.

    Raises:
        OSError: They cannot be written.
    """
    said = report(found)
    write_files(folder, {"report.md": said.markdown, "report.html": said.html, "results.json": json_of(found)})


def report(found: GangResults) -> PaperReport:
    """The report: what ran, the means of each arm, and what changes."""
    step = found.step
    about = (
        f"{found.jobs} distributed trainings on two emulated nodes, {found.repetitions} repetitions of each arm, in real "
        "seconds. The baseline starts gangs whole, as they are named, and never scales them. It is stronger than the "
        "paper's baseline, the default Kubernetes scheduler, which places pod by pod."
    )
    cost = (
        f"A step of a server and one worker takes {step.one_node_ms:.1f} ms on one node, "
        f"and {step.two_nodes_ms:.1f} ms on two."
    )
    arms = dict.fromkeys(one.arm for one in found.figures)
    means = PageSection(
        columns=(f"mean of {found.repetitions}", *(f"#{name}" for name in COLUMNS.values())),
        rows=plain([arm, *_means(found.figures, arm)] for arm in arms),
    )
    sections = [means, *([_side_by_side(found.changes)] if found.changes else [])]
    return PaperReport(title="DRAGON with real trainings", said=(about, f"{found.locality} {cost}"), sections=sections)


def _means(figures: Sequence[GangFigure], arm: str) -> Iterator[str]:
    mean = {one.metric: one.mean for one in figures if one.arm == arm}
    for metric in COLUMNS:
        yield f"{100 * mean[metric]:.0f}" if metric == "utilisation" else f"{mean[metric]:,.1f}"


def _side_by_side(changes: Sequence[GangChange]) -> PageSection:
    about = (
        "Runs with the same seeds, and the 95 % interval of the mean change: one that contains zero is *inconclusive*. "
        f"The paper claims {CLAIMED}."
    )
    by_pair: dict[tuple[str, str], dict[str, GangChange]] = {}
    for one in changes:
        by_pair.setdefault((one.arm, one.beside), {})[one.metric] = one
    return PageSection(
        heading="What changes",
        said=(about,),
        columns=("", "compared with", "#mean completion", "#mean wait", "#makespan"),
        rows=[
            [(arm, ""), (beside, ""), *(_cell(found.get(metric)) for metric in CHANGES)]
            for (arm, beside), found in by_pair.items()
        ],
    )


def _cell(change: GangChange | None) -> Cell:
    if change is None:
        return ("", "")
    if change.low is None or change.high is None:
        return (f"{change.mean:+.0f} %", "")
    return (
        f"{change.mean:+.0f} % [{change.low:+.0f}, {change.high:+.0f}]",
        fall(change.low, change.high, or_equal=True),
    )
