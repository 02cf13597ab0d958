"""How a node's CPU is divided among its replicas. Pure: numbers in, numbers out.

Every replica gets the same share up to its own bound, and the rest goes to the others (max-min fairness). It must never
know how a share is enforced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from steepest.max_min import max_min

_K = TypeVar("_K")
_HEADROOM = 1.25  # a replica that needs more again grows by a quarter each heartbeat
_FULL_USE = 0.9  # a replica that uses nine tenths of its share may need more
_FLOOR_M = 50.0  # an idle replica must be able to wake up and show that it needs more


def divide(capacity: float, bounds: Mapping[_K, float], demands: Mapping[_K, float]) -> dict[_K, float]:
    """Divide ``capacity`` by what each can use, then the rest by what each may have.

    Without the second round a replica that uses less because the whole machine is full would get less and less.

    Args:
        capacity: In any unit, ≥ 0.
        bounds: The maximum that each may have.
        demands: The maximum that each can use, as far as is known.
    """
    used = max_min(capacity, [min(bound, demands[key]) for key, bound in bounds.items()])
    rest = max_min(
        max(capacity - sum(used), 0.0), [bound - has for bound, has in zip(bounds.values(), used, strict=True)]
    )
    return {key: has + more for key, has, more in zip(bounds, used, rest, strict=True)}


def demand(share: float | None, used: float | None) -> float:
    """Estimate how much a replica can use from how much of its share it used, all in millicores.

    Returns:
        Infinity if that is unknown, or if it used nearly all of its share.
    """
    if share is None or used is None or used >= _FULL_USE * share:
        return float("inf")
    return max(used * _HEADROOM, _FLOOR_M)
