"""The report of DRAGON's simulations: tables by load, claimed and simulated figures, and the assumptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from steepest_lab.reproduce.dragon.loads import (
    AT_BEST,
    CLAIMED_TIME,
    CLAIMED_UTILISATION,
    DEFAULT,
    POLICIES,
    GangFigures,
)
from steepest_lab.reproduce.pages.rendering import PageSection, PaperReport, csv_of_structs, json_of, plain, write_files
from steepest_lab.sim.system.simulate import ASSUMPTIONS, OF_GANGS

FILES = ("report.md", "report.html", "results.csv", "results.json")

COLUMNS = (
    "policy",
    "JCT",
    "JCT change",
    "at least",
    "used",
    "points",
    "computing",
    "ended",
    "dead-locked",
    "up",
    "down",
    "in parts",
)

OF_LOADS = (
    "Arrivals, lengths, sizes and the network are reconstructions (sim/workloads/gang_arrivals.py), stated before any run.",
    "Under kube-default, the order in which waiting replicas are tried again is drawn once for each.",
    "A GPU is used while its gang exchanges; utilisation is over the time until the policy's own last end.",
    "`tiresias` and `optimus` share GPUs out without a network, and Optimus knows each job's length: they are bounds.",
)

OURS = ("dragon-paper-era", "dragon", "dragon-fixed")

EVERY_LOAD = "Every load"
"""The section of the report that the documentation leaves out."""


def write(rows: Sequence[GangFigures], folder: Path) -> None:
    """The files of the report.

    Raises:
        OSError: They cannot be written.
    """
    found = report(rows)
    files = (found.markdown, found.html, csv_of_structs(GangFigures, rows), json_of(rows))
    write_files(folder, dict(zip(FILES, files, strict=True)))


def report(rows: Sequence[GangFigures]) -> PaperReport:
    """The claims and their verdicts, comparisons with the default scheduler at its best, and the figures of every load."""
    claimed = (
        f"Claimed against Kubernetes' default scheduler: {-CLAIMED_TIME:g} % less completion time, and "
        f"{CLAIMED_UTILISATION:g} to 30 points more utilisation. Means over {rows[0].seeds if rows else 0} seeds."
    )
    of_computing = (
        "The share of GPU-seconds that the jobs needed to compute, without what they exchanged, lost and did again: what a "
        "GPU's own utilisation shows. In the same units."
    )
    of_loads = (
        f"Changes are against `{DEFAULT}`. *JCT change*: over the jobs that end under both; *at least*: jobs that never end "
        "count up to the last end of any policy. *in parts*: the longest that a gang was, in s."
    )
    sections = [
        PageSection(heading="What was claimed", points=list(verdicts(rows))),
        _beside_best(
            rows,
            f"The mean completion time compared with `{AT_BEST}`",
            f"`{AT_BEST}`'s own is in s, the others' changes against it in %.",
            lambda best: f"{best.mean_jct:,.0f}",
            _time_beside,
        ),
        _share_beside_best(
            rows,
            f"The utilisation compared with `{AT_BEST}`",
            f"`{AT_BEST}`'s own is in %, the others' changes against it in points.",
            lambda row: row.utilisation,
        ),
        _share_beside_best(rows, f"The computing compared with `{AT_BEST}`", of_computing, lambda row: row.computing),
        PageSection(heading=EVERY_LOAD, said=(of_loads,)),
    ]
    for load in dict.fromkeys(row.load for row in rows):
        of_load = plain(cells(row) for row in rows if row.load == load)
        sections.append(PageSection(heading=str(load), level=3, columns=COLUMNS, rows=of_load))
    assumptions = (*OF_LOADS, *OF_GANGS, *ASSUMPTIONS)
    return PaperReport(title="DRAGON in simulated pools", said=(claimed,), sections=sections, assumptions=assumptions)


def _time_beside(row: GangFigures, best: GangFigures) -> str:
    change = f"{100 * (row.mean_jct / best.mean_jct - 1):+.0f}" if best.mean_jct else ""
    return change if row.finished == 1.0 else f"({100 * row.finished:.0f} % end)"


def _share_beside_best(
    rows: Sequence[GangFigures], heading: str, said: str, share: Callable[[GangFigures], float]
) -> PageSection:
    """A row a load: each policy's share of GPU-seconds against that of the default scheduler at its best."""
    return _beside_best(
        rows,
        heading,
        said,
        lambda best: f"{share(best):.0f}",
        lambda row, best: f"{share(row) - share(best):+.0f}",
    )


def _beside_best(
    rows: Sequence[GangFigures],
    heading: str,
    said: str,
    own: Callable[[GangFigures], str],
    cell: Callable[[GangFigures, GangFigures], str],
) -> PageSection:
    policies = [policy for policy in POLICIES if policy != AT_BEST]
    found = {(row.load, row.policy): row for row in rows}
    lines = []
    for load in dict.fromkeys(row.load for row in rows):
        best = found[load, AT_BEST]
        lines.append([str(load), own(best), *(cell(found[load, policy], best) for policy in policies)])
    columns = ("load", f"#{AT_BEST}", *(f"#{policy}" for policy in policies))
    return PageSection(heading=heading, said=(said,), columns=columns, rows=plain(lines))


def cells(row: GangFigures) -> Sequence[str]:
    """A row of a load's table."""
    return (
        row.policy,
        f"{row.mean_jct:,.0f}",
        "" if row.policy == DEFAULT else f"{row.time_change:+.0f} %",
        "" if row.policy == DEFAULT else f"{row.bound_change:+.0f} %",
        f"{row.utilisation:.0f} %",
        "" if row.policy == DEFAULT else f"{row.utilisation_change:+.0f}",
        f"{row.computing:.0f} %",
        f"{100 * row.finished:.0f} %",
        f"{row.deadlocked:.1f}",
        f"{row.scale_ups:.1f}",
        f"{row.scale_downs:.1f}",
        f"{row.partial_s:,.0f}",
    )


def verdicts(rows: Sequence[GangFigures]) -> Iterable[str]:
    """Verdicts on each variant's claims, against the default scheduler and against it at its best."""
    found = {(row.load, row.policy): row for row in rows}
    for policy in OURS:
        of = [row for row in rows if row.policy == policy]
        fifo = [found[row.load, AT_BEST] for row in of]
        bound = sum(row.bound_change <= CLAIMED_TIME for row in of)
        used = sum(row.utilisation_change >= CLAIMED_UTILISATION for row in of)
        changes = [100 * (row.mean_jct / best.mean_jct - 1) for row, best in zip(of, fifo, strict=True)]
        points = [row.utilisation - best.utilisation for row, best in zip(of, fifo, strict=True)]
        computing = [row.computing - best.computing for row, best in zip(of, fifo, strict=True)]
        yield (
            f"`{policy}` against `{DEFAULT}`: the completion time as claimed under {bound} of {len(of)} loads, the "
            f"utilisation under {used}. Against `{AT_BEST}`: {min(changes):+.0f} to {max(changes):+.0f} % and "
            f"{min(points):+.0f} to {max(points):+.0f} points; as claimed under "
            f"{sum(one <= CLAIMED_TIME for one in changes)} and {sum(one >= CLAIMED_UTILISATION for one in points)} of "
            f"{len(of)} loads. Of computing alone: {min(computing):+.0f} to {max(computing):+.0f} points, "
            f"{CLAIMED_UTILISATION:g} or more under {sum(one >= CLAIMED_UTILISATION for one in computing)}."
        )
    for other in ("dragon", "dragon-no-scaling"):
        worse = [
            f"{row.load} ({100 * (found[row.load, 'dragon-fixed'].mean_jct / row.mean_jct - 1):+.1f} %)"
            for row in rows
            if row.policy == other and found[row.load, "dragon-fixed"].mean_jct > row.mean_jct
        ]
        yield f"`dragon-fixed` is worse than `{other}` under {'; '.join(worse) or 'no load'}."
