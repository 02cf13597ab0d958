"""When a training has learned most: where its losses have a share of their whole reduction. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from steepest.policies.steepest.learning_history import LEARNED

BESIDE = 2
"""Losses on each side over which the median is taken: those of single batches scatter."""


def learned_at(run: Sequence[tuple[float, float]]) -> float | None:
    """Where a run has 90 % of the reduction from its first loss to its lowest one; None if its loss does not fall.

    Args:
        run: Steps, or shares of all steps, with a loss each, by rising step. Losses are smoothed by medians of five.
    """
    losses = [loss for _, loss in run]
    smooth = [statistics.median(losses[max(0, at - BESIDE) : at + BESIDE + 1]) for at in range(len(losses))]
    if not smooth or smooth[0] <= min(smooth):
        return None
    goal = smooth[0] - LEARNED * (smooth[0] - min(smooth))
    return next(at for (at, _), loss in zip(run, smooth, strict=True) if loss <= goal)
