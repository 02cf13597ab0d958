"""How a job's loss fell, in bounded memory: enough to say when 90 % of its reduction was done."""

from __future__ import annotations

from array import array
from typing import TypeVar

NumberT = TypeVar("NumberT", int, float)

REDUCTION = 0.9
"""T90 is the time at which this share of a job's own loss reduction is done."""

POINTS = 64
"""Points kept of a job; where there are more, every second one goes."""


class LearningCourse:
    """The means of a job's intervals, thinned as they grow in number."""

    def __init__(self) -> None:
        self._at_ms = array("q")
        self._means = array("d")

    def add(self, at_ms: int, mean: float) -> None:
        """An interval ended, with this mean of the loss."""
        if len(self._at_ms) >= POINTS:
            self._at_ms, self._means = _thinned(self._at_ms), _thinned(self._means)
        self._at_ms.append(at_ms)
        self._means.append(mean)

    def done_ms(self) -> int | None:
        """When 90 % of the difference between the first mean and the last was done; None where the loss did not fall."""
        if not self._means or not (reduction := self._means[0] - self._means[-1]) > 0:
            return None
        goal = self._means[0] - REDUCTION * reduction
        return next(at_ms for at_ms, mean in zip(self._at_ms, self._means, strict=True) if mean <= goal)


def _thinned(points: array[NumberT]) -> array[NumberT]:
    """Without every second one; the first and the last stay."""
    kept = points[::2]
    if len(points) % 2 == 0:
        kept.append(points[-1])
    return kept
