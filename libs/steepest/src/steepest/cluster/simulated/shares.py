"""How a node's CPU is shared among what trains on it.

Everybody gets an equal part, but nobody more than its cap or than it can use; what one leaves is shared among the others
(max-min fairness, which is what an operating system's fair scheduler gives to equal weights). Where caps *yield*, what then
is still idle goes to the capped ones as well: the reading of FlowCon's limits that its published numbers support, since
its thesis calls ``docker update`` limits soft and reports 25 % and 75 % for limits of 0.25 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence


def share_out(capacity: float, demands: Sequence[float], caps: Sequence[float | None], *, yields: bool) -> list[float]:
    """What each gets of ``capacity``; all in one unit.

    Args:
        capacity: What there is.
        demands: What each can use at most.
        caps: The limit of each; None: none.
        yields: Whether idle capacity goes to those that their caps hold back.
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


def max_min(capacity: float, ceilings: Sequence[float]) -> list[float]:
    """Equal parts of ``capacity``, none above its ceiling, with nothing left that anybody could use."""
    if sum(ceilings) <= capacity:
        return list(ceilings)
    shares = [0.0] * len(ceilings)
    left, waiting = capacity, len(ceilings)
    for index in sorted(range(len(ceilings)), key=ceilings.__getitem__):
        shares[index] = min(ceilings[index], left / waiting)
        left -= shares[index]
        waiting -= 1
    return shares
