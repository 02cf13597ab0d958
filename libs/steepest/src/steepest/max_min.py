"""Max-min fairness by progressive filling (Bertsekas and Gallager, *Data Networks*, 2nd ed., §6.5.2)."""

from __future__ import annotations

from collections.abc import Sequence


def max_min(capacity: float, ceilings: Sequence[float]) -> list[float]:
    """Divide ``capacity`` so that no share can grow except at the cost of a smaller one.

    Args:
        capacity: In any unit, ≥ 0.
        ceilings: The maximum that each can use, in the same unit, ≥ 0.

    Returns:
        The share of each: at most its ceiling, and at most ``capacity`` together.
    """
    if sum(ceilings) <= capacity:
        return list(ceilings)
    shares = [0.0] * len(ceilings)
    left, waiting = capacity, len(ceilings)
    for index in sorted(range(len(ceilings)), key=ceilings.__getitem__):
        shares[index] = min(ceilings[index], left / waiting)
        left -= shares[index]
        waiting -= 1
    return shares
