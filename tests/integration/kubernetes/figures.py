"""What the tests of a run measured and counted, as one JSON object: the last line of ``make test-kubernetes``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

MOVE_MS_MOST = 5_000
"""The median of a move, from the decision to the first step at the new place."""

OWN_MS_MOST = 300
"""The median of Steepest's own part of it."""

COUNTED = ("status_failed", "lost", "doubled", "orphans", "untouched_writes", "rbac_excess")


class Figures:
    """What was measured so far.

    Attributes:
        move_ms: How long each move took, from the decision to the first step at the new place.
        own_ms: Which part of that was Steepest's own, of moves that met no fault.
    """

    def __init__(self) -> None:
        self.move_ms: list[int] = []
        self.own_ms: list[float] = []
        self._counted: dict[str, int] = {}

    def count(self, **found: int) -> None:
        """Add to what is counted; all of it should be 0."""
        for name, number in found.items():
            assert name in COUNTED
            self._counted[name] = self._counted.get(name, 0) + number

    def wrong(self) -> list[str]:
        """What is not as it must be after a run of all tests; in words, with the figure."""
        found = self._all()
        counts = [f"{name} is {found[name]}, and not 0" for name in COUNTED if found[name] != 0]
        times = (
            ("the median of a move", found["move_ms"]["p50"], MOVE_MS_MOST),
            ("the median of its own part", found["own_ms_p50"], OWN_MS_MOST),
        )
        slow = [f"{what} is {ms} ms, and not {most} ms at most" for what, ms, most in times if ms is None or ms > most]
        return counts + slow

    def __str__(self) -> str:
        """All figures; what no test has measured is null."""
        return json.dumps(self._all())

    def _all(self) -> dict[str, Any]:
        return {
            "moves": len(self.move_ms),
            "move_ms": {"p50": _quantile(self.move_ms, 0.5), "p99": _quantile(self.move_ms, 0.99)},
            "own_ms_p50": _quantile(self.own_ms, 0.5),
            **{name: self._counted.get(name) for name in COUNTED},
        }


def _quantile(values: Sequence[float], share: float) -> int | None:
    return round(sorted(values)[min(int(share * len(values)), len(values) - 1)]) if values else None
