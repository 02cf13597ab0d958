"""How a node's CPU is divided among its replicas. Pure: numbers in, numbers out.

Max-min fairness by progressive filling (Bertsekas and Gallager, *Data Networks*, 2nd ed., §6.5.2): everybody gets
the same until its own bound, and what somebody cannot use goes to the others. It must never know how a share is enforced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

_K = TypeVar("_K")
_HEADROOM = 1.25  # so that a replica that wants more again grows by a quarter each heartbeat
_FULL_USE = 0.9  # who uses nine tenths of its share may want more than it has
_FLOOR_M = 50.0  # an idle replica must be able to wake up and show that it wants more


def max_min(capacity: float, bounds: Mapping[_K, float]) -> dict[_K, float]:
    """Divide ``capacity`` so that no share can grow but at the cost of a smaller one.

    Args:
        capacity: In any unit, ≥ 0.
        bounds: The most that each can use, in the same unit, ≥ 0.

    Returns:
        The share of each: at most its bound, and at most ``capacity`` together.
    """
    shares = {}
    left = capacity
    waiting = sorted(bounds, key=lambda key: bounds[key])
    for position, key in enumerate(waiting):
        shares[key] = min(bounds[key], left / (len(waiting) - position))
        left -= shares[key]
    return shares


def divide(capacity: float, bounds: Mapping[_K, float], demands: Mapping[_K, float]) -> dict[_K, float]:
    """Divide by what everybody can use, then what is left by what everybody may have.

    Without the second round a replica that uses less because the whole machine is full would get less and less.

    Args:
        capacity: In any unit, ≥ 0.
        bounds: The most that each may have.
        demands: The most that each can use, as far as is known.
    """
    used = max_min(capacity, {key: min(bound, demands[key]) for key, bound in bounds.items()})
    spare = max_min(max(capacity - sum(used.values()), 0.0), {key: bounds[key] - used[key] for key in bounds})
    return {key: used[key] + spare[key] for key in bounds}


def demand(share: float | None, used: float | None) -> float:
    """How much a replica can use, judged by what it used of its share, all in millicores.

    Returns:
        Infinity where it is unknown, or where it used nearly all that it might.
    """
    if share is None or used is None or used >= _FULL_USE * share:
        return float("inf")
    return max(used * _HEADROOM, _FLOOR_M)
