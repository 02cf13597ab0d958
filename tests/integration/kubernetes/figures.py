"""What the tests of a run measured and counted, as one JSON object: the last line of ``make test-kubernetes``."""

from __future__ import annotations

import json
from collections.abc import Sequence

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

    def __str__(self) -> str:
        """All figures; what no test has measured is null."""
        return json.dumps(
            {
                "moves": len(self.move_ms),
                "move_ms": {"p50": _quantile(self.move_ms, 0.5), "p99": _quantile(self.move_ms, 0.99)},
                "own_ms_p50": _quantile(self.own_ms, 0.5),
                **{name: self._counted.get(name) for name in COUNTED},
            }
        )


def _quantile(values: Sequence[float], share: float) -> int | None:
    return round(sorted(values)[min(int(share * len(values)), len(values) - 1)]) if values else None
