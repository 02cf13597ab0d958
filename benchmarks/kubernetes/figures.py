"""What the benchmark prints of its turns: each one's lines, the table of all, and the last line.

It owns how several turns of a contender become one figure. It must never measure.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.kubernetes import control_plane
from benchmarks.kubernetes.turn import OWN, Turn, spread

_HEADINGS = (
    "",
    "turns",
    "bound",
    "placements/s",
    "submission to binding p50, ms",
    "p99, ms",
    "own requests each",
    "CPU each, ms",
)


def lines(turn: Turn, jobs: int) -> list[str]:
    """A turn in words."""
    waited = spread(turn.waited_ms)
    found = [
        (
            f"{turn.name}: {turn.placed} of {jobs} bound in {turn.seconds:.1f} s, {turn.per_s:.1f} a second; submission to"
            f" binding p50 {waited['p50']} ms, p99 {waited['p99']} ms; {turn.requests_each:.2f} requests a placement;"
            f" load {turn.load:.1f}"
        )
    ]
    if turn.decided_ms:
        found.append(f"  decision to running: {spread(turn.decided_ms)} ms; {turn.restarts} restarts")
    for user, kinds in turn.requests.items():
        counts = sorted(kinds.items(), key=lambda one: -one[1])
        found.append(f"  {user}: {', '.join(f'{kind} {count}' for kind, count in counts)}")
    for name, mib in sorted(turn.rss_mib.items(), key=lambda one: -turn.cpu_s[one[0]]):
        found.append(f"  {name:24} {mib:6} MiB {turn.cpu_s[name]:8.1f} s of CPU")
    return found


def table(turns: Sequence[Turn]) -> list[str]:
    """A row for each contender, in the order of their first turns: medians of its turns."""
    rows = [_HEADINGS]
    for name in dict.fromkeys(turn.name for turn in turns):
        own = [turn for turn in turns if turn.name == name]
        waited = spread([one for turn in own for one in turn.waited_ms])
        rows.append(
            (
                name,
                str(len(own)),
                str(sum(turn.placed for turn in own)),
                str(_per_s(own)),
                str(waited["p50"]),
                str(waited["p99"]),
                f"{statistics.median(turn.requests_each for turn in own):.2f}",
                f"{statistics.median(turn.cpu_ms_each for turn in own):.1f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def result(turns: Sequence[Turn], nodes: int, jobs: int) -> dict[str, Any]:
    """The last line: of several turns the median of each figure, and the most memory; null: not measured."""
    by_name = {name: [turn for turn in turns if turn.name == name] for name in dict.fromkeys(t.name for t in turns)}
    ours = by_name.get("steepest", [])
    others = {*control_plane.PROGRAMS, *OWN}
    services = sorted({name for turn in ours for name in turn.rss_mib if name not in others})
    return {
        "nodes": nodes,
        "jobs": jobs,
        "placements_s": _per_s(ours),
        "default_s": _per_s(by_name.get("default", [])),
        "kueue_s": _per_s(by_name.get("kueue", [])),
        "coscheduling_s": _per_s(by_name.get("coscheduling", [])),
        "decision_running_ms": spread([one for turn in ours for one in turn.decided_ms]),
        "submission_bound_ms": {
            name: spread([one for turn in own for one in turn.waited_ms]) for name, own in by_name.items()
        },
        "api_requests_per_placement": round(statistics.median(turn.requests_each for turn in ours), 2)
        if ours
        else None,
        "rss_mib": {name: max(turn.rss_mib.get(name, 0) for turn in ours) for name in services},
    }


def _per_s(turns: Sequence[Turn]) -> float | None:
    return round(statistics.median(turn.per_s for turn in turns), 1) if turns else None
