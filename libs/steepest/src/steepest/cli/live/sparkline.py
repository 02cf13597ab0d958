"""Sparklines: a course of numbers in one row of text. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """Values from lowest to highest block, the whole course in at most ``width`` letters.

    Where there are more values than letters, each letter is the mean of its share of them, all shares nearly alike.
    """
    if not values or width < 1:
        return ""
    letters = min(width, len(values))
    edges = [place * len(values) // letters for place in range(letters + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, high = min(means), max(means)
    unit = (high - low) or 1.0
    return "".join(BLOCKS[round((mean - low) / unit * (len(BLOCKS) - 1))] for mean in means)
