"""What the tests of a run measured and counted, as one JSON object: the last line of ``make test-kubernetes``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

MOVE_MS_MOST = 5_000
"""The median of a move, from the decision to the first step at the new place."""

OWN_MS_MOST = 300
"""The median of Steepest's own part of it."""

MOVES_LEAST = 10
"""So many moves say what they consist of: the median of three is chance."""

COUNTED = ("status_failed", "lost", "doubled", "orphans", "untouched_writes", "rbac_excess")


class Figures:
    """What was measured so far.

    Attributes:
        move_ms: How long each move took, from the decision to the first step at the new place.
        own_ms: Which parts of that were Steepest's own, by name, of moves that met no fault.
    """

    def __init__(self) -> None:
        self.move_ms: list[int] = []
        self.own_ms: list[Mapping[str, float]] = []
        self._counted: dict[str, int] = {}

    def count(self, **found: int) -> None:
        """Add to what is counted; all of it should be 0."""
        for name, number in found.items():
            assert name in COUNTED
            self._counted[name] = self._counted.get(name, 0) + number

    def wrong(self) -> list[str]:
        """What is not as it must be after a run of all tests, however fast the machine is; in words, with the figure."""
        found = self._all()
        wrong = [f"{name} is {found[name]}, and not 0" for name in COUNTED if found[name] != 0]
        if len(self.own_ms) < MOVES_LEAST:
            wrong.append(f"the parts of {len(self.own_ms)} moves are known, and not of {MOVES_LEAST} at least")
        return wrong

    def slow(self) -> list[str]:
        """Which time is longer than it may be on a machine that does nothing else; in words, with the figure."""
        found = self._all()
        times = (
            ("the median of a move", found["move_ms"]["p50"], MOVE_MS_MOST),
            ("the median of its own part", found["own_ms_p50"], OWN_MS_MOST),
        )
        return [f"{what} is {ms} ms, and not {most} ms at most" for what, ms, most in times if ms is None or ms > most]

    def own_parts(self) -> str:
        """The median of each of Steepest's own parts of a move, in words."""
        names = self.own_ms[0] if self.own_ms else {}
        parts = [f"{name} {_quantile([each[name] for each in self.own_ms], 0.5)} ms" for name in names]
        return f"Steepest's own parts of {len(self.own_ms)} moves, medians: {', '.join(parts) or 'none'}"

    def __str__(self) -> str:
        """All figures; what no test has measured is null."""
        return json.dumps(self._all())

    def _all(self) -> dict[str, Any]:
        return {
            "moves": len(self.move_ms),
            "move_ms": {"p50": _quantile(self.move_ms, 0.5), "p99": _quantile(self.move_ms, 0.99)},
            "own_ms_p50": _quantile([sum(each.values()) for each in self.own_ms], 0.5),
            **{name: self._counted.get(name) for name in COUNTED},
        }


def _quantile(values: Sequence[float], share: float) -> int | None:
    return round(sorted(values)[min(int(share * len(values)), len(values) - 1)]) if values else None
