"""The results of runs with real gangs: each arm beside the one that scales nothing, and DRAGON without a part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.demo.gangs.report import locality
from steepest.sim.reproduce.verdict import estimate
from steepest.testbed.gang_runs import PARTS, GangRun, StepCost

FILES = ("report.md", "results.json")

CHANGES = ("completion_s", "waited_s", "makespan_s")
"""Figures that are also given as a change against the baseline, in percent."""

LEFT_OUT = ("no-scaling", "no-locality")
"""Arms without a part of DRAGON, which ``dragon`` is paired with by the same seeds: the ablation."""

PUBLISHED = {"completion_s": "−65 % (over 65 %)", "utilisation": "+20 to +30 points"}
"""What the paper's abstract claims against the default Kubernetes scheduler, which is not the baseline here."""


class GangFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of an arm: its mean, the 95 % confidence interval (None: a single run), and the mean change.

    Attributes:
        change: Against the baseline with the same seeds, in percent; None: it has none.
    """

    arm: str
    metric: str
    mean: float
    low: float | None
    high: float | None
    change: float | None = None


class PartGives(msgspec.Struct, frozen=True, kw_only=True):
    """The mean change of a figure under ``dragon`` beside the arm without a part, with the same seeds, in percent.

    Attributes:
        low: Of the 95 % confidence interval, as ``high``; None: of a single pair.
    """

    without: str
    metric: str
    change: float
    low: float | None
    high: float | None


class GangResults(msgspec.Struct, frozen=True, kw_only=True):
    """All that the runs came to.

    Attributes:
        link_mbit: The rate of the nodes' links; None: they had none.
        locality: What the runs say of locality.
        parts: What each part of DRAGON gives, where the arms that say so were run.
    """

    repetitions: int
    jobs: int
    link_mbit: int | None
    locality: str
    step: StepCost
    figures: Sequence[GangFigure]
    parts: Sequence[PartGives]


def results(
    found: Mapping[str, Sequence[GangRun]], step: StepCost, link_mbit: int | None, why_no_links: str, jobs: int
) -> GangResults:
    """What all runs came to; changes are against the baseline, where that was run."""
    return GangResults(
        repetitions=len(next(iter(found.values()))),
        jobs=jobs,
        link_mbit=link_mbit,
        locality=locality(link_mbit, why_no_links),
        step=step,
        figures=list(_figures(found)),
        parts=list(_parts(found)),
    )


def _figures(found: Mapping[str, Sequence[GangRun]]) -> Iterator[GangFigure]:
    baseline = found.get(next(iter(PARTS.values())))
    for arm, runs in found.items():
        for metric in GangRun.__struct_fields__:
            values = [float(getattr(run, metric)) for run in runs]
            before = [float(getattr(run, metric)) for run in baseline or ()]
            ours = estimate(values)
            paired = _changes(before, values) if before and metric in CHANGES and runs is not baseline else []
            yield GangFigure(
                arm=arm,
                metric=metric,
                mean=ours.mean,
                low=_bound(ours.low),
                high=_bound(ours.high),
                change=round(estimate(paired).mean, 1) if paired else None,
            )


def _parts(found: Mapping[str, Sequence[GangRun]]) -> Iterator[PartGives]:
    whole = found.get(PARTS["dragon"], ())
    for without in (PARTS[part] for part in LEFT_OUT):
        for metric in CHANGES if whole and without in found else ():
            before, after = ([float(getattr(run, metric)) for run in runs] for runs in (found[without], whole))
            if changes := _changes(before, after):
                ours = estimate(changes)
                yield PartGives(
                    without=without, metric=metric, change=ours.mean, low=_bound(ours.low), high=_bound(ours.high)
                )


def _changes(before: Sequence[float], after: Sequence[float]) -> Sequence[float]:
    return [100 * (now / then - 1) for then, now in zip(before, after, strict=True) if then]


def _bound(value: float) -> float | None:
    return value if math.isfinite(value) else None


def write(found: GangResults, folder: Path) -> None:
    """Write the files of the report; others in the folder stay.

    Raises:
        OSError: They cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").write_text(report(found), encoding="utf-8")
    (folder / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(found)))


def report(found: GangResults) -> str:
    """The report, in Markdown."""
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
    lines = [
        "# DRAGON with real trainings",
        "",
        about,
        "",
        found.locality,
        cost,
        "",
        "| arm | figure | mean | 95 % interval | change | published |",
        "|---|---|---|---|---|---|",
    ]
    for one in found.figures:
        interval = "" if one.low is None or one.high is None else f"{one.low:,.2f} to {one.high:,.2f}"
        change = "" if one.change is None else f"{one.change:+.1f} %"
        published = PUBLISHED.get(one.metric, "") if one.arm.startswith("dragon") else ""
        lines.append(f"| {one.arm} | {one.metric} | {one.mean:,.2f} | {interval} | {change} | {published} |")
    return "\n".join([*lines, *_ablation(found.parts), ""])


def _ablation(parts: Sequence[PartGives]) -> Iterator[str]:
    if not parts:
        return
    yield from ("", "## What the parts give", "")
    yield "`dragon` beside itself without a part, with the same seeds. An interval that contains zero shows no change."
    yield from ("", "| beside | figure | change | 95 % interval |", "|---|---|---|---|")
    for one in parts:
        interval = "" if one.low is None or one.high is None else f"{one.low:+.1f} to {one.high:+.1f} %"
        yield f"| {one.without} | {one.metric} | {one.change:+.1f} % | {interval} |"
