"""Shares a node's CPU among the trainings on it.

Each gets an equal part, up to its cap and to what it can use; the rest is shared among the others (max-min fairness,
which an operating system's fair scheduler provides for equal weights). If caps *yield*, CPU that is still idle then
goes to the capped ones as well. FlowCon's published numbers support this reading of its limits: its thesis calls
``docker update`` limits soft and reports 25 % and 75 % for limits of 0.25 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest.max_min import max_min


def share_out(capacity: float, demands: Sequence[float], caps: Sequence[float | None], *, yields: bool) -> list[float]:
    """Divide ``capacity``; all quantities have the same unit.

    Args:
        capacity: The total.
        demands: The maximum that each can use.
        caps: The limit of each; None: no limit.
        yields: Whether idle capacity also goes to those beyond their caps.
    """
    ceilings = [demand if cap is None else min(demand, cap) for demand, cap in zip(demands, caps, strict=True)]
    shares = max_min(capacity, ceilings)
    left = capacity - sum(shares)
    if yields and left > 0.0:
        unmet = [demand - share for demand, share in zip(demands, shares, strict=True)]
        shares = [share + more for share, more in zip(shares, max_min(left, unmet), strict=True)]
    return shares


def slowdown(contention: float, capacity: float, demands: Sequence[float], caps: Sequence[float | None]) -> float:
    """How many times slower every training goes than its share alone would make it; at least 1.

    Processes that want more CPU than there is evict each other's caches and wait for each other's locks: 1 + contention ×
    the demand in excess of the capacity, as a share of the capacity. What a cap holds back contends for nothing.
    """
    wanted = sum(demand if cap is None else min(demand, cap) for demand, cap in zip(demands, caps, strict=True))
    return 1.0 + contention * max(0.0, wanted / capacity - 1.0) if contention else 1.0
