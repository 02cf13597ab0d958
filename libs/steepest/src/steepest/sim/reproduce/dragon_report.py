"""The report of DRAGON's simulations: a table a load, the claims beside what came out, and the assumptions."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from steepest.sim.reproduce.dragon import AT_BEST, CLAIMED_TIME, CLAIMED_UTILISATION, DEFAULT, GangFigures
from steepest.sim.system.simulate import ASSUMPTIONS, OF_GANGS

FILES = ("report.md", "results.csv", "results.json")

COLUMNS = (
    "policy",
    "JCT",
    "JCT change",
    "at least",
    "used",
    "points",
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
)


def write(rows: Sequence[GangFigures], folder: Path) -> None:
    """The files of the report.

    Raises:
        OSError: They cannot be written.
    """
    (folder / "report.md").write_text("\n".join(markdown(rows)) + "\n", encoding="utf-8")
    (folder / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
    with (folder / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(GangFigures.__struct_fields__)
        writer.writerows(msgspec.structs.astuple(row) for row in rows)


def markdown(rows: Sequence[GangFigures]) -> Iterable[str]:
    """The report's lines."""
    yield "# DRAGON in simulated pools"
    yield ""
    yield (
        f"Claimed against Kubernetes' default scheduler: {-CLAIMED_TIME:g} % less completion time, and "
        f"{CLAIMED_UTILISATION:g} to 30 points more utilisation. Means over seeds. *JCT change*: over the jobs that end "
        "under both; *at least*: jobs that never end count up to the last end of any policy. *in parts*: the longest that a "
        "gang was, in s."
    )
    for load in dict.fromkeys(row.load for row in rows):
        of = [row for row in rows if row.load == load]
        yield from (
            "",
            f"## {load} ({of[0].seeds} seeds)",
            "",
            f"| {' | '.join(COLUMNS)} |",
            "|---" * len(COLUMNS) + "|",
        )
        for row in of:
            yield f"| {' | '.join(cells(row))} |"
    yield from ("", "## What was claimed", "")
    yield from verdicts(rows)
    yield from ("", "## What was assumed", "")
    yield from (f"* {one}" for one in (*OF_LOADS, *OF_GANGS, *ASSUMPTIONS))


def cells(row: GangFigures) -> Sequence[str]:
    """A row of a load's table."""
    return (
        row.policy,
        f"{row.mean_jct:,.0f}",
        "" if row.policy == DEFAULT else f"{row.time_change:+.0f} %",
        "" if row.policy == DEFAULT else f"{row.bound_change:+.0f} %",
        f"{row.utilisation:.0f} %",
        "" if row.policy == DEFAULT else f"{row.utilisation_change:+.0f}",
        f"{100 * row.finished:.0f} %",
        f"{row.deadlocked:.1f}",
        f"{row.scale_ups:.1f}",
        f"{row.scale_downs:.1f}",
        f"{row.partial_s:,.0f}",
    )


def verdicts(rows: Sequence[GangFigures]) -> Iterable[str]:
    """How each variant stands to the claims."""
    fifo = {row.load: row.mean_jct for row in rows if row.policy == AT_BEST}
    for policy in ("dragon", "dragon-paper-era", "dragon-fixed"):
        of = [row for row in rows if row.policy == policy]
        time = sum(row.bound_change <= CLAIMED_TIME for row in of)
        used = sum(row.utilisation_change >= CLAIMED_UTILISATION for row in of)
        best = [100 * (row.mean_jct / fifo[row.load] - 1) for row in of if fifo.get(row.load)]
        yield (
            f"* `{policy}`: the completion time under {time} of {len(of)} loads, the utilisation under {used}; against "
            f"`{AT_BEST}` the mean completion time changes by {min(best):+.0f} to {max(best):+.0f} %."
        )
    fixed = {row.load: row.mean_jct for row in rows if row.policy == "dragon-fixed"}
    worse = [row.load for row in rows if row.policy == "dragon" and fixed[row.load] > row.mean_jct]
    yield f"* `dragon-fixed` is worse than `dragon` under {', '.join(worse) or 'no load'}."
